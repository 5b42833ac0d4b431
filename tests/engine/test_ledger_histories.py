"""The ledger under random interleavings of batches, stores, executors, failures and restarts.

Problem: the protocol's faults hide in orders that no test writes down: an executor lost between a
hand-over and its orders, an offset that comes late into a new run, a failure while a publication is
under way.
Answer: generated numbers choose the next step among the possible ones: of a task, an executor,
Spark, the file system, a background thread. After every step all that has happened is held against
the rules of docs/rfcs/0004, which need no knowledge of how the ledger works.
Invariant: a failure is replayable (TAILRACE_SEED gives the same histories), and any step of a
history may be omitted, so that a failing one can be made short.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial

from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st
from support.harness import StoreError
from support.ledger import Call, Event, LedgerHarness, LedgerWorld, StoreAt
from support.seeds import SEED

EXECUTORS = ("1", "2", "3")
STORES = ("a", "b", "c")
# Mostly well: a history that fails at its first step shows little.
FAULTS: Mapping[str, list[str]] = {
    "none": [],
    "fails twice": ["fail", "fail"],
    "answer lost": ["lost"],
    "taken": ["taken"],
    "never": ["fail"] * 20,
}
FATAL = ("taken", "never")
LUCK = ["none"] * 14 + ["fails twice", "answer lost"] * 2 + list(FATAL)

# How often each kind of step comes, by the name of the method that gives its possible actions.
WEIGHTS: Mapping[str, int] = {
    "task_commits": 20,
    "task_reads": 3,
    "late_task": 3,
    "executor_asks": 8,
    "executor_has_written": 20,
    "executor_cannot_write": 1,
    "executor_is_lost": 1,
    "spark_writes_offsets": 10,
    "spark_hands_over": 20,
    "background_goes_on": 30,
    "query_ends": 1,
    "query_restarts": 2,
}

Step = tuple[int, int]
Action = Callable[[], None]


@dataclass
class Batch:
    """A batch: which executor committed which store, and which parts are durable."""

    number: int
    # By store, or by store and lineage where runs of a task stand side by side.
    stores: dict[object, tuple[StoreAt, str, Call]] = field(default_factory=dict)
    durable: set[tuple[StoreAt, str]] = field(default_factory=set)
    offsets_announced: bool = False
    was_asked: bool = False

    @property
    def all_durable(self) -> bool:
        return all((at, executor) in self.durable for at, executor, _ in self.stores.values())

    @property
    def may_be_handed_over(self) -> bool:
        calls = [call for _, _, call in self.stores.values()]
        return bool(calls) and all(call.answer == "admitted" for call in calls)

    def unwritten(self, executor: str) -> list[StoreAt]:
        return [
            at
            for at, owner, _ in self.stores.values()
            if owner == executor and (at, owner) not in self.durable
        ]


class Protocol:
    """One checkpoint through several runs of its query."""

    def __init__(self, harness: LedgerHarness, *, named: bool) -> None:
        self.ledger = LedgerWorld(harness)
        self.named = named
        self.seen = 0
        self.runs = 0
        self.lost: set[str] = set()
        self.calls: dict[str, tuple[str, str, int, Call]] = {}
        self.committed = -1
        self.offsets: set[int] = set()
        self.start_run()

    def start_run(self) -> None:
        self.runs += 1
        self.running = Batch(self.committed + 1)
        self.pending: Batch | None = None
        # Why the run may fail, or must.
        self.reasons: list[str] = []
        self.failed = False
        self.ended = False
        self.ledger.begin(f"run {self.runs}", self.committed)

    def step(self, kind: int, choice: int) -> None:
        possible = {name: list(getattr(self, name)()) for name in WEIGHTS}
        names = [name for name, weight in WEIGHTS.items() if possible[name] for _ in range(weight)]
        actions: list[Action] = possible[names[kind % len(names)]]
        actions[choice % len(actions)]()
        self.check()

    # ---- the possible next steps

    @property
    def living(self) -> list[str]:
        return [executor for executor in EXECUTORS if executor not in self.lost]

    def remember(self, kind: str, number: int, call: Call) -> Call:
        self.calls[call.name] = (kind, self.ledger.run, number, call)
        return call

    def task_commits(self) -> Iterator[Action]:
        for executor in self.living:
            for store in STORES:
                for lineage in (1, 2):
                    yield partial(self._commit, executor, (store, lineage))

    def _commit(self, executor: str, at: StoreAt) -> None:
        batch = self.running
        batch.was_asked = True
        call = self.ledger.register(batch.number, *at, executor, named=self.named)
        self.remember("register", batch.number, call)
        if self.ended:
            assert call.answer == "refused"
        elif not self.failed:
            batch.stores[at if self.named else at[0]] = (at, executor, call)

    def task_reads(self) -> Iterator[Action]:
        yield self._read

    def _read(self) -> None:
        """With gate="read": the gate alone."""
        self.running.was_asked = True
        self.remember("gate", self.running.number, self.ledger.gate(self.running.number))

    def late_task(self) -> Iterator[Action]:
        """An attempt that was abandoned, of a batch that is over or of a run that has ended."""
        if self.running.number > 0:
            yield partial(self._commit_late, self.running.number - 1, self.ledger.run)
        if self.runs > 1:
            yield partial(self._commit_late, self.running.number, f"run {self.runs - 1}")

    def _commit_late(self, number: int, run: str) -> None:
        call = self.ledger.register(number, "a", 1, "1", named=self.named, run=run)
        assert call.answer == "refused"

    def executor_asks(self) -> Iterator[Action]:
        for batch in (self.pending, self.running):
            if batch and batch.stores:
                for executor in self.living:
                    yield partial(self._ask, batch, executor)

    def _ask(self, batch: Batch, executor: str) -> None:
        self.remember("orders", batch.number, self.ledger.orders(batch.number, executor))

    def executor_has_written(self) -> Iterator[Action]:
        if self.pending:
            for executor in self.living:
                if self.pending.unwritten(executor):
                    yield partial(self._written, self.pending, executor)

    def _written(self, batch: Batch, executor: str) -> None:
        parts = batch.unwritten(executor)
        batch.durable |= {(at, executor) for at in parts}
        self.ledger.durable(batch.number, *parts, executor=executor)

    def executor_cannot_write(self) -> Iterator[Action]:
        if self.pending:
            for executor in self.living:
                if self.pending.unwritten(executor):
                    yield partial(self._not_written, self.pending, executor)

    def _not_written(self, batch: Batch, executor: str) -> None:
        self.reasons.append("must: a pack was not written")
        self.ledger.not_written(batch.number, executor)

    def executor_is_lost(self) -> Iterator[Action]:
        if len(self.living) > 1:
            for executor in self.living:
                yield partial(self._lose, executor)

    def _lose(self, executor: str) -> None:
        self.lost.add(executor)
        if self.pending:
            self.note_losses(self.pending)
        self.ledger.do("executor_lost", executor=executor)

    def spark_writes_offsets(self) -> Iterator[Action]:
        batch = self.running
        known = batch.was_asked or batch.offsets_announced or batch.number in self.offsets
        if not (self.failed or self.ended or known):
            for fault in LUCK:
                yield partial(self._take_offsets, fault)

    def _take_offsets(self, fault: str) -> None:
        self.running.offsets_announced = True
        self.note_faults(fault)
        self.ledger.take_offsets(self.running.number, publish=FAULTS[fault])

    def spark_hands_over(self) -> Iterator[Action]:
        if not (self.failed or self.ended) and self.running.may_be_handed_over:
            for fault in LUCK:
                yield partial(self._hand_over, publish=fault, prepare="none")
                yield partial(self._hand_over, publish="none", prepare=fault)

    def _hand_over(self, publish: str, prepare: str) -> None:
        assert self.pending is None, "two batches are applied and not published"
        self.pending = self.running
        self.running = Batch(self.pending.number + 1)
        self.note_losses(self.pending)
        self.note_faults(publish, prepare)
        self.ledger.hand_over(self.pending.number, publish=FAULTS[publish], prepare=FAULTS[prepare])

    def background_goes_on(self) -> Iterator[Action]:
        """Whichever of the threads comes first."""
        for index in range(self.ledger.work):
            yield partial(self.ledger.do, "work", index=index)

    def query_ends(self) -> Iterator[Action]:
        """Stopped, or failed: Spark says so, sooner or later."""
        if not self.ended:
            yield self._end

    def _end(self) -> None:
        self.ended = True
        self.ledger.do("ended", run=self.ledger.run)
        self.assert_no_call_waits()

    def query_restarts(self) -> Iterator[Action]:
        """Spark lists the logs first, and that waits until nothing is being written."""
        if self.ledger.work == 0 and (self.failed or self.pending is None):
            yield self._restart

    def _restart(self) -> None:
        assert (self.ledger.await_quiet().result() is not None) == self.failed
        self.start_run()
        self.assert_no_call_waits()

    # ---- the rules that must hold

    def note_faults(self, *faults: str) -> None:
        self.reasons += [f"may: {fault}" for fault in faults if fault in FATAL]

    def note_losses(self, batch: Batch) -> None:
        """Parts that only a lost executor had are lost once the batch is handed over."""
        for executor in self.lost:
            for at in batch.unwritten(executor):
                self.reasons.append(f"must: executor {executor} was lost with {at}")

    def check(self) -> None:
        for event in self.ledger.events[self.seen :]:
            self.check_event(event)
        self.seen = len(self.ledger.events)
        try:
            self.ledger.do("verify", run=self.ledger.run)
        except StoreError:
            self.failed = True
        assert not self.failed or self.reasons, "it failed without a reason"
        if any(reason.startswith("must") for reason in self.reasons):
            assert self.failed, self.reasons
        if self.failed:
            self.assert_no_call_waits()

    def check_event(self, event: Event) -> None:
        if event["what"] == "visible":
            log, _, name = event["file"].partition("/")
            if log == "offsets":
                assert self.committed >= int(name) - 1, "offsets before the commit before them"
                self.offsets.add(int(name))
            else:
                self.check_commit(int(name))
        elif event["what"] == "reply" and event["call"] in self.calls:
            kind, run, number, call = self.calls[event["call"]]
            if event["answer"] == "admitted":
                assert run == self.ledger.run
                self.check_gate(number)
            elif event["answer"] == "write":
                assert kind == "orders"
                assert self.pending is not None, "orders before the hand-over"
                assert number == self.pending.number
                known = {at for at, _, _ in self.pending.stores.values()}
                assert set(call.stores) <= known

    def check_commit(self, number: int) -> None:
        """Rule 1, and that no batch is published twice or left out."""
        assert number == self.committed + 1
        assert self.pending is not None
        assert number == self.pending.number, "published before it was handed over"
        assert self.pending.all_durable, "published before it was durable"
        self.committed = number
        self.pending = None

    def check_gate(self, number: int) -> None:
        """Rule 2: the batch before is published, and this one's offsets are there."""
        assert number == self.running.number
        assert self.committed >= number - 1
        assert not self.running.offsets_announced or number in self.offsets

    def assert_no_call_waits(self, but_for: tuple[str, ...] = ()) -> None:
        waiting = [
            name
            for name, (kind, _, _, call) in self.calls.items()
            if kind not in but_for and call.answer is None
        ]
        assert not waiting, f"no answer will ever come for {waiting}"

    def come_to_an_end(self) -> None:
        """Left alone, everything is published, or has failed and said so."""
        while actions := [*self.executor_has_written(), *self.background_goes_on()]:
            actions[0]()
            self.check()
        if not self.failed:
            assert self.pending is None
            self.assert_no_call_waits(but_for=("orders",))
        assert (self.ledger.await_quiet().result() is not None) == self.failed
        self.ledger.close()


def test_random_interleavings(ledger_harness: LedgerHarness) -> None:
    print(f"seed {SEED}: TAILRACE_SEED={SEED} replays this")
    reached: Counter[str] = Counter()
    steps = st.lists(
        st.tuples(st.integers(0, 9999), st.integers(0, 9999)), min_size=80, max_size=160
    )

    @seed(SEED)
    @settings(
        max_examples=40,
        deadline=None,
        database=None,
        print_blob=True,
        phases=(Phase.explicit, Phase.generate, Phase.shrink),
        suppress_health_check=list(HealthCheck),
    )
    @given(steps, st.booleans())
    def histories(told: list[Step], named: bool) -> None:
        protocol = Protocol(ledger_harness, named=named)
        for kind, choice in told:
            protocol.step(kind, choice)
        protocol.come_to_an_end()
        reached["published"] += protocol.committed + 1
        reached["failed"] += protocol.failed
        reached["runs"] += protocol.runs

    histories()
    print(dict(reached))
    # The histories get somewhere: a test that only registers and fails would prove little.
    assert reached["published"] > 60
    assert reached["runs"] > 60
