"""The driver's ledger keeps the rules of the commit protocol (docs/rfcs/0004).

Problem: the rules are about order: what may become visible before what, and who goes on when.
Answer: the real ledger, with its background work done when the test says so and with log files that
fail as scripted; each test writes down one order and looks at what was allowed to happen.
Invariant: `commits/N` becomes visible when every store of batch N is durable, no task of batch N+1
passes before that, and whoever waits gets an answer. tests/engine/test_ledger_histories.py checks
the same for orders that nobody has thought of.
"""

from __future__ import annotations

import pytest
from support.harness import StoreError
from support.ledger import ROOT, Call, LedgerHarness, LedgerWorld

STATES = ["running", "applied", "durable", "published", "failed"]
LEGAL = {
    ("running", "applied"),
    ("applied", "durable"),
    ("durable", "published"),
    ("running", "failed"),
    ("applied", "failed"),
    ("durable", "failed"),
}


def apply(ledger: LedgerWorld, batch: int, *stores: str, executor: str = "1") -> None:
    """A batch up to the point where Spark hands over `commits/N`."""
    for store in stores or ("a",):
        assert ledger.enter(batch, store, batch + 1, executor).answer == "proceed"
    ledger.hand_over(batch)


def assert_refused(call: Call, *said: str) -> None:
    """The answer states problem, cause and remedy."""
    reply = call.reply
    assert reply is not None, "nobody has answered"
    assert reply["answer"] == "refused", reply
    assert all(reply[part] for part in ("problem", "because", "remedy")), reply
    text = " ".join((reply["problem"], reply["because"], reply["remedy"]))
    assert all(words in text for words in said), text


# ---- the gate


def test_the_first_batch_of_a_run_does_not_wait(ledger: LedgerWorld) -> None:
    assert ledger.enter(0).answer == "proceed"


def test_a_run_goes_on_behind_what_is_committed(ledger: LedgerWorld) -> None:
    ledger.begin("second run", committed=6)
    assert ledger.enter(7).answer == "proceed"
    assert_refused(ledger.enter(6), "batch 6")


def test_the_gate_opens_when_the_batch_before_is_published_and_not_earlier(
    ledger: LedgerWorld,
) -> None:
    apply(ledger, 0)
    waiting = ledger.enter(1)
    ledger.do("work")  # `commits/0` is prepared
    assert (ledger.work, waiting.answer) == (0, None)
    ledger.durable(0, ("a", 1))
    assert (ledger.visible, waiting.answer) == ([], None)
    ledger.do("work")
    assert ledger.visible == ["commits/0"]
    assert waiting.answer == "proceed"
    assert ledger.enter(1, "b").answer == "proceed"


@pytest.mark.parametrize("offsets_first", [True, False])
def test_the_gate_waits_for_the_batchs_own_offsets(
    ledger: LedgerWorld, offsets_first: bool
) -> None:
    apply(ledger, 0)
    ledger.do("work")
    ledger.write_offsets(1)
    waiting = ledger.enter(1)
    ledger.durable(0, ("a", 1))
    assert ledger.work == 2
    ledger.do("work", index=0 if offsets_first else 1)
    assert ledger.visible == ["offsets/1" if offsets_first else "commits/0"]
    assert waiting.answer is None
    ledger.do("work")
    assert waiting.answer == "proceed"


def test_the_gate_alone_for_tasks_that_read_first(ledger: LedgerWorld) -> None:
    assert ledger.gate(0).answer == "be synchronous"
    apply(ledger, 0)
    waiting = ledger.gate(1)
    assert waiting.answer is None
    ledger.durable(0, ("a", 1))
    ledger.do_work()
    assert waiting.answer == "proceed"
    assert ledger.gate(1).answer == "be synchronous"
    # It registers nothing: the batch has no store yet.
    assert not ledger.on_batch("has_entered", 1)


