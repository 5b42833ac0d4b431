"""An executor's pipeline keeps a part until it is written, or says that it is not.

Problem: a task that has submitted its changes goes on; the pipeline has the only copy.
Answer: the real pipeline with its real threads, and with a driver and a file system that obey.
Parts are submitted, orders are given or not, uploads fail, threads die.
Invariant: an ordered part is uploaded and reported as durable, or reported as not written; a part
that was not ordered is never written.
"""

from __future__ import annotations

import base64
import itertools
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.compilation import harness_jar
from support.fixtures import wait_until
from support.harness import HarnessJar, StoreError
from support.pipeline import PipelineHarness, PipelineWorld

from tailrace import _build

PROBE = "tailrace.testing.FaultsPlugin"


@pytest.fixture(scope="session")
def pipelines(harness_classes: HarnessJar) -> PipelineHarness:
    return PipelineHarness(harness_classes)


@pytest.fixture
def pipeline(pipelines: PipelineHarness) -> Iterator[PipelineWorld]:
    world = PipelineWorld(pipelines)
    yield world
    pipelines.arm("")
    world.close()


# ---- one pack per batch


@pytest.mark.parametrize("parts", [1, 7])
def test_a_batch_is_one_pack_whatever_the_number_of_its_parts(
    pipeline: PipelineWorld, parts: int
) -> None:
    stores = [(f"0/{number}/default", number + 1) for number in range(parts)]
    for store, lineage in stores:
        assert pipeline.submit(4, store, lineage).result() == 0
    pipeline.order(4, *stores)
    (durable,) = pipeline.wait_for("durable")
    (upload,) = pipeline.all("upload")
    assert len(pipeline.all("asks for orders")) == 1
    assert durable["stores"] == upload["stores"] == [list(store) for store in stores]
    assert durable["pack"] == upload["pack"]
    assert upload["pack"].startswith("5-"), "batch 4 leads to version 5"
    assert upload["length"] == len(base64.b64decode(upload["bytes"]))


def test_local_copy_then_checkpoint_then_the_ledger(pipeline: PipelineWorld) -> None:
    pipeline.submit(0, "a").result()
    pipeline.order(0, ("a", 1))
    pipeline.wait_for("durable")
    assert pipeline.happened == ["asks for orders", "local copy", "upload", "durable"]


def test_nothing_is_written_before_it_is_ordered(pipeline: PipelineWorld) -> None:
    pipeline.submit(0, "a").result()
    pipeline.wait_for("asks for orders")
    pipeline.submit(0, "b").result()
    assert pipeline.do("is_idle", millis=0), "what is not ordered is not waited for"
    assert pipeline.happened == ["asks for orders"]
    pipeline.order(0, ("a", 1), ("b", 1))
    pipeline.wait_for("durable")


def test_orders_decide_what_is_written(pipeline: PipelineWorld) -> None:
    """Of a task's two attempts the later counts; another task's attempt counts elsewhere."""
    pipeline.submit(0, "a", 1).result()
    pipeline.submit(0, "a", 2).result()
    pipeline.submit(0, "b", 1).result()
    pipeline.order(0, ("a", 2))
    (durable,) = pipeline.wait_for("durable")
    (upload,) = pipeline.all("upload")
    assert durable["stores"] == upload["stores"] == [["a", 2]]


def test_a_packs_name_does_not_depend_on_the_order_of_the_tasks(pipeline: PipelineWorld) -> None:
    for query, stores in (("p", "ab"), ("q", "ba")):
        for store in stores:
            pipeline.submit(0, store, query=query).result()
        pipeline.order(0, *((store, 1) for store in stores), query=query)
    first, second = pipeline.wait_for("upload", 2)
    assert first["pack"] == second["pack"]
    assert first["bytes"] == second["bytes"]


