"""Hints that are empty, or name an unknown pattern, are refused before Spark sees them."""

from __future__ import annotations

from typing import Any

import pytest

from tailrace import hint
from tailrace.errors import OptionError


@pytest.mark.parametrize(
    ("said", "problem"),
    [
        ({}, "says nothing"),
        ({"pattern": "appending"}, "no pattern 'appending'"),
        ({"trigger_time": " "}, "trigger_time"),
        ({"trigger_time": 5}, "trigger_time"),
    ],
)
def test_bad_hints(said: dict[str, Any], problem: str) -> None:
    with pytest.raises(OptionError, match=problem):
        hint(None, **said)  # type: ignore[arg-type]
