"""Sets a stopped query back to the end of an earlier batch.

Problem: a query whose newest state is damaged can go on from an older version, but Spark keeps its
progress in several logs: of offsets and commits, of a file source, of a file sink. Setting back
only some of them loses rows or doubles them.
Answer: `plan` reads all of them, decides which files are newer than the batch, and checks that the
others are enough to go on; `apply` moves the newer ones into a folder of their own.
Invariant: nothing is deleted, and nothing is touched before everything was checked. A rollback that
was interrupted leaves a checkpoint that Spark refuses to start, and can be finished.
"""

from __future__ import annotations

from tailrace.rollback.apply import Interrupted, apply, interrupted
from tailrace.rollback.plan import Move, Plan, Request, local, plan

__all__ = ["Interrupted", "Move", "Plan", "Request", "apply", "interrupted", "local", "plan"]
