"""The driver's ledger with writes that fail and executors that are lost.

Problem: a batch that cannot be made durable must not be published, and no caller may wait for ever.
Answer: log files that fail as scripted, executors that report a failure or vanish; then every
caller is looked at (tests/jvm/LedgerHarness.scala).
Invariant: a failed run refuses every caller with problem, cause and remedy; a step that was done
and only seemed to fail is found done.
"""

from __future__ import annotations

import pytest
from support.harness import StoreError
from support.ledger import LedgerWorld, apply, assert_refused

# ---- packs and log entries that cannot be written


def test_a_failed_write_refuses_all_tasks(ledger: LedgerWorld) -> None:
    ledger.register(0, "a", executor="1")
    ledger.register(0, "b", executor="2")
    ledger.hand_over(0)
    at_gate, only_gate = ledger.register(1), ledger.gate(1)
    orders, loading = ledger.orders(1, "2"), ledger.ask("await_durable", 0)
    publishing = ledger.await_published(0)
    assert publishing.waits
    ledger.not_written(0, "1")

    said = ("No pack.", "The disk is full.", "restart the query")
    assert_refused(at_gate, *said)
    assert_refused(only_gate, *said)
    assert_refused(ledger.register(1, "b"), *said)
    assert_refused(ledger.gate(1), *said)
    assert orders.answer == "discard"
    assert loading.answer == "acknowledged"
    for refusing in (publishing.result, lambda: ledger.do("verify", run="run")):
        with pytest.raises(StoreError) as caught:
            refusing()
        assert caught.value.class_name == "tailrace.ledger.CommitFailed"
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
    assert_refused(ledger.register(0), "No pack.")


def test_a_new_run_begins_without_the_failure(ledger: LedgerWorld) -> None:
    apply(ledger, 0)
    ledger.not_written(0)
    ledger.do_work()
    ledger.begin("second run")
    ledger.do("verify", run="second run")
    ledger.publish(0)
    assert ledger.visible == ["commits/0"]


def test_a_late_failure_of_an_earlier_run_does_not_count(ledger: LedgerWorld) -> None:
    ledger.register(0)
    ledger.begin("second run")
    ledger.on_batch("not_written", 0, run="run", executor="1", problem="No.", because="Late.")
    assert ledger.register(0).answer == "admitted"


def test_a_late_failure_of_a_published_batch_does_not_count(ledger: LedgerWorld) -> None:
    """An attempt that does not count any more could not be written: nothing is lost."""
    ledger.publish(0)
    ledger.not_written(0, executor="2")
    assert ledger.register(1).answer == "admitted"


@pytest.mark.parametrize("error", ["fail", "full"])
def test_a_write_is_repeated_with_growing_pauses(ledger: LedgerWorld, error: str) -> None:
    ledger.register(0)
    ledger.hand_over(0, prepare=[error], publish=[error, error])
    ledger.durable(0, ("a", 1))
    ledger.do_work()
    assert [event["millis"] for event in ledger.all("pause")] == [50, 50, 100]
    assert ledger.visible == ["commits/0"]


def test_a_publication_whose_answer_was_lost_is_found_done(ledger: LedgerWorld) -> None:
    ledger.register(0)
    ledger.hand_over(0, publish=["lost"])
    ledger.durable(0, ("a", 1))
    ledger.do_work()
    assert len(ledger.all("publish")) == 1, "it must not be tried a second time"
    assert len(ledger.all("looked up")) == 1
    assert ledger.visible == ["commits/0"]
    assert ledger.register(1).answer == "admitted"


@pytest.mark.parametrize("script", [["taken"], ["fail", "taken"]])
def test_an_entry_of_another_query_is_never_overwritten(
    ledger: LedgerWorld, script: list[str]
) -> None:
    ledger.register(0)
    ledger.hand_over(0, publish=script)
    waiting = ledger.register(1)
    ledger.durable(0, ("a", 1))
    ledger.do_work()
    assert len(ledger.all("publish")) == len(script), "another query's entry was tried again"
    assert ledger.visible == []
    assert_refused(waiting, "batch 0", "Concurrent update to the log", "commits/0 exists already")
    with pytest.raises(StoreError, match="CheckpointTaken"):
        ledger.do("verify", run="run")


@pytest.mark.parametrize("step", ["commits", "prepared commits", "offsets"])
@pytest.mark.parametrize(
    ("error", "said"), [("fail", "no answer for"), ("full", "No space left on device")]
)
def test_log_entries_that_cannot_be_written_fail_the_run(
    ledger: LedgerWorld, step: str, error: str, said: str
) -> None:
    never = [error] * 20
    ledger.publish(0)
    if step == "offsets":
        ledger.take_offsets(1, publish=never)
        waiting = ledger.register(1)
    else:
        ledger.register(1)
        ledger.hand_over(1, **{"publish" if step == "commits" else "prepare": never})
        waiting = ledger.register(2)
        if step == "commits":
            ledger.durable(1, ("a", 1))
    ledger.do_work()
    assert_refused(waiting, "batch 1", said, "restart the query")
    assert ledger.visible == ["commits/0"]


def test_offsets_whose_answer_was_lost_are_found_done(ledger: LedgerWorld) -> None:
    ledger.publish(0)
    ledger.take_offsets(1, publish=["lost"])
    waiting = ledger.register(1)
    ledger.do_work()
    assert waiting.answer == "admitted"
    assert ledger.visible == ["commits/0", "offsets/1"]


# ---- lost executors


def test_an_executor_lost_before_the_hand_over_fails_the_batch(ledger: LedgerWorld) -> None:
    ledger.register(0, executor="1")
    ledger.register(0, "b", executor="2")
    ledger.do("executor_lost", executor="1")
    assert ledger.register(0, "c", executor="2").answer == "admitted", "its tasks may run elsewhere"
    ledger.hand_over(0)
    assert_refused(ledger.register(1), "Executor 1", "batch 0", "Restart the query")
    assert ledger.orders(0, "2").answer == "discard"
    ledger.durable(0, ("b", 1), ("c", 1), executor="2")
    ledger.do_work()
    assert ledger.visible == []


def test_an_executor_lost_after_the_hand_over_fails_the_batch(ledger: LedgerWorld) -> None:
    ledger.register(0, executor="1")
    ledger.register(0, "b", executor="2")
    ledger.hand_over(0)
    ledger.durable(0, ("b", 1), executor="2")
    waiting = ledger.register(1, executor="2")
    ledger.do("executor_lost", executor="1")
    assert_refused(waiting, "Executor 1", "batch 0")
    ledger.do_work()
    assert ledger.visible == []


def test_an_executor_lost_with_nothing_but_durable_state_is_no_loss(ledger: LedgerWorld) -> None:
    ledger.register(0, executor="1")
    ledger.register(0, "b", executor="2")
    ledger.hand_over(0)
    ledger.durable(0, ("a", 1), executor="1")
    ledger.do("executor_lost", executor="1")
    ledger.durable(0, ("b", 1), executor="2")
    ledger.do_work()
    assert ledger.visible == ["commits/0"]


def test_a_task_of_a_lost_executor_that_ran_elsewhere_counts(ledger: LedgerWorld) -> None:
    ledger.register(0, executor="1")
    ledger.do("executor_lost", executor="1")
    ledger.register(0, executor="2")
    ledger.hand_over(0)
    ledger.durable(0, ("a", 1), executor="2")
    ledger.do_work()
    assert ledger.visible == ["commits/0"]