def test_what_the_ledger_does_not_want_is_dropped(pipeline: PipelineWorld) -> None:
    pipeline.submit(0, "a", size=900).result()
    pipeline.do("discard", batch=0)
    # The first part of a batch is told how many parts of others are there: these probes alone.
    probes = itertools.count()
    wait_until(
        lambda: (number := next(probes)) == pipeline.submit(2 + number, "b", size=1).result(),
        "the part of batch 0 stays",
    )
    pipeline.submit(1, "a", size=900).result()
    pipeline.order(1, ("a", 1))
    pipeline.wait_for("durable")
    assert len(pipeline.all("upload")) == 1
    assert pipeline.all("not written") == []


def test_an_order_for_what_is_not_here_is_answered(pipeline: PipelineWorld) -> None:
    pipeline.submit(0, "a").result()
    pipeline.order(0, ("a", 1), ("b", 1))
    (answer,) = pipeline.wait_for("not written")
    assert "batch 0" in answer["problem"]
    assert "store b" in answer["because"]
    assert pipeline.all("upload") == []


def test_a_part_is_told_how_many_of_other_batches_are_waiting(pipeline: PipelineWorld) -> None:
    for store in "abc":
        pipeline.submit(0, store).result()
    assert [pipeline.submit(1, store).result() for store in "ab"] == [3, 0]


# ---- bandwidth


def test_packs_are_written_piece_by_piece(pipelines: PipelineHarness, tmp_path: Path) -> None:
    """A more urgent job does not wait until the local copy is through; the upload is paced, too."""
    piece, second = 256 << 10, 1_000_000_000
    folders = {"checkpoint": tmp_path / "checkpoint", "local": tmp_path / "local"}
    for folder in folders.values():
        folder.mkdir(mode=0o700)
    world = PipelineWorld(pipelines, {name: str(path) for name, path in folders.items()})

    def written(folder: str) -> int:
        files = [path for path in folders[folder].rglob("*") if path.is_file()]
        return sum(path.stat().st_size for path in files if path.suffix != ".crc")

    def one_more_piece(kind: str, folder: str) -> None:
        """Moves the clock by a piece; returns when the job waits for the tokens of the next."""
        moved, before = world.do("moved", kind=kind), written(folder)
        world.do("advance", nanos=second)
        wait_until(lambda: world.do("moved", kind=kind) > moved, f"{kind}: no more pieces")
        wait_until(lambda: world.do("sleeps"))
        assert 0 < written(folder) - before <= 2 * piece

    world.do("bandwidth", bytes=piece)
    world.submit(0, "a", size=8 * piece, limit=100 * piece).result()
    world.order(0, ("a", 1))
    wait_until(lambda: world.do("sleeps"), "the local copy does not wait for tokens")
    one_more_piece("localCopy", "local")
    one_more_piece("localCopy", "local")
    world.do("begin_urgent")
    world.wait_for("urgent job begins")
    paused = written("local")
    world.do("advance", nanos=10 * second)
    assert written("local") == paused < 4 * piece
    world.do("end_urgent")
    while not world.do("moved", kind="upload"):
        world.do("advance", nanos=second)
    assert world.do("moved", kind="localCopy") == written("local") > 8 * piece
    wait_until(lambda: world.do("sleeps"))
    one_more_piece("upload", "checkpoint")
    world.do("bandwidth", bytes=0)
    (durable,) = world.wait_for("durable")
    (pack,) = folders["checkpoint"].rglob(durable["pack"])
    (copy,) = folders["local"].rglob(durable["pack"])
    assert pack.read_bytes() == copy.read_bytes()
    assert world.do("moved", kind="upload") == pack.stat().st_size
    world.close()


# ---- retries


def test_a_write_that_fails_is_repeated_and_counted(pipeline: PipelineWorld) -> None:
    pipeline.do("fail_uploads", times=4)
    pipeline.submit(0, "a", patience=5000).result()
    pipeline.order(0, ("a", 1))
    (durable,) = pipeline.wait_for("durable")
    assert durable["retries"] == 4
    assert len(pipeline.all("upload fails")) == 4
    assert [event["millis"] for event in pipeline.all("pause")] == [50, 100, 200, 400]


