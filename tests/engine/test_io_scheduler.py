"""The scheduler of all that is read and written beside the batches.

Problem: an upload that waits behind a snapshot, a job that is never resumed or an error that is
lost would only show as a query that is slow, or stands still.
Answer: the real scheduler with a clock that the test moves and jobs that carry out its commands.
Invariant: permits go to the most urgent, inside a kind to the first; bytes keep to the bandwidth;
a ticket has its job's result or error.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from support.fixtures import wait_until
from support.harness import HarnessJar, Remote, StoreError

SECOND = 1_000_000_000


class IoWorld(Remote):
    """A scheduler with jobs of a test."""

    def __init__(self, jar: HarnessJar) -> None:
        super().__init__(jar, "IoHarness")
        self.happened: list[tuple[str, str]] = []

    def start(self, permits: int = 1, queue: int = 100) -> None:
        self.call("new", permits=permits, queue=queue)

    def submit(self, job: str, kind: str) -> None:
        self.call("submit", job=job, kind=kind)
        if not self.waits(job):
            self.call("result", call=job)

    def waits(self, call: str) -> bool:
        return bool(self.call("waits", call=call))

    def tell(self, job: str, command: str, count: int = 0) -> None:
        self.call("tell", job=job, command=command, bytes=count)

    def has(self, what: str, job: str) -> bool:
        self.happened += [(event["what"], event["job"]) for event in self.call("events")]
        return (what, job) in self.happened

    def sees(self, what: str, job: str) -> None:
        wait_until(lambda: self.has(what, job), f"{job} never {what}")
        self.happened.remove((what, job))

    def begun(self) -> list[str]:
        self.has("", "")
        return [job for what, job in self.happened if what == "begins"]

    def end(self, job: str) -> None:
        self.tell(job, "end")
        assert self.result(job) == f"{job} is through"

    def result(self, job: str) -> Any:
        call = self.new_name("await")
        self.call("await", job=job, call=call)
        return self.call("result", call=call)

    def counts(self, kind: str) -> dict[str, int]:
        found: dict[str, int] = self.call("counts", kind=kind)
        return found

    def running(self, kind: str) -> int:
        return int(self.call("running", kind=kind))


@pytest.fixture
def io(harness_classes: HarnessJar) -> Iterator[IoWorld]:
    return IoWorld(harness_classes)


def test_the_most_urgent_goes_first(io: IoWorld) -> None:
    io.start(permits=1)
    io.submit("first", "clean")
    io.sees("begins", "first")
    for job, kind in [("s1", "snapshot"), ("c1", "clean"), ("p1", "merge"), ("u1", "upload"),
                      ("p2", "merge"), ("l1", "localCopy")]:  # fmt: skip
        io.submit(job, kind)
    assert io.begun() == []
    order = []
    io.end("first")
    for _ in range(6):
        wait_until(lambda: io.begun() != [], "no job was begun")
        (job,) = io.begun()
        io.sees("begins", job)
        order.append(job)
        io.end(job)
    assert order == ["u1", "l1", "p1", "p2", "c1", "s1"]


def test_a_job_pauses_for_a_more_urgent_one(io: IoWorld) -> None:
    io.start(permits=1)
    io.submit("snapshot", "snapshot")
    io.sees("begins", "snapshot")
    io.tell("snapshot", "pace", 100)
    io.sees("paced", "snapshot")  # no other waits
    io.submit("upload", "upload")
    assert io.begun() == []  # the permit is released where the job paces itself
    io.tell("snapshot", "pace", 100)
    io.sees("begins", "upload")
    assert not io.has("paced", "snapshot")
    io.submit("merge", "merge")  # more urgent than the paused one, less than the running one
    io.call("advance", nanos=5)
    io.end("upload")
    io.sees("begins", "merge")
    io.call("advance", nanos=7)
    io.end("merge")
    io.sees("paced", "snapshot")
    io.end("snapshot")
    counts = io.counts("snapshot")
    assert (counts["pauses"], counts["paused"], counts["bytes"]) == (1, 12, 200)
    assert io.counts("merge")["waiting"] == 5
    assert io.counts("upload")["running"] == 5


def test_an_equally_urgent_job_waits_for_its_turn(io: IoWorld) -> None:
    io.start(permits=1)
    io.submit("one", "clean")
    io.sees("begins", "one")
    io.submit("two", "clean")
    io.tell("one", "pace", 100)
    io.sees("paced", "one")
    assert io.begun() == []
    io.end("one")
    io.sees("begins", "two")
    io.end("two")


def test_no_kind_takes_all_permits(io: IoWorld) -> None:
    io.start(permits=3)
    for job in ("u1", "u2", "u3"):
        io.submit(job, "upload")
    io.sees("begins", "u1")
    io.sees("begins", "u2")
    assert io.running("upload") == 2
    io.submit("clean", "clean")
    io.sees("begins", "clean")
    io.end("u1")
    io.sees("begins", "u3")


def test_some_jobs_can_always_read(io: IoWorld) -> None:
    """A task waits for them, and each of them mostly waits for the disk."""
    io.start(permits=1)
    io.submit("upload", "upload")
    io.sees("begins", "upload")
    for number in range(8):
        io.submit(f"r{number}", "read")
        io.sees("begins", f"r{number}")
    io.submit("ninth", "read")
    assert io.begun() == []
    io.end("r0")
    io.sees("begins", "ninth")
    io.tell("r1", "pace", 100)
    io.sees("paced", "r1")  # it holds no permit that it could release
    for job in ("upload", "ninth", *(f"r{number}" for number in range(1, 8))):
        io.end(job)


def test_one_job_can_always_spill(io: IoWorld) -> None:
    """A file system that does not answer keeps no memory from being freed."""
    io.start(permits=2)
    io.submit("upload", "upload")
    io.submit("snapshot", "snapshot")
    io.sees("begins", "upload")
    io.sees("begins", "snapshot")
    io.submit("s1", "spill")
    io.sees("begins", "s1")
    io.submit("s2", "spill")
    io.submit("clean", "clean")
    assert io.begun() == []
    io.tell("s1", "pace", 1)  # it has taken no permit, so it makes way for none
    io.sees("paced", "s1")
    io.end("s1")
    io.sees("begins", "s2")


def test_fewer_permits_pause_running_jobs(io: IoWorld) -> None:
    io.start(permits=2)
    io.submit("clean", "clean")
    io.submit("merge", "merge")
    io.sees("begins", "clean")
    io.sees("begins", "merge")
    io.call("permits", count=1)
    io.tell("clean", "pace", 1)
    wait_until(lambda: io.running("clean") == 0)
    io.end("merge")
    io.sees("paced", "clean")
    io.end("clean")


def test_bytes_keep_to_the_bandwidth(io: IoWorld) -> None:
    io.start(permits=2)
    io.call("bandwidth", bytes=1000)
    io.submit("one", "merge")
    io.submit("two", "clean")
    io.tell("one", "pace", 500)
    wait_until(lambda: io.call("sleeps"))
    io.call("advance", nanos=SECOND // 4)
    assert not io.has("paced", "one")
    io.call("advance", nanos=SECOND // 4)
    io.sees("paced", "one")
    io.tell("one", "pace", 1000)
    wait_until(lambda: io.call("sleeps"))
    io.tell("two", "pace", 1000)  # one bucket for all
    wait_until(lambda: io.call("counts", kind="clean")["bytes"] == 1000)
    io.call("advance", nanos=SECOND)
    io.sees("paced", "one")
    assert not io.has("paced", "two")
    io.call("advance", nanos=SECOND)
    io.sees("paced", "two")
    # Bandwidth not used in a long time is not saved up.
    io.call("advance", nanos=100 * SECOND)
    io.tell("one", "pace", 500)
    wait_until(lambda: io.call("sleeps"))
    io.call("advance", nanos=SECOND * 4 // 10)
    io.sees("paced", "one")


def test_who_waits_for_tokens_makes_way(io: IoWorld) -> None:
    io.start(permits=1)
    io.call("bandwidth", bytes=1)
    io.submit("snapshot", "snapshot")
    io.tell("snapshot", "pace", 3600)
    wait_until(lambda: io.call("sleeps"))
    io.submit("upload", "upload")
    io.sees("begins", "upload")


PIECE = 256 << 10


def paces(io: IoWorld, job: str, kind: str, count: int) -> None:
    """A running job that moves bytes next; they are counted when it asks for their tokens."""
    before = io.counts(kind)["bytes"]
    io.tell(job, "pace", count)
    wait_until(lambda: io.counts(kind)["bytes"] == before + count)


def test_tokens_go_to_the_most_urgent(io: IoWorld) -> None:
    io.start(permits=4)
    io.call("bandwidth", bytes=1000)
    for job, kind in [("s", "snapshot"), ("c", "clean"), ("u", "upload"), ("l", "localCopy")]:
        io.submit(job, kind)
        io.sees("begins", job)
        paces(io, job, kind, 1000)
    order = []
    for _ in range(4):
        io.call("advance", nanos=SECOND)
        wait_until(lambda: any(io.has("paced", job) for job in "scul"))
        (job,) = [job for what, job in io.happened if what == "paced"]
        io.sees("paced", job)
        order.append(job)
    assert order == ["u", "l", "c", "s"]


def test_a_more_urgent_job_waits_for_one_piece_at_most(io: IoWorld) -> None:
    io.start(permits=3)
    io.call("bandwidth", bytes=PIECE)
    io.submit("copy", "localCopy")
    io.submit("fetch", "fetch")
    paces(io, "copy", "localCopy", 4 * PIECE)
    io.call("advance", nanos=SECOND)
    paces(io, "fetch", "fetch", PIECE)
    io.call("advance", nanos=SECOND)
    io.sees("paced", "fetch")
    io.call("advance", nanos=2 * SECOND)
    assert not io.has("paced", "copy")
    io.call("advance", nanos=SECOND)
    io.sees("paced", "copy")


def test_who_is_cancelled_or_makes_way_takes_no_tokens(io: IoWorld) -> None:
    io.start(permits=1)
    io.call("bandwidth", bytes=1000)
    io.submit("snapshot", "snapshot")
    paces(io, "snapshot", "snapshot", 3_600_000)
    io.submit("clean", "clean")
    io.sees("begins", "clean")  # the snapshot pauses
    paces(io, "clean", "clean", 3_600_000)
    io.call("cancel", job="clean")
    with pytest.raises(StoreError, match="clean: it was cancelled"):
        io.result("clean")
    io.submit("upload", "upload")
    io.sees("begins", "upload")
    io.tell("upload", "pace", 1000)
    wait_until(lambda: io.counts("upload")["bytes"] == 1000)
    io.call("advance", nanos=SECOND)
    io.sees("paced", "upload")


@pytest.mark.parametrize(("bandwidth", "wait"), [(3600, SECOND), (0, 0)])
def test_who_waits_for_tokens_sees_a_new_limit(io: IoWorld, bandwidth: int, wait: int) -> None:
    io.start(permits=2)
    io.call("bandwidth", bytes=1)
    io.submit("copy", "localCopy")
    io.submit("clean", "clean")
    paces(io, "copy", "localCopy", 1800)
    paces(io, "clean", "clean", 1800)
    io.call("bandwidth", bytes=bandwidth)
    io.call("advance", nanos=wait)
    io.sees("paced", "copy")
    io.sees("paced", "clean")


def test_a_thread_that_cannot_be_started_takes_no_permit(io: IoWorld) -> None:
    io.start(permits=1)
    io.call("threads", may_start=False)
    for job in ("one", "two"):
        io.submit(job, "upload")
        with pytest.raises(StoreError, match="unable to create native thread"):
            io.result(job)
    assert (io.running("upload"), io.counts("upload")["failed"]) == (0, 2)
    io.call("threads", may_start=True)
    io.submit("three", "upload")
    io.end("three")


def test_a_full_queue_makes_who_submits_wait(io: IoWorld) -> None:
    io.start(permits=1, queue=2)
    for job in ("one", "two", "three"):
        io.submit(job, "merge")
    io.sees("begins", "one")
    io.submit("four", "merge")
    assert io.waits("four")
    io.submit("other", "clean")  # each kind has a queue of its own
    assert int(io.call("queued", kind="clean")) == 1
    io.tell("one", "submit")  # from inside a job that would be for ever
    with pytest.raises(StoreError, match="an I/O thread must not wait"):
        io.result("one")
    io.call("result", call="four")
    io.sees("begins", "two")


def test_errors_are_thrown_to_who_waits(io: IoWorld) -> None:
    io.start(permits=1)
    io.submit("bad", "upload")
    io.submit("good", "upload")
    io.tell("bad", "fail")
    with pytest.raises(StoreError, match="bad has failed") as raised:
        io.result("bad")
    assert raised.value.class_name == "java.io.IOException"
    io.end("good")
    counts = io.counts("upload")
    assert (counts["jobs"], counts["failed"], counts["cancelled"]) == (2, 1, 0)


def test_cancelled_before_it_began_while_it_ran_and_while_it_paused(io: IoWorld) -> None:
    io.start(permits=1)
    io.submit("running", "clean")
    io.sees("begins", "running")
    io.submit("queued", "clean")
    io.call("cancel", job="queued")
    with pytest.raises(StoreError, match="queued: it was cancelled"):
        io.result("queued")
    io.submit("urgent", "merge")
    io.tell("running", "pace", 1)
    io.sees("begins", "urgent")
    io.call("cancel", job="running")  # paused
    with pytest.raises(StoreError, match="running: it was cancelled"):
        io.result("running")
    io.call("cancel", job="urgent")  # running: it sees it when it paces itself
    io.tell("urgent", "pace", 1)
    with pytest.raises(StoreError, match="urgent: it was cancelled"):
        io.result("urgent")
    io.submit("last", "clean")  # all permits are back
    io.end("last")
    assert io.counts("clean")["cancelled"] == 2


def test_shut_down_waits_for_what_runs(io: IoWorld) -> None:
    io.start(permits=1)
    io.submit("running", "clean")
    io.sees("begins", "running")
    io.submit("queued", "clean")
    io.call("shut_down", call="end")
    assert io.waits("end")
    with pytest.raises(StoreError, match="queued: it was cancelled"):
        io.result("queued")
    io.end("running")
    io.call("result", call="end")
    io.submit("late", "clean")
    with pytest.raises(StoreError, match="late: it was cancelled"):
        io.result("late")