def test_the_first_task_reports_what_the_batch_before_was_like(ledger: LedgerWorld) -> None:
    apply(ledger, 0)
    waiting = [ledger.enter(1, store) for store in "ab"]
    ledger.durable(0, ("a", 1), retries=3)
    ledger.do_work()
    replies = [call.reply for call in waiting]
    assert [(reply["unpublished"], reply["retries"]) for reply in replies if reply] == [
        (1, 3),
        (0, 0),
    ]


# ---- durable, then published


def test_commits_wait_for_every_store_on_every_executor(ledger: LedgerWorld) -> None:
    ledger.enter(0, "a", executor="1")
    ledger.enter(0, "b", executor="1")
    ledger.enter(0, "c", executor="2")
    early = ledger.orders(0, "1")
    assert early.answer is None
    ledger.hand_over(0)
    assert early.stores == [("a", 1), ("b", 1)]
    assert ledger.orders(0, "2").stores == [("c", 1)]
    ledger.durable(0, ("a", 1), ("b", 1), executor="1")
    ledger.do_work()
    assert ledger.visible == []
    # What an executor says of another's store does not count.
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
    ledger.enter(0, "a", 1, executor="1")
    ledger.enter(0, "b", 1, executor="1")
    ledger.enter(0, "a", 2, executor="2")
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
    ledger.enter(0, "a", 1, executor="1", named=True)
    ledger.enter(0, "a", 2, executor="2", named=True)
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
    ledger.enter(0, "a", 1, executor="1")
    ledger.enter(0, "a", 1, executor="2")
    early = ledger.orders(0, "1")
    ledger.hand_over(0)
    assert early.answer == "discard"
    assert ledger.orders(0, "1").answer == "discard"
    assert ledger.orders(0, "2").answer == "write"


def test_what_is_durable_is_not_ordered_again(ledger: LedgerWorld) -> None:
    """A task that was given up comes late and asks: its executor's parts are written already."""
    ledger.enter(0, "a", executor="1")
    ledger.enter(0, "b", executor="2")
    ledger.hand_over(0)
    ledger.durable(0, ("a", 1), executor="1")
    assert ledger.orders(0, "1").answer == "discard"
    assert ledger.orders(0, "2").stores == [("b", 1)]


@pytest.mark.xfail(
    reason="orders for the next batch are discarded before a task has entered", strict=True
)
def test_orders_may_be_asked_before_the_first_task_has_entered(ledger: LedgerWorld) -> None:
    """A part is left in the pipeline first; its thread may be faster than its task."""
    early = ledger.orders(0)
    assert early.answer is None
    assert not ledger.on_batch("has_entered", 0)
    ledger.enter(0)
    ledger.hand_over(0)
    assert early.stores == [("a", 1)]
    # The same of a batch whose tasks then turned out to be synchronous.
    ledger.durable(0, ("a", 1))
    ledger.do_work()
    early = ledger.orders(1)
    ledger.on_batch("committed_directly", 1)
    assert early.answer == "discard"


def test_nobody_gets_orders_for_a_batch_that_is_over(ledger: LedgerWorld) -> None:
    ledger.publish(0)
    assert ledger.orders(0).answer == "discard"
    assert ledger.orders(5).answer == "discard"
    assert ledger.ask("orders", 0, run="another run", executor="1").answer == "discard"


def test_whoever_loads_a_version_waits_until_it_is_durable(ledger: LedgerWorld) -> None:
    assert ledger.ask("await_durable", 0).answer == "heard"
    apply(ledger, 0)
    waiting = ledger.ask("await_durable", 0)
    assert waiting.answer is None
    ledger.durable(0, ("a", 1))
    assert waiting.answer == "heard"
    assert ledger.visible == [], "durable, not published yet"


# ---- who is not let in


def test_tasks_that_come_too_late_are_refused(ledger: LedgerWorld) -> None:
    apply(ledger, 0)
    assert_refused(ledger.enter(0, "b"), "batch 0", ROOT)  # applied
    ledger.durable(0, ("a", 1))
    assert_refused(ledger.enter(0, "b"))  # durable
    ledger.do_work()
    assert_refused(ledger.enter(0, "b"))  # published
    ledger.begin("second run", committed=0)
    assert_refused(ledger.enter(0, "a", run="run"), "over")
    assert_refused(ledger.enter(1, "a", run="run"), "over")
    assert ledger.enter(1).answer == "proceed"