def test_a_write_that_keeps_failing_is_reported_with_its_cause(pipeline: PipelineWorld) -> None:
    pipeline.do("fail_uploads", times=1000)
    pipeline.submit(0, "a", patience=1000).result()
    pipeline.order(0, ("a", 1))
    (answer,) = pipeline.wait_for("not written")
    assert "batch 0 of /checkpoint" in answer["problem"]
    assert "no answer" in answer["because"]
    assert pipeline.all("durable") == []
    assert pipeline.do("is_idle", millis=20_000)


def test_a_full_disk_is_repeated_like_any_failed_write(pipeline: PipelineWorld) -> None:
    """Hadoop's error for it is a java.lang.Error, which no thread may die of."""
    pipeline.do("fail_uploads", times=4, **{"with": "full"})
    pipeline.submit(0, "a", patience=5000).result()
    pipeline.order(0, ("a", 1))
    (durable,) = pipeline.wait_for("durable")
    assert durable["retries"] == 4
    assert len(pipeline.all("asks for orders")) == 1, "one thread"


def test_a_disk_that_stays_full_is_reported_with_its_cause(pipeline: PipelineWorld) -> None:
    pipeline.do("fail_uploads", times=1000, **{"with": "full"})
    pipeline.submit(0, "a", patience=1000).result()
    pipeline.order(0, ("a", 1))
    (answer,) = pipeline.wait_for("not written")
    assert "batch 0 of /checkpoint" in answer["problem"]
    assert "No space left on device" in answer["because"]
    assert pipeline.all("durable") == []


def test_pauses_grow_and_end(pipelines: PipelineHarness) -> None:
    done = pipelines.call("retry", failures=9, patience=60_000)
    assert done["pauses"] == [50, 100, 200, 400, 800, 1600, 3200, 5000, 5000]
    assert done["repeated"] == 9
    given_up = pipelines.call("retry", failures=1000, patience=500)
    assert given_up["pauses"] == [50, 100, 200, 400]
    assert given_up["error"]["message"] == "no answer"


@pytest.mark.parametrize("kind", ["exists", "bug", "folder"])
def test_what_does_not_get_better_is_not_repeated(pipelines: PipelineHarness, kind: str) -> None:
    done = pipelines.call("retry", failures=1, patience=60_000, **{"with": kind})
    assert done["pauses"] == []
    assert "error" in done


# ---- threads that die


@pytest.mark.parametrize("point", ["local.before", "upload.before", "upload.after"])
def test_a_thread_that_dies_is_noticed_and_its_pack_written(
    pipeline: PipelineWorld, point: str
) -> None:
    pipeline.harness.arm(f"{point}@1=die")
    pipeline.submit(0, "a").result()
    pipeline.order(0, ("a", 1))
    (durable,) = pipeline.wait_for("durable")
    assert durable["stores"] == [["a", 1]]
    assert len(pipeline.all("asks for orders")) == 2, "the second thread asks again"
    assert {event["pack"] for event in pipeline.all("upload")} == {durable["pack"]}


def test_a_thread_that_dies_after_its_report_is_no_harm(pipeline: PipelineWorld) -> None:
    pipeline.harness.arm("acknowledge.after@1=die")
    pipeline.submit(0, "a").result()
    pipeline.order(0, ("a", 1))
    first, second = pipeline.wait_for("durable", 2)
    assert first == second
    assert pipeline.all("not written") == []


