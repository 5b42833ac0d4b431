"""Deterministic input for streaming queries, one file per step.

Problem: two runs can be compared only if every batch sees the same rows in both of them.
Answer: rows come from a seed; each step of a stream is one JSON file, put in place by a rename and
with a modification time that grows with the step, so that Spark's file source (which orders by
that time and takes one file a batch) plans the same batches in every run.
Invariant: numbers are integers, decimals, or doubles that are multiples of a quarter: sums are
exact, so no result depends on the order in which rows arrive.
"""

from __future__ import annotations

import json
import os
import random
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any

SEED = int(os.environ.get("TAILRACE_E2E_SEED", "20240601"))

ORIGIN = datetime(2024, 1, 1, tzinfo=timezone.utc)
# Any fixed instant does; the file source compares modification times only with each other.
FIRST_MODIFICATION_SECONDS = 1_700_000_000
STEP_SECONDS = 60
WATERMARK = "30 seconds"
# Rows of an orderly stream are never further behind the stream's maximum than the watermark.
ORDERLY_SECONDS = 25
# An event so far ahead that its watermark closes every window and expires every row before it.
FLUSH_SECONDS = 1_000_000
FLUSH_KEY = "flush"

EVENT_SCHEMA = (
    "id BIGINT, key STRING, time TIMESTAMP, amount INT, price DECIMAL(12,2), ratio DOUBLE, "
    "flag BOOLEAN, tags ARRAY<STRING>, place STRUCT<city: STRING, zone: INT>"
)
SHOWN_SCHEMA = "shown_id BIGINT, ad STRING, shown_at TIMESTAMP, cost INT"
CLICK_SCHEMA = "click_id BIGINT, clicked_ad STRING, clicked_at TIMESTAMP, gain INT"

KEYS = ["alder", "birch", "cedar", "elm", "fir", "gorse", "hazel", "ivy", "", "ключ", "a" * 300]
TAGS = ["red", "green", "blue", "amber"]
CITIES = ["Oslo", "Lima", "Pune", None]

Rows = list[dict[str, Any]]


@dataclass(frozen=True)
class Stream:
    """A stream's rows step by step; `flush_rows` of its last step only push the watermark."""

    schema: str
    steps: list[Rows]
    seed: int
    flush_rows: int = 0

    def write_step(self, directory: Path, step: int) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        hidden = directory / f".step-{step:04d}"
        lines = [json.dumps(row, default=json_value) for row in self.steps[step]]
        hidden.write_text("\n".join(lines) + "\n", encoding="utf-8")
        moment = FIRST_MODIFICATION_SECONDS + step * 10
        os.utime(hidden, (moment, moment))
        hidden.replace(directory / f"step-{step:04d}.json")

    def table_rows(self) -> list[dict[str, Any]]:
        """All rows but the flush, for a batch computation over the same input."""
        rows = [row for step in self.steps for row in step]
        return rows[: len(rows) - self.flush_rows]


def json_value(value: Any) -> str:
    if isinstance(value, datetime):
        return value.isoformat()
    return str(value)


def moment(seconds: float) -> datetime:
    return ORIGIN + timedelta(milliseconds=round(seconds * 1000))


def event(generator: random.Random, identifier: int, seconds: float) -> dict[str, Any]:
    return {
        "id": identifier,
        "key": None if generator.random() < 0.06 else generator.choice(KEYS),
        "time": moment(seconds),
        "amount": None if generator.random() < 0.1 else generator.randrange(-50, 200),
        "price": Decimal(generator.randrange(-10_000, 1_000_000)) / 100,
        "ratio": generator.randrange(-400, 400) / 4,
        "flag": generator.random() < 0.5,
        "tags": generator.sample(TAGS, generator.randrange(len(TAGS))),
        "place": {"city": generator.choice(CITIES), "zone": generator.randrange(3)},
    }


def flush_event(identifier: int) -> dict[str, Any]:
    return {"id": identifier, "key": FLUSH_KEY, "time": moment(FLUSH_SECONDS), "amount": 1}


def events(
    offset: int = 0,
    steps: int = 4,
    rows: int = 40,
    late: float = 0.0,
    resent: float = 0.0,
    jumps: dict[int, int] | None = None,
    empty_steps: tuple[int, ...] = (),
    flush: bool = False,
) -> Stream:
    """Events that move on by a minute a step. `late` and `resent` are the shares of rows far behind
    the watermark and of exact copies of rows of earlier steps; `jumps` adds seconds from a step on;
    `flush` adds a last step that expires everything."""
    seed = SEED + offset
    generator = random.Random(seed)
    result: list[Rows] = []
    sent: Rows = []
    shift = 0
    for step in range(steps):
        shift += (jumps or {}).get(step, 0)
        batch: Rows = []
        for _ in range(0 if step in empty_steps else rows):
            if sent and generator.random() < resent:
                batch.append(generator.choice(sent))
                continue
            seconds = step * STEP_SECONDS + shift
            seconds += generator.uniform(0, STEP_SECONDS) - generator.uniform(0, ORDERLY_SECONDS)
            if generator.random() < late:
                seconds -= generator.uniform(60, 400)
            batch.append(event(generator, len(sent) + len(batch), max(seconds, 0)))
        result.append(batch)
        sent = sent + batch
    if flush:
        result.append([flush_event(-1)])
    return Stream(EVENT_SCHEMA, result, seed, flush_rows=int(flush))


def advertisements(
    offset: int = 0,
    steps: int = 4,
    rows: int = 24,
    late: float = 0.0,
    nulls: float = 0.05,
    flush: bool = True,
) -> dict[str, Stream]:
    """Two streams to join on the ad: those shown, and those clicked. Part of either side
    finds partners within some seconds; `late` and `nulls` are the shares of rows far behind the
    watermark and of rows without an ad; `flush` adds a last step that expires everything."""
    seed = SEED + 1000 + offset
    generator = random.Random(seed)
    shown: list[Rows] = []
    clicks: list[Rows] = []
    for step in range(steps):
        shown_batch, click_batch = [], []
        for index in range(rows):
            identifier = step * rows + index
            for kind in ("shown", "click"):
                seconds = step * STEP_SECONDS + generator.uniform(ORDERLY_SECONDS, STEP_SECONDS)
                seconds -= generator.uniform(0, ORDERLY_SECONDS)
                if generator.random() < late:
                    seconds = max(seconds - generator.uniform(100, 300), 0)
                ad = None if generator.random() < nulls else f"ad-{generator.randrange(30)}"
                number = generator.randrange(100)
                if kind == "shown":
                    shown_batch.append(
                        {
                            "shown_id": identifier,
                            "ad": ad,
                            "shown_at": moment(seconds),
                            "cost": number,
                        }
                    )
                else:
                    click_batch.append(
                        {
                            "click_id": identifier,
                            "clicked_ad": ad,
                            "clicked_at": moment(seconds),
                            "gain": number,
                        }
                    )
        shown.append(shown_batch)
        clicks.append(click_batch)
    if flush:
        shown.append(
            [{"shown_id": -1, "ad": "flush-shown", "shown_at": moment(FLUSH_SECONDS), "cost": 0}]
        )
        clicks.append(
            [
                {
                    "click_id": -1,
                    "clicked_ad": "flush-click",
                    "clicked_at": moment(FLUSH_SECONDS),
                    "gain": 0,
                }
            ]
        )
    return {
        "shown": Stream(SHOWN_SCHEMA, shown, seed, flush_rows=int(flush)),
        "clicks": Stream(CLICK_SCHEMA, clicks, seed, flush_rows=int(flush)),
    }
