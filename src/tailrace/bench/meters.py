"""The costs of a batch beside its time: CPU, memory, garbage collection, files.

Problem: two stores with the same latency may differ in everything else, and both live in one JVM.
Answer: counters are read before and after each batch, and their difference is the batch's. The
files of a checkpoint are counted by comparing its folder before and after.
Invariant: reading happens between batches, while every query sleeps, so it is in no query's time.

Limits: memory belongs to the whole JVM, where the state of all stores of the run is. Files that
were written and deleted within one batch (temporary files) are not seen.
"""

from __future__ import annotations

import contextlib
import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tailrace import _jvm

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_PROC = Path("/proc")


@dataclass(frozen=True)
class Sample:
    """Counters at one moment."""

    jvm_cpu: float
    python_cpu: float
    workers_cpu: float
    gc_count: int
    gc_millis: int
    heap_peak_bytes: int
    off_heap_bytes: int
    rss_peak_bytes: int | None

    def since(self, before: Sample) -> dict[str, Any]:
        """The costs between two samples, and the peaks at the later one."""
        cpu = {
            "jvm": self.jvm_cpu - before.jvm_cpu,
            "python": self.python_cpu - before.python_cpu,
            # A worker that ended takes its counter with it.
            "workers": max(0.0, self.workers_cpu - before.workers_cpu),
        }
        return {
            "cpu_seconds": {name: round(value, 6) for name, value in cpu.items()},
            "gc": {
                "count": self.gc_count - before.gc_count,
                "millis": self.gc_millis - before.gc_millis,
            },
            "memory": {
                "heap_peak_bytes": self.heap_peak_bytes,
                "off_heap_bytes": self.off_heap_bytes,
                "rss_peak_bytes": self.rss_peak_bytes,
            },
        }


class Meters:
    """The counters of one session: its JVM, this process, and the JVM's Python workers."""

    def __init__(self, spark: SparkSession) -> None:
        self._meters: Any = _jvm.engine(spark).classes.bench.Meters
        self._pid = int(self._meters.processId())

    def reset_peaks(self) -> None:
        self._meters.resetPeaks()
        with contextlib.suppress(OSError):  # Linux only; elsewhere there is no peak of the process
            (_PROC / str(self._pid) / "clear_refs").write_text("5")

    def sample(self) -> Sample:
        pairs = (pair.split("=") for pair in str(self._meters.sample()).split())
        found = {name: int(value) for name, value in pairs}
        return Sample(
            jvm_cpu=found["cpu_nanos"] / 1e9,
            python_cpu=time.process_time(),
            workers_cpu=_descendants_cpu(self._pid),
            gc_count=found["gc_count"],
            gc_millis=found["gc_millis"],
            heap_peak_bytes=found["heap_peak_bytes"],
            off_heap_bytes=found["direct_bytes"] + found["non_heap_bytes"],
            rss_peak_bytes=_peak_rss(self._pid),
        )


class OtherWork:
    """How much of the machine others used since this was made."""

    def __init__(self) -> None:
        self._started = time.monotonic()
        self._before = _foreign_cpu()

    def share(self) -> float | None:
        """Of all cores. None where it cannot be measured."""
        now, passed = _foreign_cpu(), time.monotonic() - self._started
        if now is None or self._before is None or passed <= 0:
            return None
        return round(max(0.0, now - self._before) / passed / (os.cpu_count() or 1), 3)


class FileLedger:
    """Which files of a folder were written since it was last looked at."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._known: dict[str, tuple[int, int]] = {}

    def written(self) -> dict[str, int]:
        present = dict(_files(self._folder))
        fresh = [
            size
            for path, (size, mtime) in present.items()
            if self._known.get(path) != (size, mtime)
        ]
        self._known = present
        return {"files": len(fresh), "bytes": sum(fresh)}


def _files(folder: Path) -> list[tuple[str, tuple[int, int]]]:
    found: list[tuple[str, tuple[int, int]]] = []
    for parent, _, names in os.walk(folder):
        for name in names:
            path = os.path.join(parent, name)  # noqa: PTH118 - thousands of them, per batch
            with contextlib.suppress(FileNotFoundError):  # a background thread deleted it
                status = os.stat(path)  # noqa: PTH116
                found.append((path, (status.st_size, status.st_mtime_ns)))
    return found


def _peak_rss(pid: int) -> int | None:
    with contextlib.suppress(OSError):
        for line in (_PROC / str(pid) / "status").read_text("utf-8").splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    return None


def _foreign_cpu() -> float | None:
    """CPU seconds of the machine that were not of this process and those below it."""
    with contextlib.suppress(OSError, IndexError, ValueError):
        fields = list(map(int, (_PROC / "stat").read_text("utf-8").splitlines()[0].split()[1:9]))
        busy = sum(fields) - fields[3] - fields[4]  # without idle and waiting for a disk
        own = time.process_time() + _descendants_cpu(os.getpid())
        return float(busy / os.sysconf("SC_CLK_TCK") - own)
    return None


def _descendants_cpu(pid: int) -> float:
    """CPU seconds of the processes below this one, ended ones too. 0 where /proc is not."""
    total, waiting = 0.0, [pid]
    while waiting:
        for child in _children(waiting.pop()):
            waiting.append(child)
            with contextlib.suppress(OSError, IndexError):
                fields = (_PROC / str(child) / "stat").read_text("utf-8").rpartition(")")[2].split()
                total += sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")
    return total


def _children(pid: int) -> list[int]:
    found: list[int] = []
    with contextlib.suppress(OSError):
        for task in (_PROC / str(pid) / "task").iterdir():
            with contextlib.suppress(OSError):
                found += map(int, (task / "children").read_text("utf-8").split())
    return found