def test_a_task_waiting_for_a_run_that_ended_is_refused(ledger: LedgerWorld) -> None:
    ledger.publish(0)
    ledger.write_offsets(1)
    waiting, orders = ledger.enter(1), ledger.orders(1)
    ledger.begin("second run", committed=0)
    assert_refused(waiting, "over")
    assert orders.answer == "discard"
    ledger.do_work()  # the offsets come late; nobody minds
    assert ledger.enter(1).answer == "proceed"


def test_a_run_that_is_over_lets_go_of_its_unfinished_batch(ledger: LedgerWorld) -> None:
    """The query was stopped: what is handed over is still published, what only runs is not."""
    apply(ledger, 0)
    waiting, only_gate, orders = ledger.enter(1), ledger.gate(1), ledger.orders(1)
    ledger.do("ended", run="another run")
    assert waiting.answer is None
    ledger.do("ended", run="run")
    assert_refused(waiting, "over")
    assert_refused(only_gate, "over")
    assert orders.answer == "discard"
    assert_refused(ledger.enter(1, "b"), "over")
    assert ledger.orders(0).stores == [("a", 1)]
    ledger.durable(0, ("a", 1))
    ledger.do_work()
    assert ledger.visible == ["commits/0"]
    assert ledger.await_quiet().result() is None
    ledger.begin("second run", committed=0)
    assert ledger.enter(1).answer == "proceed"


def test_where_nobody_publishes_stores_are_told_to_be_synchronous(ledger: LedgerWorld) -> None:
    assert ledger.enter(0, root="/another/checkpoint").answer == "be synchronous"
    assert ledger.enter(0, run="unannounced run").answer == "be synchronous"
    assert not ledger.on_batch("has_entered", 0)


def test_a_batch_that_was_committed_directly_moves_the_gate_on(ledger: LedgerWorld) -> None:
    ledger.publish(0)
    assert ledger.do("is_asynchronous", run="run")
    ledger.on_batch("committed_directly", 1)
    assert not ledger.do("is_asynchronous", run="run")
    assert_refused(ledger.enter(1))
    assert ledger.enter(2).answer == "proceed"


def test_what_spark_may_take_for_new(ledger: LedgerWorld) -> None:
    assert not ledger.on_batch("is_new", 0), "an earlier query may have left it"
    assert not ledger.do("has_packs", run="run")
    ledger.publish(0)
    assert ledger.do("has_packs", run="run")
    assert not ledger.on_batch("is_new", 0)
    assert ledger.on_batch("is_new", 1)
    assert not ledger.on_batch("is_new", 1, run="another run")


# ---- what cannot be written


def test_a_failed_write_refuses_everybody(ledger: LedgerWorld) -> None:
    ledger.enter(0, "a", executor="1")
    ledger.enter(0, "b", executor="2")
    ledger.hand_over(0)
    at_gate, only_gate = ledger.enter(1), ledger.gate(1)
    orders, loading = ledger.orders(1, "2"), ledger.ask("await_durable", 0)
    publishing = ledger.await_published(0)
    assert publishing.waits
    ledger.not_written(0, "1")

    said = ("No pack.", "The disk is full.", "restart the query")
    assert_refused(at_gate, *said)
    assert_refused(only_gate, *said)
    assert_refused(ledger.enter(1, "b"), *said)
    assert_refused(ledger.gate(1), *said)
    assert orders.answer == "discard"
    assert loading.answer == "heard"
    for refusing in (publishing.result, lambda: ledger.do("verify", run="run")):
        with pytest.raises(StoreError) as caught:
            refusing()
        assert caught.value.class_name == "tailrace.commit.CommitFailed"
        assert all(words in str(caught.value) for words in (*said, "Cause:", "Remedy:"))
    with pytest.raises(StoreError, match="CommitFailed"):
        ledger.hand_over(1)
    ledger.durable(0, ("b", 1), executor="2")
    ledger.do_work()
    assert ledger.visible == []


