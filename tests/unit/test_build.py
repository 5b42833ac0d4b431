"""The engine is compiled when its sources changed, and only then; builders do not collide."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tailrace import __version__, _build
from tailrace.errors import EngineBuildError

SOURCE = "package tailrace.probe\nobject Probe { def answer: Int = 42 }\n"


def checkout_in(root: Path, source: str = SOURCE) -> _build.Checkout:
    directory = root / "engine" / "src" / "tailrace" / "probe"
    directory.mkdir(parents=True)
    (directory / "Probe.scala").write_text(source)
    return _build.Checkout(root)


def fake_java(directory: Path, script: str) -> Path:
    executable = directory / "bin" / "java"
    executable.parent.mkdir(parents=True)
    executable.write_text(f"#!/bin/sh\n{script}\n")
    executable.chmod(executable.stat().st_mode | stat.S_IXUSR)
    return executable


def test_two_processes_build_one_complete_jar_and_later_calls_keep_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    checkout = checkout_in(tmp_path)
    program = (
        "import sys, pathlib; from tailrace import _build; "
        "print(_build.Checkout(pathlib.Path(sys.argv[1])).jar().stat().st_ino)"
    )
    command = [sys.executable, "-c", program, str(tmp_path)]
    processes = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    inodes = [process.communicate(timeout=300)[0] for process in processes]
    assert [process.returncode for process in processes] == [0, 0]
    assert inodes[0] == inodes[1], "the second process compiled again"

    with zipfile.ZipFile(checkout.path) as archive:
        assert archive.testzip() is None
        assert "tailrace/probe/Probe.class" in archive.namelist()
    assert _build.read_properties(checkout.path) == {
        "version": __version__,
        "spark.version": _build.spark_version(),
        "fingerprint": checkout.fingerprint(),
    }
    leftovers = [path.name for path in checkout.path.parent.iterdir()]
    assert sorted(leftovers) == sorted([checkout.path.name, checkout.path.stem + ".lock"])

    # With a Java that cannot compile, only an unneeded compilation is harmless.
    fake_java(tmp_path / "jdk", "echo 'openjdk version \"17.0.1\"' >&2; test $1 = -version")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "jdk"))
    assert checkout.jar() == checkout.path
    os.utime(next(checkout.source_directory.rglob("*.scala")))
    assert checkout.jar() == checkout.path, "a touched file is not a changed file"
    (checkout.source_directory / "More.scala").write_text("package tailrace\nclass More\n")
    with pytest.raises(EngineBuildError):
        checkout.jar()


def test_the_fingerprint_depends_on_contents_paths_and_spark(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    checkout = checkout_in(tmp_path)
    source = next(checkout.source_directory.rglob("*.scala"))
    seen = [checkout.fingerprint()]
    assert checkout.fingerprint() == seen[0]
    source.write_text(SOURCE.replace("42", "43"))
    seen.append(checkout.fingerprint())
    source = source.rename(source.with_name("Renamed.scala"))
    seen.append(checkout.fingerprint())
    (source.parent / "Second.scala").write_text("")
    seen.append(checkout.fingerprint())
    jars = tmp_path / "spark" / "jars"
    jars.mkdir(parents=True)
    (jars / "spark-core_2.13-4.3.99.jar").touch()
    monkeypatch.setenv("SPARK_HOME", str(jars.parent))
    seen.append(checkout.fingerprint())
    assert len(set(seen)) == len(seen)


def test_a_rejected_source_shows_the_compilers_words_and_leaves_no_jar(tmp_path: Path) -> None:
    checkout = checkout_in(tmp_path, 'package tailrace.probe\nobject Probe { val x: Int = "a" }\n')
    with pytest.raises(EngineBuildError) as caught:
        checkout.jar()
    assert "type mismatch" in caught.value.cause
    assert "Probe.scala:2" in caught.value.cause
    assert not checkout.path.exists()


def test_java_sources_are_refused(tmp_path: Path) -> None:
    checkout = checkout_in(tmp_path)
    (checkout.source_directory / "Old.java").write_text("class Old {}")
    with pytest.raises(EngineBuildError, match=r"Old\.java"):
        checkout.jar()


def test_no_sources_are_refused(tmp_path: Path) -> None:
    with pytest.raises(EngineBuildError, match="nothing to compile"):
        _build.compile_scala([], [], tmp_path / "out.jar")


def test_a_java_home_without_java_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(EngineBuildError, match=str(tmp_path)) as caught:
        _build.java()
    assert "JAVA_HOME" in caught.value.remedy


def test_no_java_on_the_path_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    with pytest.raises(EngineBuildError, match="No Java"):
        _build.java()


@pytest.mark.parametrize(
    ("banner", "version"),
    [('java version "1.8.0_401"', 8), ('openjdk version "11.0.22"', 11)],
)
def test_an_old_java_is_refused_with_its_version(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, banner: str, version: int
) -> None:
    fake_java(tmp_path, f"echo '{banner}' >&2")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(EngineBuildError, match=f"Java {version} is too old"):
        _build.java()


def test_a_java_that_fails_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_java(tmp_path, "echo 'cannot open libjvm' >&2; exit 3")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(EngineBuildError, match="cannot open libjvm"):
        _build.java()


def test_a_damaged_jar_counts_as_no_jar(tmp_path: Path) -> None:
    damaged = tmp_path / "engine.jar"
    assert _build.read_properties(damaged) == {}
    damaged.write_bytes(b"PK\x03\x04 not a jar")
    assert _build.read_properties(damaged) == {}


def test_the_engine_of_this_checkout_says_what_it_is() -> None:
    properties = _build.read_properties(_build.jar())
    assert properties["version"] == __version__
    assert properties["spark.version"] == _build.spark_version()
