"""configure and confs: everything is set, and nothing that the user had set is lost."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import tailrace
from tailrace import _build, _jvm
from tailrace.errors import OptionError, SessionError, SparkVersionError
from tailrace.options import CONF_PREFIX
from tailrace.session import JARS_CONF, PROVIDER_CLASS, PROVIDER_CONF


@pytest.fixture(autouse=True)
def plain_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a script that was started with nothing set; settings of configure are undone after."""
    for name in ("MASTER", "PYSPARK_GATEWAY_PORT", "PYSPARK_SUBMIT_ARGS", "SPARK_REMOTE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PYSPARK_PYTHON", "")
    monkeypatch.delenv("PYSPARK_PYTHON")


def configured(present: dict[str, str] | None = None, **options: Any) -> dict[str, Any]:
    builder = SparkSession.builder
    for key, value in (present or {}).items():
        builder.config(key, value)
    assert tailrace.configure(builder, **options) is builder
    return dict(builder._options)


def test_the_names_at_the_top_are_exactly_these() -> None:
    assert sorted(tailrace.__all__) == [
        "Options",
        "TailraceError",
        "__version__",
        "classify",
        "configure",
        "confs",
        "drain",
        "enrich",
        "explain",
        "hint",
        "jar",
        "supervise",
        "window_apply",
    ]


def test_confs_name_the_provider_the_options_and_the_jar() -> None:
    settings = tailrace.confs(max_deltas=7)
    assert settings[PROVIDER_CONF] == PROVIDER_CLASS
    assert settings[CONF_PREFIX + "maxDeltas"] == "7"
    assert Path(settings[JARS_CONF]) == tailrace.jar()
    assert tailrace.jar().is_file()
    assert all(isinstance(value, str) for value in settings.values())


def test_configure_sets_what_confs_says() -> None:
    assert configured(compression="zstd") == tailrace.confs(compression="zstd")


def test_jars_of_the_user_stay_and_ours_is_added_once() -> None:
    own = str(tailrace.jar())
    assert configured({JARS_CONF: "a.jar, b.jar"})[JARS_CONF] == f"a.jar,b.jar,{own}"
    assert configured({JARS_CONF: own})[JARS_CONF] == own


def test_an_option_goes_before_a_conf_and_a_conf_before_a_default() -> None:
    key = CONF_PREFIX + "maxDeltas"
    assert configured()[key] == "100"
    assert configured({key: "5"})[key] == "5"
    assert configured({key: "5"}, max_deltas=6)[key] == "6"


def test_a_wrong_option_changes_nothing_on_the_builder() -> None:
    builder = SparkSession.builder
    with pytest.raises(OptionError):
        tailrace.configure(builder, max_delta=3)
    assert builder._options == {}


def test_a_misspelt_conf_on_the_builder_is_refused() -> None:
    key = CONF_PREFIX + "memroyLimit"
    with pytest.raises(OptionError) as caught:
        configured({key: "8g"})
    assert key in caught.value.problem
    assert CONF_PREFIX + "memoryLimit" in caught.value.remedy


@pytest.mark.parametrize("present", [{}, {"spark.master": "local[2]"}])
def test_local_workers_use_this_python(present: dict[str, str]) -> None:
    configured(present)
    assert os.environ["PYSPARK_PYTHON"] == sys.executable


@pytest.mark.parametrize(
    ("present", "environment"),
    [
        ({"spark.master": "spark://host:7077"}, {}),
        ({"spark.pyspark.python": "python3.12"}, {}),
        ({}, {"MASTER": "yarn"}),
        ({}, {"PYSPARK_SUBMIT_ARGS": "--master yarn pyspark-shell"}),
    ],
)
def test_workers_elsewhere_are_left_alone(
    monkeypatch: pytest.MonkeyPatch, present: dict[str, str], environment: dict[str, str]
) -> None:
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    configured(present)
    assert "PYSPARK_PYTHON" not in os.environ


def test_a_master_in_the_defaults_file_is_respected(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "spark-defaults.conf").write_text("# ours\nspark.master yarn\n")
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))
    configured()
    assert "PYSPARK_PYTHON" not in os.environ


def test_a_python_that_the_user_chose_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYSPARK_PYTHON", "their-python")
    configured()
    assert os.environ["PYSPARK_PYTHON"] == "their-python"


def test_another_spark_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "jars").mkdir()
    (tmp_path / "jars" / "spark-core_2.13-4.2.1.jar").touch()
    monkeypatch.setenv("SPARK_HOME", str(tmp_path))
    for call in (tailrace.jar, tailrace.confs, lambda: tailrace.configure(SparkSession.builder)):
        with pytest.raises(SparkVersionError, match=r"4\.2\.1") as caught:
            call()
        assert "pyspark>=4.3.0,<4.4" in caught.value.remedy


def test_a_spark_home_without_spark_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SPARK_HOME", str(tmp_path))
    with pytest.raises(SparkVersionError, match="SPARK_HOME"):
        tailrace.jar()


def test_spark_connect_is_refused() -> None:
    with pytest.raises(SessionError, match="Spark Connect"):
        configured({"spark.remote": "sc://host"})


def test_the_session_has_the_engine_of_this_checkout(spark: SparkSession) -> None:
    engine = _jvm.engine(spark)
    assert engine.version == tailrace.__version__
    assert engine.fingerprint == _build.read_properties(tailrace.jar())["fingerprint"]
    assert spark.conf.get(PROVIDER_CONF) == PROVIDER_CLASS


def test_configuring_again_while_the_session_runs_is_fine(spark: SparkSession) -> None:
    assert configured()[PROVIDER_CONF] == PROVIDER_CLASS


LATE = """
import sys
from pyspark.sql import SparkSession
import tailrace
def builder():
    return (SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
            .config("spark.driver.bindAddress", "127.0.0.1")
            .config("spark.driver.host", "127.0.0.1").config("spark.log.level", "ERROR"))
spark = builder().getOrCreate()
try:
    tailrace.configure(builder())
except tailrace.TailraceError as error:
    print("REFUSED", type(error).__name__, "spark.stop()" in error.remedy)
spark.stop()
spark = tailrace.configure(builder()).getOrCreate()
from tailrace import _jvm
print("LOADED", _jvm.engine(spark).version)
name = "tailrace.spark.TailraceStateStoreProvider"
print("FOUND", spark._jvm.org.apache.spark.util.Utils.classForName(name, True, False).getName())
spark.stop()
"""


def test_a_session_that_runs_is_refused_and_one_that_stopped_is_not() -> None:
    done = subprocess.run(
        [sys.executable, "-c", LATE], capture_output=True, text=True, timeout=300, check=False
    )
    assert done.stdout.splitlines() == [
        "REFUSED SessionError True",
        f"LOADED {tailrace.__version__}",
        f"FOUND {PROVIDER_CLASS}",
    ], done.stderr