def test_too_many_deaths_are_reported(pipeline: PipelineWorld) -> None:
    pipeline.harness.arm(",".join(f"upload.before@{passage}=die" for passage in range(1, 5)))
    pipeline.submit(0, "a", size=900).result()
    pipeline.order(0, ("a", 1))
    (answer,) = pipeline.wait_for("not written")
    assert "batch 0 of /checkpoint has died 4 times" in answer["problem"]
    assert pipeline.all("durable") == []
    assert pipeline.do("is_idle", millis=20_000)
    assert pipeline.submit(1, "a", size=900).result() == 0, "its memory is free again"


def test_the_watchdog_survives_a_driver_that_does_not_answer(pipeline: PipelineWorld) -> None:
    """A session that ends while threads die must not take the watch from the next one."""
    pipeline.harness.arm(",".join(f"upload.before@{passage}=die" for passage in range(1, 6)))
    pipeline.do("driver_answers", answers=False)
    pipeline.submit(0, "a").result()
    pipeline.order(0, ("a", 1))
    pipeline.wait_for("not written")
    pipeline.do("driver_answers", answers=True)
    assert pipeline.do("is_idle", millis=5_000)
    pipeline.submit(1, "a").result()
    pipeline.order(1, ("a", 1))  # the fifth death
    (durable,) = pipeline.wait_for("durable")
    assert durable["batch"] == 1


# ---- how much is kept


def test_the_limit_makes_the_next_batch_wait_and_not_the_same(pipeline: PipelineWorld) -> None:
    pipeline.do("hold_uploads")
    for store in "abc":
        pipeline.submit(0, store, size=400).result()  # 1200 of 1000 bytes
    pipeline.order(0, ("a", 1), ("b", 1), ("c", 1))
    pipeline.wait_for("local copy")
    waiting = pipeline.submit(1, "a", size=400)
    assert waiting.waits
    pipeline.submit(0, "d", size=400).result()  # a late attempt of the same batch
    assert waiting.waits
    pipeline.do("release_uploads")
    waiting.result()
    assert len(pipeline.all("durable", batch=0)) == 1


def test_a_part_larger_than_the_limit_goes_through_alone(pipeline: PipelineWorld) -> None:
    pipeline.submit(0, "a", size=5000).result()
    pipeline.order(0, ("a", 1))
    pipeline.wait_for("durable")


def test_an_attempt_that_replaces_another_is_counted_once(pipeline: PipelineWorld) -> None:
    for _ in range(3):
        pipeline.submit(0, "a", 1, size=600).result()
    pipeline.order(0, ("a", 1))
    pipeline.wait_for("durable")
    assert pipeline.do("is_idle", millis=20_000)
    assert pipeline.submit(1, "a", size=900).result() == 0


def test_two_queries_do_not_wait_for_each_other(pipeline: PipelineWorld) -> None:
    """Both batches still run: neither can give memory back before its last task is done."""
    pipeline.submit(0, "a", query="p", size=600).result()
    pipeline.submit(0, "a", query="q", size=600).result()
    second = [pipeline.submit(0, "b", query=query, size=600) for query in ("p", "q")]
    assert not any(submission.waits for submission in second)
    for query in ("p", "q"):
        pipeline.order(0, ("a", 1), ("b", 1), query=query)
    pipeline.wait_for("durable", 2)


# ---- tasks


def test_a_task_that_may_proceed_has_left_its_part(pipeline: PipelineWorld) -> None:
    pipeline.commit(0, "a", answer="admitted").result()
    assert pipeline.all("written at once") == []
    pipeline.order(0, ("a", 1))
    pipeline.wait_for("durable")


def test_a_task_that_is_cancelled_at_the_gate_has_left_its_part(pipeline: PipelineWorld) -> None:
    """The ledger may count on this attempt: a speculative one that came last, and was killed."""
    with pytest.raises(StoreError, match="InterruptedException"):
        pipeline.commit(0, "a", answer="cancelled").result()
    pipeline.order(0, ("a", 1))
    (durable,) = pipeline.wait_for("durable")
    assert durable["stores"] == [["a", 1]]


