"""The driver's ledger keeps the rules of the commit protocol (docs/rfcs/0004).

Problem: the rules are about order: which file becomes visible first, and which task goes on when.
Answer: the real ledger, with its background work done when the test says so and with log files that
fail as scripted; each test writes down one order and looks at the events that were allowed.
Invariant: `commits/N` becomes visible when every store of batch N is durable, no task of batch N+1
passes before that, and every call gets an answer. tests/engine/test_ledger_histories.py checks
the same for random orders.
"""

from __future__ import annotations

import pytest
from support.harness import StoreError
from support.ledger import ROOT, LedgerHarness, LedgerWorld, apply, assert_refused

STATES = ["running", "applied", "durable", "published", "failed"]
LEGAL = {
    ("running", "applied"),
    ("applied", "durable"),
    ("durable", "published"),
    ("running", "failed"),
    ("applied", "failed"),
    ("durable", "failed"),
}


# ---- the gate


def test_the_first_batch_of_a_run_does_not_wait(ledger: LedgerWorld) -> None:
    assert ledger.register(0).answer == "admitted"


def test_a_run_goes_on_behind_what_is_committed(ledger: LedgerWorld) -> None:
    ledger.begin("second run", committed=6)
    assert ledger.register(7).answer == "admitted"
    assert_refused(ledger.register(6), "batch 6")


def test_the_gate_opens_when_the_batch_before_is_published_and_not_earlier(
    ledger: LedgerWorld,
) -> None:
    apply(ledger, 0)
    waiting = ledger.register(1)
    ledger.do("work")  # `commits/0` is prepared
    assert (ledger.work, waiting.answer) == (0, None)
    ledger.durable(0, ("a", 1))
    assert (ledger.visible, waiting.answer) == ([], None)
    ledger.do("work")
    assert ledger.visible == ["commits/0"]
    assert waiting.answer == "admitted"
    assert ledger.register(1, "b").answer == "admitted"


def test_the_gate_waits_for_the_batchs_own_offsets(ledger: LedgerWorld) -> None:
    ledger.publish(0)
    ledger.take_offsets(1)
    waiting = ledger.register(1)
    assert waiting.answer is None
    ledger.do("work")
    assert ledger.visible == ["commits/0", "offsets/1"]
    assert waiting.answer == "admitted"


@pytest.mark.parametrize("prepared_first", [True, False])
def test_offsets_become_visible_after_the_commit_before_them(
    ledger: LedgerWorld, prepared_first: bool
) -> None:
    """So the newest entry of offsets says that every batch before it is published."""
    apply(ledger, 0)
    ledger.do("work")
    ledger.take_offsets(1)
    waiting = ledger.register(1)
    if prepared_first:
        ledger.do("work")
        assert ledger.all("prepare")[-1]["file"] == "offsets/1"
    assert (ledger.visible, waiting.answer) == ([], None)
    ledger.durable(0, ("a", 1))
    assert (ledger.visible, waiting.answer) == ([], None), "durable is not published"
    ledger.do("work", index=ledger.work - 1)
    assert (ledger.visible, waiting.answer) == (["commits/0"], None)
    ledger.do_work()
    assert ledger.visible == ["commits/0", "offsets/1"]
    assert waiting.answer == "admitted"


def test_offsets_of_a_run_that_failed_never_appear(ledger: LedgerWorld) -> None:
    apply(ledger, 0)
    ledger.take_offsets(1)
    ledger.not_written(0)
    ledger.take_offsets(2)
    ledger.do_work()
    assert ledger.visible == []
    assert {event["file"] for event in ledger.all("dropped")} == {
        "commits/0",
        "offsets/1",
        "offsets/2",
    }
    assert ledger.await_quiet().result()["problem"] == "No pack."


