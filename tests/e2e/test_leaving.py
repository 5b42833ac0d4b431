"""Ending a session while state is on its way: a program that ends properly loses nothing.

Problem: the last batch of a program is applied, not durable; no later batch waits for it.
Answer: programs of their own (support/leaving.py) that end in every way but by a crash, with an
upload that takes two seconds at that moment.
Invariant: an applied batch is published once the JVM has ended, or the restart runs it again; a
batch is never published that is not durable.
"""

from __future__ import annotations

from pathlib import Path

from support.counting import Counting
from support.processes import Program


def test_stop_and_the_end_of_the_program(tmp_path: Path) -> None:
    with Program("support.leaving", tmp_path, "properly") as program:
        assert program.expect("stopped")["published"] == [0, 1]
        message = program.expect("stopped in a batch")
        assert message["published"] == message["durable"], "published, but not durable"
        assert program.expect("restarted")["words"] == ["ash", "elm", "fir", "oak"]
        program.expect("ends")
        assert program.await_end() == 0
    ended = Counting(tmp_path / "ended")
    assert ended.published == [0, 1]
    assert len(ended.packs(2)) == 1


def test_interrupt(tmp_path: Path) -> None:
    with Program("support.leaving", tmp_path, "interrupted") as program:
        program.expect("waits")
        interrupted = Counting(tmp_path / "interrupted")
        assert interrupted.published == [0], "the upload was to be slow"
        program.interrupt()
        assert program.await_end() != 0
    assert interrupted.published == [0, 1]
    assert len(interrupted.packs(2)) == 1
