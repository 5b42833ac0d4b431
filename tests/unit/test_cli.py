"""The command line: wrong usage ends with code 2 and a message; listed commands work."""

from __future__ import annotations

import pytest

import tailrace
from tailrace.cli import demo, main
from tailrace.cli._local import readable
from tailrace.options import describe


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "COMMAND"),
        (["fly"], "fly"),
        (["demo", "--keys", "many"], "'many'"),
        (["demo", "--batches", "3", "--seconds", "4"], "not allowed with"),
        (["demo", "--against", "paper"], "paper"),
        (["doctor", "--now"], "--now"),
        (["rollback", "a"], "--to"),
        (["rollback", "a", "--to", "-1"], "--to"),
        (["rollback", "a", "--to", "last"], "'last' is not the number of a batch"),
        (["rollback", "a", "--to", "1", "--quiet-seconds", "nan"], "'nan' is not a number of"),
        (
            ["rollback", "a", "--to", "1", "--file-sink", "b", "--sink-replaces-batches"],
            "not allowed with",
        ),
    ],
)
def test_wrong_usage_is_told(
    capsys: pytest.CaptureFixture[str], arguments: list[str], message: str
) -> None:
    with pytest.raises(SystemExit) as caught:
        main(arguments)
    assert caught.value.code == 2
    assert message in capsys.readouterr().err


def test_the_version_is_the_packages(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["--version"])
    assert caught.value.code == 0
    assert capsys.readouterr().out == f"tailrace {tailrace.__version__}\n"


def test_options_shows_every_option(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["options"]) == 0
    shown = capsys.readouterr().out
    for option in describe():
        assert f"{option.name} = {option.default!r}" in shown
        assert option.conf in shown
        assert option.rule.allowed in shown


def test_a_foreseen_error_ends_with_code_1_and_its_text(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SPARK_REMOTE", "sc://host")
    assert main(["demo"]) == 1
    assert "remedy:" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["seconds", "batches", "rows", "keys"])
@pytest.mark.parametrize("value", ["0", "-3", "3000000000"])
def test_numbers_that_make_no_sense_are_refused(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, name: str, value: str
) -> None:
    monkeypatch.setattr(demo, "jar", lambda: pytest.fail("the demo would have started"))
    assert main(["demo", f"--{name}", value]) == 1
    told = capsys.readouterr().err
    assert f"--{name} cannot be {value}." in told
    assert "cause:" in told
    assert "remedy:" in told


def test_doctor_names_the_failed_check_and_stops_there(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: object
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    assert main(["doctor"]) == 1
    out = capsys.readouterr().out
    assert "No Java was found." in out
    assert "remedy:" in out
    assert "PySpark" not in out


def test_the_percentile_is_a_time_that_occurred() -> None:
    assert demo.summarize([3.0, 1.0, 2.0]) == (2.0, 3.0)
    assert demo.summarize([float(n) for n in range(1, 101)]) == (50.5, 99.0)
    assert demo.summarize([1.0]) == (1.0, 1.0)


def test_the_verdict_names_the_faster_one_whichever_it_is() -> None:
    assert demo.compare(("a", 1.0), ("b", 2.5)) == "a is 2.5 times as fast as b."
    assert demo.compare(("a", 2.5), ("b", 1.0)) == "b is 2.5 times as fast as a."
    assert "within 5 %" in demo.compare(("a", 1.0), ("b", 1.04))


def test_an_error_of_the_jvm_is_shortened_to_its_messages() -> None:
    message = "Boom\n\tat a.B.c(B.scala:1)\nCaused by: Bang\nBoom\n=== Streaming Query ===\nplan"
    assert readable(message) == "Boom\nCaused by: Bang"