def test_the_gate_alone_for_tasks_that_read_first(ledger: LedgerWorld) -> None:
    assert ledger.gate(0).answer == "write now"
    apply(ledger, 0)
    waiting = ledger.gate(1)
    assert waiting.answer is None
    ledger.durable(0, ("a", 1))
    ledger.do_work()
    assert waiting.answer == "admitted"
    assert ledger.gate(1).answer == "write now"
    # It registers nothing: the batch has no store yet.
    assert not ledger.on_batch("is_registered", 1)


def test_the_first_task_reports_what_the_batch_before_was_like(ledger: LedgerWorld) -> None:
    apply(ledger, 0)
    waiting = [ledger.register(1, store) for store in "ab"]
    ledger.durable(0, ("a", 1), retries=3)
    ledger.do_work()
    replies = [call.reply for call in waiting]
    assert [(reply["unpublished"], reply["retries"]) for reply in replies if reply] == [
        (1, 3),
        (0, 0),
    ]


# ---- durable, then published


def test_commits_wait_for_every_store_on_every_executor(ledger: LedgerWorld) -> None:
    ledger.register(0, "a", executor="1")
    ledger.register(0, "b", executor="1")
    ledger.register(0, "c", executor="2")
    early = ledger.orders(0, "1")
    assert early.answer is None
    ledger.hand_over(0)
    assert early.stores == [("a", 1), ("b", 1)]
    assert ledger.orders(0, "2").stores == [("c", 1)]
    ledger.durable(0, ("a", 1), ("b", 1), executor="1")
    ledger.do_work()
    assert ledger.visible == []
    # An executor's message about another's store does not count.
    ledger.durable(0, ("c", 1), executor="1")
    ledger.do_work()
    assert ledger.visible == []
    ledger.durable(0, ("c", 1), executor="2")
    ledger.do_work()
    assert ledger.visible == ["commits/0"]


def test_commits_are_prepared_while_the_state_is_written(ledger: LedgerWorld) -> None:
    apply(ledger, 0)
    ledger.do_work()
    assert ledger.all("prepare") == [{"what": "prepare", "file": "commits/0"}]
    assert ledger.all("publish") == []


def test_a_store_that_enters_again_replaces_its_first_attempt(ledger: LedgerWorld) -> None:
    """A task ran twice, on two executors and with two results: the later one counts."""
    ledger.register(0, "a", 1, executor="1")
    ledger.register(0, "b", 1, executor="1")
    ledger.register(0, "a", 2, executor="2")
    ledger.hand_over(0)
    assert ledger.orders(0, "1").stores == [("b", 1)]
    assert ledger.orders(0, "2").stores == [("a", 2)]
    ledger.durable(0, ("a", 1), ("b", 1), executor="1")
    ledger.durable(0, ("a", 1), executor="2")
    ledger.do_work()
    assert ledger.visible == []
    ledger.durable(0, ("a", 2), executor="2")
    ledger.do_work()
    assert ledger.visible == ["commits/0"]


def test_runs_of_a_task_stand_side_by_side_where_spark_tells_them_apart(
    ledger: LedgerWorld,
) -> None:
    ledger.register(0, "a", 1, executor="1", named=True)
    ledger.register(0, "a", 2, executor="2", named=True)
    ledger.hand_over(0)
    assert ledger.orders(0, "1").stores == [("a", 1)]
    assert ledger.orders(0, "2").stores == [("a", 2)]
    ledger.durable(0, ("a", 2), executor="2")
    ledger.do_work()
    assert ledger.visible == []
    ledger.durable(0, ("a", 1), executor="1")
    ledger.do_work()
    assert ledger.visible == ["commits/0"]


def test_orders_are_for_those_who_have_something_that_counts(ledger: LedgerWorld) -> None:
    """An executor whose only attempt was replaced writes no pack, not even an empty one."""
    ledger.register(0, "a", 1, executor="1")
    ledger.register(0, "a", 1, executor="2")
    early = ledger.orders(0, "1")
    ledger.hand_over(0)
    assert early.answer == "discard"
    assert ledger.orders(0, "1").answer == "discard"
    assert ledger.orders(0, "2").answer == "write"