def test_a_task_that_is_told_to_be_synchronous_writes_at_once(pipeline: PipelineWorld) -> None:
    pipeline.do("discard", batch=0)
    pipeline.commit(0, "a", answer="write now").result()
    assert [event["store"] for event in pipeline.all("written at once")] == ["a"]
    assert pipeline.do("is_idle", millis=20_000)
    assert pipeline.all("upload") == []


def test_a_task_that_is_refused_fails_with_the_reason(pipeline: PipelineWorld) -> None:
    pipeline.do("discard", batch=0)
    with pytest.raises(StoreError, match="It came too late") as caught:
        pipeline.commit(0, "a", answer="refused").result()
    assert caught.value.class_name == "tailrace.ledger.CommitFailed"
    assert pipeline.all("written at once") == []


# ---- failpoints


@pytest.mark.parametrize(
    "specification",
    [
        "upload.before",
        "upload.before@1",
        "upload.before=die",
        "upload.before@one=die",
        "upload.before@0=die",
        "upload.before@-1=die",
        "upload.before@99999999999=die",
        "upload.before@1=explode",
        "upload.before@1=delay",
        "upload.before@1=pause",
        "upload.before@1=die:3",
        "upload.before@1=fail:often",
        "upload.before@1=die;upload.after@1=die",
    ],
)
def test_a_failpoint_that_cannot_be_read_is_an_error(
    pipelines: PipelineHarness, specification: str
) -> None:
    """A test whose failpoint silently never fires would prove nothing."""
    with pytest.raises(StoreError) as caught:
        pipelines.arm("local.before@1=die," + specification)
    assert caught.value.class_name == "java.lang.IllegalArgumentException"
    assert f"'{specification}' is not a failpoint" in str(caught.value)
    assert "name@passage=kill|fail[:times]|delay:milliseconds|pause:milliseconds|die" in str(
        caught.value
    )
    pipelines.call("pass", point="local.before")  # nothing was armed


def test_failpoints_count_their_passages(pipelines: PipelineHarness) -> None:
    pipelines.arm(" a.before@2=fail:2 , a.after@1=delay:1 ")
    passes = [{"op": "pass", "point": "a.before"} for _ in range(5)]
    try:
        failed = [isinstance(result, StoreError) for result in pipelines.run(passes)]
        assert failed == [False, True, True, False, False]
        pipelines.arm("a.before@1=fail")
        with pytest.raises(StoreError, match=r"failpoint a\.before@1"):
            pipelines.call("pass", point="a.before")
    finally:
        pipelines.arm("")
    pipelines.call("pass", point="a.before")


@pytest.mark.parametrize(
    ("variable", "value", "said"),
    [
        ("TAILRACE_RULES_OFF", "2,", "rule 1 is on"),
        ("TAILRACE_RULES_OFF", " 7 ,1", "rule 1 is off"),
        ("TAILRACE_RULES_OFF", "1,one", "'one' is not a rule"),
        ("TAILRACE_RULES_OFF", "8", "'8' is not a rule"),
        ("TAILRACE_FAILPOINTS", "probe@1=fail", "failpoint probe@1"),
        ("TAILRACE_FAILPOINTS", "probe@1", "'probe@1' is not a failpoint"),
    ],
)
def test_what_the_environment_says_is_read_or_refused(variable: str, value: str, said: str) -> None:
    """A process with a specification that cannot be read does not run as if it had none."""
    classes = [_build.spark_jars() / "scala-library-*.jar", _build.jar(), harness_jar()]
    found = [str(next(path.parent.glob(path.name))) for path in classes]
    found.append(str(_build.spark_jars() / "*"))
    done = subprocess.run(
        [str(_build.java()), "-cp", os.pathsep.join(found), PROBE],
        env={**os.environ, variable: value},
        capture_output=True,
        text=True,
        check=False,
    )
    assert said in done.stdout + done.stderr
    assert (done.returncode == 0) == said.startswith("rule"), done.stderr
