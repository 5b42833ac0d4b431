"""Errors state problem, cause and remedy, and can be told apart by class."""

import pickle

from tailrace import TailraceError, errors


def test_the_text_has_problem_cause_and_remedy_in_this_order() -> None:
    text = str(TailraceError("It broke.", "The wire was loose.", "Fix the wire."))
    assert text.splitlines() == [
        "It broke.",
        "  cause:  The wire was loose.",
        "  remedy: Fix the wire.",
    ]


def test_a_cause_of_several_lines_stays_under_its_heading() -> None:
    lines = str(TailraceError("It broke.", "one\ntwo", "Fix it.")).splitlines()
    assert lines[1:3] == ["  cause:  one", "          two"]


def test_every_error_is_a_tailrace_error_and_survives_pickling() -> None:
    kinds = [kind for kind in vars(errors).values() if isinstance(kind, type)]
    assert len(kinds) >= 5
    for kind in kinds:
        assert issubclass(kind, TailraceError)
        copy = pickle.loads(pickle.dumps(kind("p", "c", "r")))
        assert (type(copy), copy.problem, copy.cause, copy.remedy) == (kind, "p", "c", "r")
