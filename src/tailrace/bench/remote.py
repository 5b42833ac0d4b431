"""The option `--remote rtt=30ms,bandwidth=1gbit`, and the settings that make it so.

Problem: a run on one machine has its checkpoint on a local disk, where a commit costs little.
Answer: the engine's `remote` file system: the local disk behind a line with a round-trip time and
a bandwidth (engine/src/tailrace/bench/RemoteFileSystem.scala).
Invariant: a `Remote` that exists has a positive round-trip time or a positive bandwidth.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tailrace import _jvm
from tailrace.bench.stores import BenchError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_TIMES = {"us": 1_000, "ms": 1_000_000, "s": 1_000_000_000}
_BITS = {"kbit": 10**3, "mbit": 10**6, "gbit": 10**9}
_BYTES = {"kb": 10**3, "mb": 10**6, "gb": 10**9}

MODEL = (
    "The checkpoint is on a local disk behind a simulated line: every metadata operation (create, "
    "open, close after writing, rename, delete, list, status, mkdirs) and every read of a part of "
    "a file waits for one round trip, and all streams of the process share one bandwidth per "
    "direction. Not modelled: lost packets, slow start, load and replication on the server, other "
    "clients, the CPU of a client library."
)


@dataclass(frozen=True)
class Remote:
    """A line to a remote checkpoint."""

    rtt_nanos: int
    bandwidth_bytes: int
    """Per second and direction; 0 is no limit."""

    @classmethod
    def parse(cls, text: str) -> Remote:
        rtt = bandwidth = 0
        for part in text.split(","):
            name, _, value = part.strip().partition("=")
            number, unit = _quantity(value.strip().lower())
            if name == "rtt" and unit in _TIMES:
                rtt = round(number * _TIMES[unit])
            elif name == "bandwidth" and unit in _BITS:
                bandwidth = round(number * _BITS[unit] / 8)
            elif name == "bandwidth" and unit in _BYTES:
                bandwidth = round(number * _BYTES[unit])
            else:
                raise BenchError(
                    f"--remote does not understand {part.strip()!r}.",
                    "It takes rtt (with us, ms or s) and bandwidth (with kbit, mbit, gbit, kb, mb "
                    "or gb a second).",
                    "Write it like --remote rtt=30ms,bandwidth=1gbit.",
                )
        if rtt <= 0 and bandwidth <= 0:
            raise BenchError(
                "--remote describes a line without any cost.",
                f"{text!r} has neither a round-trip time nor a bandwidth above 0.",
                "Write it like --remote rtt=30ms,bandwidth=1gbit, or leave it out.",
            )
        return cls(rtt, bandwidth)

    def settings(self) -> dict[str, str]:
        """Spark's settings for the session that uses it."""
        return {
            "spark.hadoop.fs.remote.impl": "tailrace.bench.RemoteFileSystem",
            "spark.hadoop.fs.AbstractFileSystem.remote.impl": "tailrace.bench.RemoteFileContext",
            "spark.hadoop.fs.remote.rtt.nanos": str(self.rtt_nanos),
            "spark.hadoop.fs.remote.bandwidth.bytes": str(self.bandwidth_bytes),
        }

    def described(self) -> dict[str, Any]:
        return {
            "rtt_ms": self.rtt_nanos / 1e6,
            "bandwidth_mbit_per_second": self.bandwidth_bytes * 8 / 1e6 or None,
            "model": MODEL,
        }


class LineMeter:
    """Operations, bytes and waiting on the line since the last look."""

    def __init__(self, spark: SparkSession, remote: Remote) -> None:
        system: Any = _jvm.engine(spark).classes.bench.RemoteFileSystem
        self._link = system.link(remote.rtt_nanos, remote.bandwidth_bytes)
        self._known: dict[str, int] = {}

    def spent(self) -> dict[str, int]:
        pairs = (pair.split("=") for pair in str(self._link.counts()).split())
        present = {name: int(value) for name, value in pairs}
        found = {name: value - self._known.get(name, 0) for name, value in present.items()}
        self._known = present
        return found


def behind_settings(remote: Remote | None) -> dict[str, str]:
    """For the file system that writes in the background, onto the remote one or the disk."""
    return {
        "spark.hadoop.fs.behind.impl": "tailrace.bench.BehindFileSystem",
        "spark.hadoop.fs.AbstractFileSystem.behind.impl": "tailrace.bench.BehindFileContext",
        "spark.hadoop.fs.behind.below": "remote" if remote else "file",
    }


def _quantity(text: str) -> tuple[float, str]:
    match = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?)([a-z]+?)(?:/s|ps)?", text)
    return (float(match[1]), match[2]) if match else (0.0, "")
