"""The harness as a jar.

Problem: the harness is Scala, and a test run must not need a build step of its own.
Answer: compile it on first use as the engine is compiled, into build/, under a name that holds a
hash of the sources, of Spark's version and of the engine, whose classes it calls.
Invariant: a jar under that name is of exactly these sources: `compile_scala` puts a jar into its
place as a whole or not at all.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

from tailrace import _build

REPOSITORY = Path(__file__).resolve().parents[2]


def harness_jar() -> Path:
    """Returns the jar of the sources as they are now, compiling them if no such jar exists."""
    sources = sorted((REPOSITORY / "tests" / "jvm").rglob("*.scala"))
    engine = _build.jar()
    digest = hashlib.sha256(_build.spark_version().encode())
    digest.update(_build.read_properties(engine)["fingerprint"].encode())
    for source in sources:
        digest.update(source.name.encode())
        digest.update(source.read_bytes())
    jar = REPOSITORY / "build" / "harness" / f"harness-{digest.hexdigest()[:16]}.jar"
    if not jar.exists():
        jar.parent.mkdir(parents=True, exist_ok=True)
        with _build._locked(jar.with_suffix(".lock")):  # the processes of a test run take turns
            if not jar.exists():
                _build.compile_scala(sources, (engine,), jar)
    return jar
