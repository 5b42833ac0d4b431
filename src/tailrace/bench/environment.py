"""The machine and the versions that a result was measured with.

Problem: a figure without its machine says nothing, and a figure with a host's name says too much.
Answer: the processor, cores, memory and versions; never a host name, a user or a path.
Invariant: a value that cannot be found is None; finding it never fails.
"""

from __future__ import annotations

import contextlib
import os
import platform
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tailrace._version import __version__

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def environment(spark: SparkSession) -> dict[str, Any]:
    from tailrace import _jvm

    engine = _jvm.engine(spark)
    system: Any = spark._jvm.java.lang  # type: ignore[union-attr]
    return {
        "processor": _processor(),
        "cores": os.cpu_count(),
        "memory_bytes": _memory(),
        "load_before": _load(),
        "os": f"{platform.system()} {platform.release()}",
        "architecture": platform.machine(),
        "java": f"{system.System.getProperty('java.vm.name')} "
        f"{system.System.getProperty('java.version')}",
        "java_max_heap_bytes": int(system.Runtime.getRuntime().maxMemory()),
        "python": platform.python_version(),
        "spark": spark.version,
        "tailrace": __version__,
        "engine": engine.fingerprint[:12],
    }


def _processor() -> str | None:
    with contextlib.suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text("utf-8").splitlines():
            if line.lower().startswith("model name"):
                return line.partition(":")[2].strip()
    with contextlib.suppress(OSError, subprocess.SubprocessError):
        done = subprocess.run(
            ["sysctl", "-n", "machdep.cpu.brand_string"],
            capture_output=True,
            text=True,
            check=True,
        )
        return done.stdout.strip() or None
    return platform.processor() or None


def _memory() -> int | None:
    with contextlib.suppress(ValueError, OSError):
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return None


def _load() -> float | None:
    """Processes that wanted a core in the last minute: a machine that is busy measures badly."""
    with contextlib.suppress(OSError):
        return round(os.getloadavg()[0], 2)
    return None