def test_what_is_durable_is_not_ordered_again(ledger: LedgerWorld) -> None:
    """A task that was abandoned comes late and asks: its executor's parts are written already."""
    ledger.register(0, "a", executor="1")
    ledger.register(0, "b", executor="2")
    ledger.hand_over(0)
    ledger.durable(0, ("a", 1), executor="1")
    assert ledger.orders(0, "1").answer == "discard"
    assert ledger.orders(0, "2").stores == [("b", 1)]


def test_orders_may_be_asked_before_the_first_task_has_registered(ledger: LedgerWorld) -> None:
    """A part is submitted to the pipeline first; its thread may be faster than its task."""
    early = ledger.orders(0)
    assert early.answer is None
    assert not ledger.on_batch("is_registered", 0)
    ledger.register(0)
    ledger.hand_over(0)
    assert early.stores == [("a", 1)]
    # The same of a batch whose tasks then turned out to be synchronous.
    ledger.durable(0, ("a", 1))
    ledger.do_work()
    early = ledger.orders(1)
    ledger.on_batch("committed_directly", 1)
    assert early.answer == "discard"


def test_no_orders_for_a_batch_that_is_over(ledger: LedgerWorld) -> None:
    ledger.publish(0)
    assert ledger.orders(0).answer == "discard"
    assert ledger.orders(5).answer == "discard"
    assert ledger.ask("orders", 0, run="another run", executor="1").answer == "discard"


def test_a_store_that_loads_a_version_waits_until_it_is_durable(ledger: LedgerWorld) -> None:
    assert ledger.ask("await_durable", 0).answer == "acknowledged"
    ledger.publish(0)
    apply(ledger, 1)
    waiting = ledger.ask("await_durable", 1)
    assert waiting.answer is None
    ledger.durable(1, ("a", 2))
    assert waiting.answer == "acknowledged"
    assert ledger.visible == ["commits/0"], "durable, not published yet"


def test_in_a_runs_first_batch_it_waits_until_the_packs_are_tidied(ledger: LedgerWorld) -> None:
    """Packs of the same version from a crashed run are not to be taken for this one's."""
    apply(ledger, 0)
    waiting = ledger.ask("await_durable", 0)
    ledger.durable(0, ("a", 1))
    later = ledger.ask("await_durable", 0)
    assert (waiting.answer, later.answer) == (None, None)
    ledger.do_work()
    assert ledger.visible == ["commits/0"]
    assert (waiting.answer, later.answer) == ("acknowledged", "acknowledged")


# ---- tasks that are not admitted


def test_tasks_that_come_too_late_are_refused(ledger: LedgerWorld) -> None:
    apply(ledger, 0)
    assert_refused(ledger.register(0, "b"), "batch 0", ROOT)  # applied
    ledger.durable(0, ("a", 1))
    assert_refused(ledger.register(0, "b"))  # durable
    ledger.do_work()
    assert_refused(ledger.register(0, "b"))  # published
    ledger.begin("second run", committed=0)
    assert_refused(ledger.register(0, "a", run="run"), "over")
    assert_refused(ledger.register(1, "a", run="run"), "over")
    assert ledger.register(1).answer == "admitted"


def test_a_task_waiting_for_a_run_that_ended_is_refused(ledger: LedgerWorld) -> None:
    ledger.publish(0)
    ledger.take_offsets(1)
    waiting, orders = ledger.register(1), ledger.orders(1)
    ledger.begin("second run", committed=0)
    assert_refused(waiting, "over")
    assert orders.answer == "discard"
    ledger.do_work()  # the offsets come late; no harm is done
    assert ledger.register(1).answer == "admitted"


