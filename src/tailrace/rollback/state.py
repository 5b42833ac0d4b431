"""The state of a query: the files newer than a version, and whether the version is whole.

Problem: a rollback to a version that cannot be loaded would exchange one broken query for another.
Answer: the engine plans the load of every store as a restart will, and reads every file to its end
(engine/src/tailrace/spark/StateCheck.scala), in a JVM of its own, without Spark.
Invariant: a checkpoint of another store is refused: its versions are not understood here.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

from tailrace import _build, session
from tailrace.errors import RollbackError
from tailrace.rollback.logs import BatchLog, read_lineages, with_checksum

_OWN = re.compile(r"(\d{1,18})(?:_[0-9a-f]{16})?\.(?:changes|snapshot)\.tr")
_PACK = re.compile(r"(\d{1,18})-[0-9a-f]{16}\.pack\.tr")
_OTHERS = (".zip", ".changelog", ".delta", ".snapshot")
# Packages that Spark opens for its own JVMs, as far as reading files needs them.
_OPENED = ("java.base/java.nio", "java.base/sun.nio.ch", "java.base/java.lang")


def files_to_move(state: Path, batch: int) -> list[Path]:
    """The files of versions after the batch's, and Spark's notes of operators of later batches."""
    found = []
    for path in _files_below(state):
        version = _OWN.fullmatch(path.name) or _PACK.fullmatch(path.name)
        if version and int(version[1]) > batch + 1:
            found += with_checksum(path)
        elif path.name.endswith(_OTHERS):
            raise RollbackError(
                "The state of this query is not tailrace's.",
                f"{path} was written by another state store.",
                "Only queries on tailrace can be set back with this command. Nothing was changed.",
            )
    for folder in state.glob("*/_metadata/v2"):
        later = BatchLog(folder).after(batch)
        found += [path for entry in later for path in with_checksum(entry.path)]
    return sorted(found)


def _files_below(state: Path) -> Iterator[Path]:
    """Files of stores and packs: Spark's own notes are in folders that begin with an underscore."""
    for path in state.rglob("*"):
        below = path.relative_to(state).parts
        if path.is_file() and not any(part.startswith(("_", ".")) for part in below):
            yield path


def problems(checkpoint: Path, batch: int) -> list[str]:
    """Why the state at the end of a batch cannot be loaded; empty if it can."""
    state = checkpoint / "state"
    if not any(path.name.isdigit() for path in state.glob("*") if path.is_dir()):
        return []  # a query without state
    commits = BatchLog(checkpoint / "commits")
    lineages = read_lineages(commits.path(batch))
    if lineages:
        counts = ",".join(f"{where}={name}" for where, ids in lineages.items() for name in ids)
    else:
        counts = "published" if batch + 1 in commits else "-"
    command = [
        str(_build.java()),
        *(f"--add-opens={package}=ALL-UNNAMED" for package in _OPENED),
        "-cp",
        f"{session.jar()}{os.pathsep}{_build.spark_jars()}/*",
        "tailrace.spark.StateCheck",
        str(state.resolve()),
        str(batch + 1),
    ]
    done = subprocess.run(command, input=counts, capture_output=True, text=True, check=False)
    told = [line.split("\t") for line in done.stdout.splitlines()]
    found = [
        f"Store {fields[1]}: " + fields[3].partition("\\n  Remedy:")[0].replace("\\n", "\n")
        for fields in told
        if fields[0] == "problem"
    ]
    if done.returncode != 0 or not any(fields[0] in ("problem", "stores") for fields in told):
        raise RollbackError(
            "The state could not be checked.",
            f"The checking program ended with exit code {done.returncode}: "
            + "\n".join((done.stderr + done.stdout).strip().splitlines()[-5:]),
            "Run tailrace doctor. Nothing was changed.",
        )
    return found
