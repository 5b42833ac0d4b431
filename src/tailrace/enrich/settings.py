"""The settings of an enrichment, checked.

Problem: a time without a unit or a budget of no bytes would show in the middle of a batch.
Answer: one frozen class. A value that is not allowed is refused where `enrich` is called.
Invariant: a `Settings` object that exists is valid.
"""

from __future__ import annotations

import dataclasses
import re
from typing import Any

from tailrace.enrich.cache import CACHES
from tailrace.errors import OptionError
from tailrace.options import Rule, byte_size, duration, integer_from, one_of

_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, "d": 86400.0}
_BYTES = {"k": 2**10, "m": 2**20, "g": 2**30, "t": 2**40}

ATTEMPTS = 3
"""One attempt takes at most this part of the timeout: a connection that was cut without a word
never answers, and there must be time for another one."""


def _time_or_none() -> Rule:
    times = duration()
    return Rule(
        f"{times.allowed}, or None for ever",
        lambda value: value is None or value == "0s" or times.accepts(value),
    )


def _setting(default: Any, rule: Rule) -> Any:
    return dataclasses.field(default=default, metadata={"rule": rule})


@dataclasses.dataclass(frozen=True, kw_only=True)
class Settings:
    """How values are read and for how long they are kept. `tailrace.enrich` explains them."""

    ttl: str | None = _setting("1min", _time_or_none())
    missing_ttl: str | None = _setting("10s", _time_or_none())
    timeout: str = _setting("30s", duration())
    cache_memory: str = _setting("64m", byte_size())
    cache: str = _setting("timestamp", one_of(*CACHES))
    look_ahead: int = _setting(4, integer_from(0, 1000))
    connections: int = _setting(4, integer_from(1, 256))
    keys_per_request: int = _setting(1000, integer_from(1, 1_000_000))

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):
            rule: Rule = field.metadata["rule"]
            value = getattr(self, field.name)
            if not rule.accepts(value):
                raise OptionError(
                    f"{field.name} does not take the value {value!r}.",
                    f"It is {rule.allowed}.",
                    f"Choose such a value, or leave it out for {field.default!r}.",
                )

    @property
    def ttl_seconds(self) -> float:
        return _seconds(self.ttl)

    @property
    def missing_ttl_seconds(self) -> float:
        return _seconds(self.missing_ttl)

    @property
    def timeout_seconds(self) -> float:
        return _seconds(self.timeout)

    @property
    def attempt_seconds(self) -> float:
        return self.timeout_seconds / ATTEMPTS

    @property
    def cache_bytes(self) -> int:
        number, unit = _split(self.cache_memory)
        return number * _BYTES[unit[0]]


def _seconds(text: str | None) -> float:
    if text is None:
        return float("inf")
    number, unit = _split(text)
    return number * _SECONDS[unit]


def _split(text: str) -> tuple[int, str]:
    match = re.fullmatch(r"([0-9]+)([a-z]+)", text, re.ASCII)
    assert match, f"{text!r} was accepted"
    return int(match[1]), match[2]
