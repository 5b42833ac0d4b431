"""Options: defaults, rules, and errors that name the wrong value and a right one."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tailrace import Options
from tailrace.errors import OptionError
from tailrace.options import CONF_PREFIX, describe, refuse_unknown


def test_the_defaults_are_valid_and_what_is_promised() -> None:
    assert dataclasses.asdict(Options()) == {
        "compression": "lz4",
        "snapshot_ratio": 1.0,
        "max_deltas": 100,
        "memory_limit": None,
        "spill": "on",
        "io_threads": None,
        "io_bandwidth": None,
        "read_batch_ratio": 0.02,
        "cache": "timestamp",
        "prefetch": "auto",
        "hints": "auto",
        "hint_threshold": 24,
        "cold_io": "buffered",
        "cold_dir": None,
        "max_space_amplification": 1.5,
        "restart": "eager",
        "lock_timeout": "60s",
        "commit": "async",
        "gate": "commit",
        "pending_limit": "256m",
        "retry_timeout": "60s",
        "local_dir": None,
        "holistic": "rows",
    }


def test_every_option_is_documented_under_its_own_key() -> None:
    options = describe()
    assert len({option.conf for option in options}) == len(options)
    for option in options:
        assert option.conf.startswith(CONF_PREFIX)
        assert len(option.doc) > 40
        assert option.rule.allowed


def test_confs_hold_every_option_that_has_a_value() -> None:
    assert Options().confs() == {
        CONF_PREFIX + "compression": "lz4",
        CONF_PREFIX + "snapshotRatio": "1.0",
        CONF_PREFIX + "maxDeltas": "100",
        CONF_PREFIX + "spill": "on",
        CONF_PREFIX + "readBatchRatio": "0.02",
        CONF_PREFIX + "cache": "timestamp",
        CONF_PREFIX + "prefetch": "auto",
        CONF_PREFIX + "hints": "auto",
        CONF_PREFIX + "hintThreshold": "24",
        CONF_PREFIX + "coldIo": "buffered",
        CONF_PREFIX + "maxSpaceAmplification": "1.5",
        CONF_PREFIX + "restart": "eager",
        CONF_PREFIX + "lockTimeout": "60s",
        CONF_PREFIX + "commit": "async",
        CONF_PREFIX + "gate": "commit",
        CONF_PREFIX + "pendingLimit": "256m",
        CONF_PREFIX + "retryTimeout": "60s",
        CONF_PREFIX + "holistic": "rows",
    }
    assert Options.of(memory_limit="8g").confs()[CONF_PREFIX + "memoryLimit"] == "8g"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("compression", "zstd"),
        ("compression", "none"),
        ("snapshot_ratio", 0.001),
        ("snapshot_ratio", 3),
        ("max_deltas", 1),
        ("memory_limit", "512m"),
        ("memory_limit", "2tb"),
        ("spill", "off"),
        ("read_batch_ratio", 0),
        ("read_batch_ratio", 1),
        ("max_space_amplification", 2),
        ("lock_timeout", "500ms"),
        ("lock_timeout", "5min"),
        ("commit", "sync"),
        ("gate", "read"),
        ("pending_limit", "1g"),
        ("retry_timeout", "5min"),
        ("local_dir", "copies"),
        ("cold_dir", "hdfs://host:8020/spilled"),
        ("cold_dir", "s3a://bucket/spilled/state"),
        ("cold_dir", "file:/mnt/spilled"),
        ("cold_dir", "file:///mnt/spilled"),
        ("cold_dir", None),
        ("holistic", "buffers"),
    ],
)
def test_allowed_values_are_kept_as_they_are(name: str, value: Any) -> None:
    assert getattr(Options.of(**{name: value}), name) == value


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("compression", "gzip"),
        ("compression", None),
        ("compression", "LZ4"),
        ("compression", ["lz4"]),
        ("snapshot_ratio", 0),
        ("snapshot_ratio", -1.0),
        ("snapshot_ratio", float("nan")),
        ("snapshot_ratio", float("inf")),
        ("snapshot_ratio", "1.0"),
        ("snapshot_ratio", True),
        ("max_deltas", 0),
        ("max_deltas", True),
        ("max_deltas", 1.0),
        ("max_deltas", 2**31),
        ("spill", True),
        ("read_batch_ratio", -0.1),
        ("read_batch_ratio", 1.1),
        ("max_space_amplification", 1),
        ("memory_limit", "8"),
        ("memory_limit", 8),
        ("memory_limit", "0g"),
        ("memory_limit", "8 g"),
        ("memory_limit", "eight g"),
        ("memory_limit", "٨g"),
        ("lock_timeout", None),
        ("lock_timeout", "60"),
        ("lock_timeout", "-1s"),
        ("lock_timeout", "0s"),
        ("lock_timeout", "60 s\n"),
        ("lock_timeout", "8g"),
        ("commit", "later"),
        ("commit", None),
        ("gate", "write"),
        ("pending_limit", None),
        ("pending_limit", "256"),
        ("retry_timeout", "60"),
        ("local_dir", " "),
        ("local_dir", 7),
        ("cold_dir", "/mnt/spilled"),
        ("cold_dir", "spilled"),
        ("cold_dir", "hdfs:spilled"),
        ("cold_dir", "s3a://bucket"),
        ("cold_dir", "s3a://bucket/two words"),
        ("cold_dir", ""),
        ("cold_dir", 7),
        ("holistic", "columns"),
    ],
)
def test_other_values_are_refused_with_name_value_and_rule(name: str, value: Any) -> None:
    with pytest.raises(OptionError) as caught:
        Options.of(**{name: value})
    rule = next(option.rule for option in describe() if option.name == name)
    assert name in caught.value.problem
    assert repr(value) in caught.value.problem
    assert rule.allowed in caught.value.cause


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"cold_io": "direct"}, {"cold_dir": "hdfs://host/spilled"}),
        ({"hints": "on"}, {"prefetch": "off"}),
    ],
)
def test_options_that_contradict_each_other_are_named(
    one: dict[str, Any], other: dict[str, Any]
) -> None:
    names = [*one, *other]
    with pytest.raises(OptionError) as caught:
        Options.of(**one, **other)
    assert f"options {names[0]} and {names[1]} contradict" in caught.value.problem
    assert str(other[names[1]]) in caught.value.cause
    assert caught.value.remedy == f"Leave {names[0]} out, or {names[1]}."
    for alone in (one, other):
        assert Options.of(**alone)


@pytest.mark.parametrize(
    ("slip", "meant"),
    [
        ("max_delta", "max_deltas"),
        ("maxDeltas", "max_deltas"),
        ("memorylimit", "memory_limit"),
        ("compresion", "compression"),
    ],
)
def test_a_slip_in_a_name_is_answered_with_the_closest_name(slip: str, meant: str) -> None:
    with pytest.raises(OptionError) as caught:
        Options.of(**{slip: 1})
    assert slip in caught.value.problem
    assert meant in caught.value.remedy
    for option in describe():
        assert option.name in caught.value.cause


def test_a_name_like_no_other_gets_no_guess() -> None:
    with pytest.raises(OptionError) as caught:
        Options.of(zzz=1)
    assert "Did you mean" not in caught.value.remedy


@pytest.mark.parametrize(
    ("slip", "meant"),
    [("memroyLimit", "memoryLimit"), ("max_deltas", "maxDeltas"), ("Spill", "spill")],
)
def test_a_slip_in_a_conf_is_answered_with_the_closest_key(slip: str, meant: str) -> None:
    with pytest.raises(OptionError) as caught:
        refuse_unknown(["spark.master", CONF_PREFIX + slip])
    assert CONF_PREFIX + slip in caught.value.problem
    assert f"{CONF_PREFIX}{meant}?" in caught.value.remedy


def test_confs_of_every_option_and_of_others_are_accepted() -> None:
    options = Options.of(memory_limit="8g", local_dir="a", cold_dir="file:/b")
    refuse_unknown([*options.confs(), "spark.sql.other"])


def test_options_cannot_be_changed() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        Options().max_deltas = 5  # type: ignore[misc]


@given(st.integers(1, 10**12 - 1), st.sampled_from(["k", "m", "g", "t", "kb", "mb", "gb", "tb"]))
def test_every_positive_size_with_a_unit_is_allowed(number: int, unit: str) -> None:
    assert Options.of(memory_limit=f"{number}{unit}").memory_limit == f"{number}{unit}"