def test_the_first_cause_is_the_one_that_is_told(ledger: LedgerWorld) -> None:
    apply(ledger, 0)
    ledger.not_written(0)
    ledger.do("executor_lost", executor="1")
    ledger.on_batch("not_written", 0, executor="1", problem="Another.", because="It followed.")
    assert_refused(ledger.enter(0), "No pack.")


def test_a_new_run_begins_without_the_failure(ledger: LedgerWorld) -> None:
    apply(ledger, 0)
    ledger.not_written(0)
    ledger.do_work()
    ledger.begin("second run")
    ledger.do("verify", run="second run")
    ledger.publish(0)
    assert ledger.visible == ["commits/0"]


def test_a_late_failure_of_an_earlier_run_does_not_count(ledger: LedgerWorld) -> None:
    ledger.enter(0)
    ledger.begin("second run")
    ledger.on_batch("not_written", 0, run="run", executor="1", problem="No.", because="Late.")
    assert ledger.enter(0).answer == "proceed"


def test_a_late_failure_of_a_published_batch_does_not_count(ledger: LedgerWorld) -> None:
    """An attempt that does not count any more could not be written: nothing is lost."""
    ledger.publish(0)
    ledger.not_written(0, executor="2")
    assert ledger.enter(1).answer == "proceed"


def test_a_write_is_repeated_with_growing_pauses(ledger: LedgerWorld) -> None:
    ledger.enter(0)
    ledger.hand_over(0, prepare=["fail"], publish=["fail", "fail"])
    ledger.durable(0, ("a", 1))
    ledger.do_work()
    assert [event["millis"] for event in ledger.all("pause")] == [50, 50, 100]
    assert ledger.visible == ["commits/0"]


def test_a_publication_whose_answer_was_lost_is_found_done(ledger: LedgerWorld) -> None:
    ledger.enter(0)
    ledger.hand_over(0, publish=["lost"])
    ledger.durable(0, ("a", 1))
    ledger.do_work()
    assert len(ledger.all("publish")) == 1, "it must not be tried a second time"
    assert len(ledger.all("looked up")) == 1
    assert ledger.visible == ["commits/0"]
    assert ledger.enter(1).answer == "proceed"


@pytest.mark.parametrize("script", [["taken"], ["fail", "taken"]])
def test_an_entry_of_another_query_is_never_overwritten(
    ledger: LedgerWorld, script: list[str]
) -> None:
    ledger.enter(0)
    ledger.hand_over(0, publish=script)
    waiting = ledger.enter(1)
    ledger.durable(0, ("a", 1))
    ledger.do_work()
    assert len(ledger.all("publish")) == len(script), "somebody else's entry was tried again"
    assert ledger.visible == []
    assert_refused(waiting, "batch 0", "Concurrent update to the log", "commits/0 exists already")
    with pytest.raises(StoreError, match="CheckpointTaken"):
        ledger.do("verify", run="run")


@pytest.mark.parametrize("step", ["commits", "prepared commits", "offsets"])
def test_log_entries_that_cannot_be_written_fail_the_run(ledger: LedgerWorld, step: str) -> None:
    never = ["fail"] * 20
    ledger.publish(0)
    if step == "offsets":
        ledger.write_offsets(1, publish=never)
        waiting = ledger.enter(1)
    else:
        ledger.enter(1)
        ledger.hand_over(1, **{"publish" if step == "commits" else "prepare": never})
        waiting = ledger.enter(2)
        if step == "commits":
            ledger.durable(1, ("a", 1))
    ledger.do_work()
    assert_refused(waiting, "batch 1", "no answer for", "restart the query")
    assert ledger.visible == ["commits/0"]


