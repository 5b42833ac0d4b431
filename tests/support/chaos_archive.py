"""Spark's classes, loaded and verified once for all lives.

Problem: a kill test starts a JVM per kill, and half of a start goes into loading and verifying the
same ten thousand classes.
Answer: Java's class data sharing. One undisturbed run of the program writes an archive to build/,
which the JVMs of all later lives map instead.
Invariant: the archive changes how fast a life starts and nothing else. A JVM that finds that it
does not fit (another Java, other jars) ignores it.
"""

from __future__ import annotations

import fcntl
import functools
import hashlib
import os
import shutil
import tempfile
from pathlib import Path

import pyspark

from support.chaos_input import prepare
from support.chaos_life import Life
from support.chaos_query import FOLDERS

FOLDER = Path(__file__).resolve().parents[2] / "build" / "chaos"


@functools.cache
def class_archive() -> Path:
    """The archive for this Java and this Spark; built first if there is none."""
    java = Path(os.environ.get("JAVA_HOME", ""), "bin", "java")
    if not java.is_file():
        java = Path(shutil.which("java") or "java")
    jars = Path(pyspark.__file__).parent / "jars"
    parts = (java.resolve(), jars, pyspark.__version__, jars.stat().st_mtime_ns)
    key = hashlib.sha256(" ".join(map(str, parts)).encode()).hexdigest()[:16]
    archive = FOLDER / f"classes-{key}.jsa"
    if archive.exists():
        return archive
    FOLDER.mkdir(parents=True, exist_ok=True)
    with (FOLDER / "classes.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # several test processes, one archive
        if not archive.exists():
            _build(archive)
    return archive


def _build(archive: Path) -> None:
    for old in FOLDER.glob("classes-*.jsa"):
        old.unlink()
    with tempfile.TemporaryDirectory(prefix=".classes-", dir=FOLDER) as temporary:
        folder = Path(temporary)
        prepare(folder, "join", 0, 2)
        unfinished = folder / "classes.jsa"
        arguments = ["--kind=join", "--sink=file", f"--conf=spark.local.dir={folder}"]
        arguments += [f"--java-option=-XX:ArchiveClassesAtExit={unfinished}"]
        arguments += [f"--{name}={folder / name}" for name in FOLDERS]
        log = folder / "log"
        life = Life(arguments, {"TMPDIR": temporary, "TAILRACE_FAILPOINTS": ""}, log)
        try:
            code = life.await_end()
        finally:
            life.end()  # the JVM writes the archive when Python has ended
        assert code == 0, f"the program ended with {code}:\n{log.read_text('utf-8', 'replace')}"
        assert unfinished.exists(), "the JVM left no archive of its classes"
        unfinished.replace(archive)