def test_a_run_that_is_over_lets_go_of_its_unfinished_batch(ledger: LedgerWorld) -> None:
    """The query was stopped: a batch handed over is still published, one that only runs is not."""
    apply(ledger, 0)
    waiting, only_gate, orders = ledger.register(1), ledger.gate(1), ledger.orders(1)
    ledger.do("ended", run="another run")
    assert waiting.answer is None
    ledger.do("ended", run="run")
    assert_refused(waiting, "over")
    assert_refused(only_gate, "over")
    assert orders.answer == "discard"
    assert_refused(ledger.register(1, "b"), "over")
    assert ledger.orders(0).stores == [("a", 1)]
    ledger.durable(0, ("a", 1))
    ledger.do_work()
    assert ledger.visible == ["commits/0"]
    assert ledger.await_quiet().result() is None
    ledger.begin("second run", committed=0)
    assert ledger.register(1).answer == "admitted"


def test_where_no_query_publishes_stores_are_told_to_be_synchronous(ledger: LedgerWorld) -> None:
    assert ledger.register(0, root="/another/checkpoint").answer == "write now"
    assert ledger.register(0, run="unannounced run").answer == "write now"
    assert not ledger.on_batch("is_registered", 0)


def test_a_batch_that_was_committed_directly_moves_the_gate_on(ledger: LedgerWorld) -> None:
    ledger.publish(0)
    assert ledger.do("is_asynchronous", run="run")
    ledger.on_batch("committed_directly", 1)
    assert not ledger.do("is_asynchronous", run="run")
    assert_refused(ledger.register(1))
    assert ledger.register(2).answer == "admitted"


def test_what_spark_may_take_for_new(ledger: LedgerWorld) -> None:
    assert not ledger.on_batch("is_new", 0), "an earlier query may have left it"
    ledger.publish(0)
    assert not ledger.on_batch("is_new", 0)
    assert ledger.on_batch("is_new", 1)
    assert not ledger.on_batch("is_new", 1, run="another run")


# ---- waiting


def test_await_quiet_returns_when_all_is_published(ledger: LedgerWorld) -> None:
    assert ledger.await_quiet().result() is None
    ledger.register(0)
    assert ledger.await_quiet().result() is None, "a batch that only runs is not waited for"
    ledger.hand_over(0)
    waiting = ledger.await_quiet()
    below = ledger.ask("await_quiet_below", 0, path="/")
    everywhere = ledger.ask("await_quiet_below", 0, path=None)
    elsewhere = ledger.ask("await_quiet_below", 0, path="/check")
    assert elsewhere.result() == []
    ledger.durable(0, ("a", 1))
    assert waiting.waits
    assert everywhere.waits
    ledger.do_work()
    assert waiting.result() is None
    assert everywhere.result() == []
    assert below.result() == []


def test_await_quiet_tells_what_was_not_written(ledger: LedgerWorld) -> None:
    """Writes under way count, too: nothing is written any more once it has returned."""
    apply(ledger, 0)
    ledger.not_written(0)
    waiting = ledger.await_quiet()
    assert waiting.waits, "`commits/0` is still being prepared"
    ledger.do_work()
    assert waiting.result()["problem"] == "No pack."
    (left,) = ledger.ask("await_quiet_below", 0, path=ROOT).result()
    assert left["problem"] == "No pack."


def test_await_quiet_waits_for_offsets(ledger: LedgerWorld) -> None:
    ledger.publish(0)
    ledger.take_offsets(1)
    waiting = ledger.await_quiet()
    assert waiting.waits
    ledger.do_work()
    assert waiting.result() is None


def test_await_quiet_does_not_wait_for_ever(ledger: LedgerWorld) -> None:
    apply(ledger, 0)
    with pytest.raises(StoreError) as caught:
        ledger.await_quiet(millis=1).result()
    assert caught.value.class_name == "tailrace.ledger.CommitFailed"
    assert ROOT in str(caught.value)
    assert "Remedy:" in str(caught.value)


def test_await_published(ledger: LedgerWorld) -> None:
    ledger.await_published(-1).result()
    apply(ledger, 0)
    waiting = ledger.await_published(0)
    ledger.durable(0, ("a", 1))
    assert waiting.waits, "durable is not published"
    ledger.do_work()
    waiting.result()


# ---- packs


