"""The driver's ledger in the hands of a test.

Problem: the ledger answers calls later, and acts on other threads.
Answer: `LedgerWorld` keeps every call with its reply and every event in order, and lets background
work wait until the test asks for it (tests/jvm/LedgerHarness.scala).
Invariant: `events` is everything that has happened, in the order in which it happened. No call is
answered twice.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from support.harness import HarnessJar, Remote

ROOT = "/checkpoint"
Event = dict[str, Any]
# A store's place: its name and the lineage of the version that the batch makes.
StoreAt = tuple[str, int]


class LedgerHarness(Remote):
    def __init__(self, jar: HarnessJar) -> None:
        super().__init__(jar, "LedgerHarness")


@dataclass(frozen=True)
class Call:
    """A question to the ledger; the answer may come much later."""

    world: LedgerWorld
    name: str

    @property
    def reply(self) -> Event | None:
        """The answer; None while the asker waits."""
        return self.world.replies.get(self.name)

    @property
    def answer(self) -> str | None:
        reply = self.reply
        return reply["answer"] if reply else None

    @property
    def stores(self) -> list[StoreAt]:
        """The orders: which parts to write."""
        assert self.reply is not None
        return [(store, lineage) for store, lineage in self.reply["stores"]]

    @property
    def waits(self) -> bool:
        """For calls that have a thread: whether it waits. It never says so of one that is over."""
        return bool(self.world.do("waits", call=self.name))

    def result(self) -> Any:
        """For calls that have a thread: its result, or its error as a `StoreError`."""
        return self.world.do("result", call=self.name)


@dataclass(frozen=True)
class File:
    """A log entry. Its steps go as scripted: "ok", "fail", "full" (of the disk, a java.lang.Error),
    "lost" (done, but reported as failed) or "taken" (another query's entry has the name); steps
    after the end of the script are "ok"."""

    name: str
    prepare: Sequence[str] = ()
    publish: Sequence[str] = ()

    def document(self) -> dict[str, Any]:
        return {"name": self.name, "prepare": list(self.prepare), "publish": list(self.publish)}


class LedgerWorld:
    """A ledger of its own, one checkpoint unless said otherwise, and the events so far."""

    def __init__(self, harness: LedgerHarness, *, patience: int = 1000) -> None:
        self.harness = harness
        self.name = harness.new_name("ledger")
        self.events: list[Event] = []
        self.replies: dict[str, Event] = {}
        self.work = 0
        self.run = ""
        self._calls = itertools.count()
        harness.call("new", ledger=self.name, patience=patience)

    def do(self, op: str, **arguments: Any) -> Any:
        answer = self.harness.call(op, ledger=self.name, **{"root": ROOT, **arguments})
        for event in answer["events"]:
            self.events.append(event)
            if event["what"] == "reply":
                assert event["call"] not in self.replies, f"answered twice: {event}"
                self.replies[event["call"]] = event
        self.work = answer["work"]
        return answer.get("value")

    def close(self) -> None:
        self.harness.call("drop", ledger=self.name)

    # ---- the events

    def all(self, what: str) -> list[Event]:
        return [event for event in self.events if event["what"] == what]

    @property
    def visible(self) -> list[str]:
        """The log entries that are on the checkpoint file system, in their order."""
        return [event["file"] for event in self.all("visible")]

    # ---- the driver's side

    def begin(self, run: str, committed: int = -1) -> None:
        """A query has listed its logs: from now on `run` is the run of all calls."""
        self.run = run
        self.do("begin", run=run, next=committed + 1)

    def on_batch(self, op: str, batch: int, **arguments: Any) -> Any:
        return self.do(op, **{"run": self.run, "batch": batch, **arguments})

    def take_offsets(self, batch: int, **script: Sequence[str]) -> None:
        self.on_batch("take_offsets", batch, file=File(f"offsets/{batch}", **script).document())

    def hand_over(self, batch: int, **script: Sequence[str]) -> None:
        self.on_batch("hand_over", batch, file=File(f"commits/{batch}", **script).document())

    def do_work(self) -> None:
        """All steps that wait for other threads, and those that follow from them."""
        while self.work:
            self.do("work")

    # ---- the executors' side

    def ask(self, op: str, batch: int, **arguments: Any) -> Call:
        call = Call(self, f"{op}-{next(self._calls)}")
        self.on_batch(op, batch, call=call.name, **arguments)
        return call

    def register(
        self,
        batch: int,
        store: str = "a",
        lineage: int = 1,
        executor: str = "1",
        **arguments: Any,
    ) -> Call:
        arguments = {"store": [store, lineage], "executor": executor, **arguments}
        return self.ask("register", batch, **arguments)

    def gate(self, batch: int) -> Call:
        return self.ask("gate", batch)

    def orders(self, batch: int, executor: str = "1") -> Call:
        return self.ask("orders", batch, executor=executor)

    def durable(
        self, batch: int, *stores: StoreAt, executor: str = "1", retries: int = 0, **more: Any
    ) -> None:
        """An executor says that these are written, in a pack that is named after it."""
        arguments = {"pack": f"{batch + 1}-{executor}", "retries": retries, **more}
        self.on_batch("durable", batch, executor=executor, stores=list(stores), **arguments)

    def not_written(self, batch: int, executor: str = "1") -> None:
        self.on_batch(
            "not_written", batch, executor=executor, problem="No pack.", because="The disk is full."
        )

    def await_published(self, batch: int) -> Call:
        return self.ask("await_published", batch)

    def await_quiet(self, **arguments: Any) -> Call:
        return self.ask("await_quiet", 0, **arguments)

    def publish(self, batch: int, *stores: StoreAt) -> None:
        """A whole batch on one executor, from its first task to `commits/N`."""
        stores = stores or (("a", batch + 1),)
        for store, lineage in stores:
            assert self.register(batch, store, lineage).answer == "admitted"
        self.hand_over(batch)
        self.durable(batch, *stores)
        self.do_work()
        assert self.visible[-1] == f"commits/{batch}"


def apply(ledger: LedgerWorld, batch: int, *stores: str, executor: str = "1") -> None:
    """A batch up to the point where Spark hands over `commits/N`."""
    for store in stores or ("a",):
        assert ledger.register(batch, store, batch + 1, executor).answer == "admitted"
    ledger.hand_over(batch)


def assert_refused(call: Call, *said: str) -> None:
    """The answer states problem, cause and remedy."""
    reply = call.reply
    assert reply is not None, "there is no answer"
    assert reply["answer"] == "refused", reply
    assert all(reply[part] for part in ("problem", "because", "remedy")), reply
    text = " ".join((reply["problem"], reply["because"], reply["remedy"]))
    assert all(words in text for words in said), text
