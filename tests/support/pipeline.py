"""An executor's commit pipeline in the hands of a test.

Problem: the pipeline works on threads of its own, towards a driver and a file system.
Answer: `PipelineWorld` stands for both (tests/jvm/PipelineHarness.scala): it gives orders when the
test says so, lets uploads fail, and records the events.
Invariant: nothing is said to have happened, or not to happen any more, because time has passed; a
test waits for an event that must come, or looks at a thread that waits.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from support.fixtures import wait_until
from support.harness import HarnessJar, Remote
from support.ledger import Event, StoreAt


class PipelineHarness(Remote):
    def __init__(self, jar: HarnessJar) -> None:
        super().__init__(jar, "PipelineHarness")

    def arm(self, points: str) -> None:
        """Failpoints of the whole process; an empty text disarms them."""
        self.call("arm", points=points)


@dataclass(frozen=True)
class Submission:
    """A task that submits its part; it may have to wait."""

    world: PipelineWorld
    name: str

    @property
    def waits(self) -> bool:
        return bool(self.world.do("waits", call=self.name))

    def result(self) -> int | None:
        """For a part: how many of other batches were waiting. Raises the task's error."""
        found: int | None = self.world.do("result", call=self.name)
        return found


class PipelineWorld:
    """A pipeline of its own. Batches are of the query "q" unless said otherwise.

    With folders it is slow: it writes real packs there, with one I/O permit, on a standing clock.
    """

    def __init__(self, harness: PipelineHarness, slow: dict[str, str] | None = None) -> None:
        self.harness = harness
        self.name = harness.new_name("pipeline")
        self.events: list[Event] = []
        harness.call("new", pipeline=self.name, **({"slow": slow} if slow else {}))

    def do(self, op: str, **arguments: Any) -> Any:
        return self.harness.call(op, pipeline=self.name, **{"query": "q", **arguments})

    def close(self) -> None:
        self.harness.call("drop", pipeline=self.name)

    def submit(
        self, batch: int, store: str, lineage: int = 1, *, size: int = 8, **arguments: Any
    ) -> Submission:
        """Sends a part of `size` bytes; `limit` is the most bytes that the executor keeps."""
        arguments = {"limit": 1000, "bytes": (store * size)[:size], **arguments}
        call = self.harness.new_name("submission")
        self.do("submit", call=call, batch=batch, store=store, lineage=lineage, **arguments)
        return Submission(self, call)

    def commit(
        self, batch: int, store: str, lineage: int = 1, *, answer: str, **arguments: Any
    ) -> Submission:
        """A task that commits a store, to whom the ledger says `answer` when it registers."""
        arguments = {"limit": 1000, "bytes": store * 8, "answer": answer, **arguments}
        call = self.harness.new_name("commit")
        self.do("commit", call=call, batch=batch, store=store, lineage=lineage, **arguments)
        return Submission(self, call)

    def order(self, batch: int, *stores: StoreAt, **arguments: Any) -> None:
        self.do("orders", batch=batch, stores=list(stores), **arguments)

    # ---- the events

    def all(self, what: str, **fields: Any) -> list[Event]:
        """Events of a kind so far, with these fields."""
        self.events += self.do("events")
        return [
            event
            for event in self.events
            if event["what"] == what and all(event[name] == fields[name] for name in fields)
        ]

    def wait_for(self, what: str, count: int = 1, **fields: Any) -> list[Event]:
        """Waits for that many events; there must not be more."""
        wait_until(lambda: len(self.all(what, **fields)) >= count, f"no {what} {fields}")
        found = self.all(what, **fields)
        assert len(found) == count, found
        return found

    @property
    def happened(self) -> list[str]:
        """The kinds of all events, in their order."""
        self.events += self.do("events")
        return [event["what"] for event in self.events]