def test_the_first_publication_of_a_run_sweeps_what_a_crash_left(ledger: LedgerWorld) -> None:
    ledger.begin("second run", committed=4)
    ledger.register(5, "a", executor="1")
    ledger.register(5, "b", executor="2")
    ledger.hand_over(5)
    ledger.durable(5, ("a", 1), executor="1", pack="6-a")
    ledger.do_work()
    assert ledger.all("delete others") == []
    ledger.durable(5, ("b", 1), executor="2", pack="6-b")
    ledger.do_work()
    kinds = [
        event["what"] for event in ledger.events if event["what"] in ("delete others", "visible")
    ]
    assert kinds == ["delete others", "visible"], "swept first, published then"
    assert ledger.all("delete others")[0]["version"] == 6
    assert ledger.all("delete others")[0]["written"] == ["6-a", "6-b"]
    ledger.publish(6)
    assert len(ledger.all("delete others")) == 1, "later batches have nothing to sweep"


def test_a_batch_that_is_committed_directly_sweeps_too(ledger: LedgerWorld) -> None:
    """`commit="sync"` after a crash of `commit="async"`: a leftover pack would be read first."""
    ledger.begin("second run", committed=4)
    ledger.on_batch("tidy_before", 5)
    (swept,) = ledger.all("delete others")
    assert (swept["version"], swept["written"]) == (6, [])
    ledger.on_batch("tidy_before", 6)
    assert len(ledger.all("delete others")) == 1


def test_packs_are_deleted_once_no_store_needs_them(ledger: LedgerWorld) -> None:
    def needs(store: str, version: int) -> list[int]:
        ledger.do("oldest_needed", store=store, version=version)
        ledger.do_work()
        return [event["version"] for event in ledger.all("delete up to")]

    assert needs("a", 3) == [], "which stores there are is not known yet"
    ledger.publish(0, ("a", 1), ("b", 1))
    assert needs("a", 5) == [], "store b has not said anything"
    assert needs("b", 2) == [2]
    assert needs("a", 9) == [2]
    assert needs("b", 7) == [2, 7]


def test_what_an_earlier_run_needed_is_forgotten(ledger: LedgerWorld) -> None:
    """The query was set back to an earlier batch: its stores need older packs than they did."""
    ledger.publish(0, ("a", 1), ("b", 1))
    ledger.do("oldest_needed", store="a", version=90)
    ledger.begin("second run", committed=10)
    ledger.publish(11, ("a", 1), ("b", 1))
    ledger.do("oldest_needed", store="b", version=12)
    ledger.do_work()
    assert ledger.all("delete up to") == [], "store a has not said what it needs now"
    ledger.do("oldest_needed", store="a", version=10)
    ledger.do_work()
    assert [event["version"] for event in ledger.all("delete up to")] == [10]


# ---- checkpoints apart


def test_checkpoints_do_not_touch_each_other(ledger: LedgerWorld) -> None:
    other = "/another/checkpoint"
    ledger.do("begin", root=other, run="other", next=0)
    apply(ledger, 0)
    assert ledger.register(0, root=other, run="other").answer == "admitted"
    ledger.not_written(0)
    ledger.do_work()
    assert ledger.register(0, "b", root=other, run="other").answer == "admitted"
    ledger.do("verify", root=other, run="other")


# ---- phases


@pytest.mark.parametrize("before", STATES)
@pytest.mark.parametrize("after", STATES)
def test_a_batch_moves_only_as_the_table_says(
    ledger_harness: LedgerHarness, before: str, after: str
) -> None:
    operation = {"op": "move", "from": before, "to": after}
    (moved,) = ledger_harness.run([operation])
    if (before, after) in LEGAL:
        assert moved == after
    else:
        assert isinstance(moved, StoreError)
        assert moved.class_name == "java.lang.IllegalStateException"
        assert f"A batch that is {before} cannot become {after}." in str(moved)


def test_the_table_names_every_phase(ledger_harness: LedgerHarness) -> None:
    assert sorted(ledger_harness.call("states")) == sorted(STATES)