def test_offsets_whose_answer_was_lost_are_found_done(ledger: LedgerWorld) -> None:
    ledger.publish(0)
    ledger.write_offsets(1, publish=["lost"])
    waiting = ledger.enter(1)
    ledger.do_work()
    assert waiting.answer == "proceed"
    assert ledger.visible == ["commits/0", "offsets/1"]


# ---- lost executors


def test_an_executor_lost_before_the_hand_over_fails_the_batch(ledger: LedgerWorld) -> None:
    ledger.enter(0, executor="1")
    ledger.enter(0, "b", executor="2")
    ledger.do("executor_lost", executor="1")
    assert ledger.enter(0, "c", executor="2").answer == "proceed", "its tasks may run elsewhere"
    ledger.hand_over(0)
    assert_refused(ledger.enter(1), "Executor 1", "batch 0", "Restart the query")
    assert ledger.orders(0, "2").answer == "discard"
    ledger.durable(0, ("b", 1), ("c", 1), executor="2")
    ledger.do_work()
    assert ledger.visible == []


def test_an_executor_lost_after_the_hand_over_fails_the_batch(ledger: LedgerWorld) -> None:
    ledger.enter(0, executor="1")
    ledger.enter(0, "b", executor="2")
    ledger.hand_over(0)
    ledger.durable(0, ("b", 1), executor="2")
    waiting = ledger.enter(1, executor="2")
    ledger.do("executor_lost", executor="1")
    assert_refused(waiting, "Executor 1", "batch 0")
    ledger.do_work()
    assert ledger.visible == []


def test_an_executor_lost_with_nothing_but_durable_state_is_no_loss(ledger: LedgerWorld) -> None:
    ledger.enter(0, executor="1")
    ledger.enter(0, "b", executor="2")
    ledger.hand_over(0)
    ledger.durable(0, ("a", 1), executor="1")
    ledger.do("executor_lost", executor="1")
    ledger.durable(0, ("b", 1), executor="2")
    ledger.do_work()
    assert ledger.visible == ["commits/0"]


def test_a_task_of_a_lost_executor_that_ran_elsewhere_counts(ledger: LedgerWorld) -> None:
    ledger.enter(0, executor="1")
    ledger.do("executor_lost", executor="1")
    ledger.enter(0, executor="2")
    ledger.hand_over(0)
    ledger.durable(0, ("a", 1), executor="2")
    ledger.do_work()
    assert ledger.visible == ["commits/0"]


# ---- waiting


def test_await_quiet_returns_when_all_is_published(ledger: LedgerWorld) -> None:
    assert ledger.await_quiet().result() is None
    ledger.enter(0)
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
    """Also what is under way counts: nothing is written any more once it has returned."""
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
    ledger.write_offsets(1)
    waiting = ledger.await_quiet()
    assert waiting.waits
    ledger.do_work()
    assert waiting.result() is None


def test_await_quiet_does_not_wait_for_ever(ledger: LedgerWorld) -> None:
    apply(ledger, 0)
    with pytest.raises(StoreError) as caught:
        ledger.await_quiet(millis=1).result()
    assert caught.value.class_name == "tailrace.commit.CommitFailed"
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
    ledger.begin("second run", committed=4, packs_exist=True)
    ledger.enter(5, "a", executor="1")
    ledger.enter(5, "b", executor="2")
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
    ledger.begin("second run", committed=4, packs_exist=True)
    ledger.on_batch("sweep_before", 5)
    (swept,) = ledger.all("delete others")
    assert (swept["version"], swept["written"]) == (6, [])
    ledger.on_batch("sweep_before", 6)
    assert len(ledger.all("delete others")) == 1


def test_a_checkpoint_without_packs_is_not_swept(ledger: LedgerWorld) -> None:
    ledger.on_batch("sweep_before", 0)
    assert ledger.all("delete others") == []


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
    ledger.do("listed", root=other, run="other", committed=-1, packs_exist=False)
    apply(ledger, 0)
    assert ledger.enter(0, root=other, run="other").answer == "proceed"
    ledger.not_written(0)
    ledger.do_work()
    assert ledger.enter(0, "b", root=other, run="other").answer == "proceed"
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
