"""`tailrace.enrich` on real queries, with a real Redis server.

Problem: keys travel to Python workers and records come back, while the rest of a row waits in the
JVM. A record could meet the wrong row, and a server that is lost could take rows with it.
Answer: queries over files, one per batch, whose results are compared with a dict.
Invariant: every row is shown once, with the record of its key.
"""

from __future__ import annotations

import json
import os
import sqlite3
import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PythonException, StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from support.slow_line import SlowLine

import tailrace
from tailrace import _diagnosis
from tailrace.bench.redis_server import RedisServer
from tailrace.enrich import Metrics, RedisSource, Source, Table
from tailrace.errors import TailraceError
from tailrace.supervise import Backoff

from .harness import TAILRACE, await_end, new_session

PATIENCE_SECONDS = 300
COLUMNS = "campaign string, price double"
ADS = {f"ad{number}": (f"campaign{number % 3}", number / 4) for number in range(10)}

Record = tuple[str | None, float | None]


def fill(server: RedisServer, ads: dict[str, Record] = ADS) -> None:
    for ad, (campaign, price) in ads.items():
        server.client.hset(f"ad:{ad}", mapping={"campaign": campaign, "price": price})


def source(server: RedisServer | SlowLine) -> RedisSource:
    return RedisSource(server.url, key="ad:{ad}")


class Views:
    """A stream of files with rows (id, ad), and the rows that its query has shown, by id."""

    def __init__(self, spark: SparkSession, directory: Path) -> None:
        self.session = new_session(spark, TAILRACE, {})
        # A few rows per Arrow batch, so that a task has several.
        self.session.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", "4")
        self.directory = directory
        self.folder = directory / "views"
        self.folder.mkdir()
        self.rows: dict[int, str | None] = {}
        self.shown: dict[int, Any] = {}
        self.files = 0

    def add(self, *ads: str | None) -> None:
        lines = []
        for ad in ads:
            number = len(self.rows)
            self.rows[number] = ad
            lines.append(
                json.dumps({"id": number, "ad": ad, "time": f"2026-01-01T00:00:{number % 60:02}Z"})
            )
        hidden = self.folder / f".{self.files}.json"
        hidden.write_text("\n".join(lines))
        os.utime(hidden, (self.files, self.files))  # Spark reads the oldest first
        hidden.rename(self.folder / f"{self.files}.json")
        self.files += 1

    def stream(self) -> DataFrame:
        return (
            self.session.readStream.schema("id long, ad string, time timestamp")
            .option("maxFilesPerTrigger", 1)
            .json(self.folder.as_uri())
        )

    def table(self) -> DataFrame:
        return self.session.read.schema("id long, ad string, time timestamp").json(
            self.folder.as_uri()
        )

    def start(self, frame: DataFrame) -> Any:
        def keep(batch: DataFrame, _: int) -> None:
            for row in batch.collect():
                assert row["id"] not in self.shown, "a row was shown twice"
                self.shown[row["id"]] = tuple(row)[1:]

        return (
            frame.writeStream.foreachBatch(keep)
            .option("checkpointLocation", (self.directory / "checkpoint").as_uri())
            .trigger(availableNow=True)
            .start()
        )

    def run(self, frame: DataFrame) -> None:
        await_end(self.start(frame))


@pytest.fixture
def views(spark: SparkSession, tmp_path: Path) -> Iterator[Views]:
    it = Views(spark, tmp_path)
    it.add("ad1", "ad2", None, "ad1", "nothing", "ad9", "ad0", "ad1", "ad5")
    it.add("ad2", "nothing", "ad7", None)
    yield it


def expected(views: Views, how: str, ads: dict[str, Record] = ADS) -> dict[int, Any]:
    found = {number: (ad, *ads.get(ad or "", (None, None))) for number, ad in views.rows.items()}
    return {number: row for number, row in found.items() if how == "left" or row[0] in ads}


@pytest.mark.parametrize("how", ["left", "inner"])
def test_every_row_gets_the_record_of_its_key(
    views: Views, redis_server: RedisServer, how: str
) -> None:
    fill(redis_server)
    metrics = Metrics(views.session)
    rows = views.stream().select("id", "ad")
    views.run(tailrace.enrich(rows, "ad", source(redis_server), COLUMNS, how=how, metrics=metrics))
    assert views.shown == expected(views, how)
    counts = metrics.counts()
    assert counts.rows == sum(ad is not None for ad in views.rows.values())
    # The files have 9 and 4 rows, and an Arrow batch 4: by distinct keys 2, 4, 1 and 3 look-ups.
    assert (counts.lookups, counts.misses, counts.missing) == (10, 0, 2)
    assert 1 <= counts.requests <= counts.keys_read <= counts.lookups


def test_a_table_that_is_no_stream(views: Views, redis_server: RedisServer) -> None:
    fill(redis_server)
    rows = views.table().select("id", "ad")
    found = tailrace.enrich(rows, "ad", source(redis_server), COLUMNS, look_ahead=0).collect()
    assert {row["id"]: tuple(row)[1:] for row in found} == expected(views, "left")


def test_other_columns_and_their_types_do_not_matter(
    spark: SparkSession, redis_server: RedisServer
) -> None:
    redis_server.client.set("de/1", '{"tags": ["a", "b"], "since": "2026-01-02", "Odd name": 7}')
    rows = spark.range(2).select(
        F.lit("de").alias("country"),
        F.col("id").cast("int").alias("strange `name`"),
        F.expr("make_interval(1, 2, 3)").alias("interval"),  # Arrow does not take it
        F.expr("named_struct('x', id)").alias("nested"),
    )
    enriched = tailrace.enrich(
        rows.withColumnRenamed("strange `name`", "number"),
        ["number", "country"],
        RedisSource(redis_server.url, key="{country}/{number}", value="json"),
        "tags array<string>, since date, `Odd name` int",
    )
    assert enriched.columns[2:] == ["interval", "nested", "tags", "since", "Odd name"]
    none, one = (
        enriched.select("nested.x", "tags", F.col("since").cast("string"), "Odd name")
        .orderBy("x")
        .collect()
    )
    assert tuple(none) == (0, None, None, None)
    assert tuple(one) == (1, ["a", "b"], "2026-01-02", 7)


def test_the_watermark_goes_through(views: Views, redis_server: RedisServer) -> None:
    fill(redis_server)
    marked = views.stream().withWatermark("time", "0 seconds")
    enriched = tailrace.enrich(marked, "ad", source(redis_server), COLUMNS, how="inner")
    per_window = enriched.groupBy(F.window("time", "5 seconds"), "campaign").count()
    closed: list[tuple[str, int]] = []
    query = (
        per_window.writeStream.outputMode("append")
        .foreachBatch(
            lambda batch, _: closed.extend((r["campaign"], r["count"]) for r in batch.collect())
        )
        .option("checkpointLocation", (views.directory / "checkpoint").as_uri())
        .trigger(availableNow=True)
        .start()
    )
    await_end(query)
    # Row n is of second n. The last of them, 12, has closed the windows before 10.
    campaigns = [(second // 5, ADS[ad][0]) for second, ad in views.rows.items() if ad in ADS]
    counted = Counter(place for place in campaigns if place[0] < 2)
    assert sorted(closed) == sorted((campaign, n) for (_, campaign), n in counted.items())


def test_a_changed_value_is_seen_when_its_time_is_over(
    views: Views, redis_server: RedisServer
) -> None:
    fill(redis_server)
    rows = views.stream().select("id", "ad")
    enriched = tailrace.enrich(
        rows, "ad", source(redis_server), COLUMNS, ttl="0s", missing_ttl="0s"
    )
    views.run(enriched)
    before = expected(views, "left")
    changed: dict[str, Record] = {"ad1": ("other", 99.5), "nothing": ("something", 1.0)}
    fill(redis_server, changed)
    views.add("ad1", "nothing", "ad2")
    views.run(enriched)
    after = expected(views, "left", ADS | changed)
    assert views.shown == {**after, **before}


def test_a_lost_server_ends_the_query_and_it_goes_on_when_the_server_is_back(
    views: Views, redis_server: RedisServer
) -> None:
    def enriched(timeout: str) -> DataFrame:
        rows = views.stream().select("id", "ad")
        return tailrace.enrich(rows, "ad", source(redis_server), COLUMNS, ttl="0s", timeout=timeout)

    fill(redis_server)
    views.run(enriched("60s"))
    redis_server.kill()
    views.add("ad3", "ad4")
    with pytest.raises(StreamingQueryException) as raised:
        views.start(enriched("500ms")).awaitTermination(PATIENCE_SECONDS)
    message = str(raised.value)
    assert f"{redis_server.url} gave no answer within 500ms." in message
    assert "See whether the server is up" in message
    assert _diagnosis.diagnose(raised.value).outlook is _diagnosis.Outlook.MAY_PASS

    redis_server.start()
    fill(redis_server)
    views.run(enriched("60s"))
    assert views.shown == expected(views, "left")


def test_a_supervised_query_comes_back_by_itself(views: Views, redis_server: RedisServer) -> None:
    redis_server.kill()

    def start() -> Any:
        rows = views.stream().select("id", "ad")
        timeout = "60s" if redis_server.running else "200ms"
        return views.start(
            tailrace.enrich(rows, "ad", source(redis_server), COLUMNS, timeout=timeout)
        )

    def bring_back(_: object) -> None:
        redis_server.start()
        fill(redis_server)

    soon = Backoff(first=0.01, cap=0.01)
    outcome = tailrace.supervise(start, backoff=soon, on_failure=bring_back)
    assert outcome.restarts == 1
    assert views.shown == expected(views, "left")


def test_values_are_used_again_in_later_batches(views: Views, redis_server: RedisServer) -> None:
    fill(redis_server)
    for _ in range(10):  # Spark takes its idle workers in turn, and has fewer
        views.add("ad1", "ad2")
    metrics = Metrics(views.session)
    rows = views.stream().select("id", "ad")
    enriched = tailrace.enrich(
        rows, "ad", source(redis_server), COLUMNS, ttl=None, missing_ttl=None, metrics=metrics
    )
    views.run(enriched)
    assert views.shown == expected(views, "left")
    assert metrics.counts().used_before > 0
    assert metrics.counts().keys_read < metrics.counts().lookups


def test_a_slow_server_costs_time_only(views: Views, redis_server: RedisServer) -> None:
    fill(redis_server)
    rows = views.stream().select("id", "ad")
    with SlowLine(redis_server.port) as line:
        query = views.start(tailrace.enrich(rows, "ad", source(line), COLUMNS))
        assert line.asked.wait(PATIENCE_SECONDS)
        assert views.shown == {}
        line.open.set()
        await_end(query)
    assert views.shown == expected(views, "left")


def test_a_value_of_another_type_names_the_key(views: Views, redis_server: RedisServer) -> None:
    fill(redis_server)
    redis_server.client.hset("ad:ad1", "price", "cheap")
    enriched = tailrace.enrich(views.table(), "ad", source(redis_server), COLUMNS)
    with pytest.raises(
        PythonException, match=r"Column price of key 'ad1' .* has the value b'cheap'"
    ):
        enriched.collect()


def sqlite_source(path: str) -> Source:
    """A table of one's own, as docs/enrich.md has it. It travels by itself: the workers do not
    know this module."""

    class Connection(Table):
        def __init__(self, columns):
            self.database = sqlite3.connect(path)
            self.columns = columns

        def get_many(self, keys):
            marks = ", ".join("?" * len(keys))
            rows = self.database.execute(
                f"SELECT ad, {', '.join(self.columns)} FROM ads WHERE ad IN ({marks})", keys
            )
            return {ad: dict(zip(self.columns, values, strict=True)) for ad, *values in rows}

        def close(self):
            self.database.close()

    class SqliteSource(Source):
        def connect(self, wanted):
            return Connection(wanted.columns)

    return SqliteSource()


def test_a_table_of_ones_own(views: Views, tmp_path: Path) -> None:
    path = str(tmp_path / "ads.db")
    with sqlite3.connect(path) as database:
        database.execute("CREATE TABLE ads (ad TEXT PRIMARY KEY, campaign TEXT, price REAL)")
        database.executemany("INSERT INTO ads VALUES (?, ?, ?)", [(k, *v) for k, v in ADS.items()])
    rows = views.stream().select("id", "ad")
    views.run(tailrace.enrich(rows, "ad", sqlite_source(path), COLUMNS))
    assert views.shown == expected(views, "left")


class Unpicklable(Source):
    def __init__(self) -> None:
        self.lock = threading.Lock()

    def connect(self, wanted: Any) -> Table:
        raise AssertionError(wanted)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"on": "missing"}, "There is no column missing"),
        ({"on": []}, "There is no key"),
        ({"on": "weight"}, "Column weight cannot be a key"),
        ({"columns": "ID long"}, "There would be two columns ID"),
        ({"columns": "a int, A int"}, "There would be two columns A"),
        ({"columns": "a nothing"}, "columns does not take 'a nothing'"),
        ({"columns": ""}, "columns does not take ''"),
        ({"columns": "a variant"}, "cannot be of type variant"),
        ({"how": "outer"}, "how does not take 'outer'"),
        ({"source": {"a": 1}}, "source does not take"),
        ({"source": Unpicklable()}, "Unpicklable cannot be sent"),
        ({"time": "id"}, "There is no column id with times"),
        ({"ttl": "soon"}, "ttl does not take the value 'soon'"),
        ({"timeout": "0s"}, "timeout does not take the value '0s'"),
        ({"cache_memory": 64}, "cache_memory does not take the value 64"),
        ({"look_ahead": -1}, "look_ahead does not take the value -1"),
    ],
)
def test_bad_arguments_are_refused(
    spark: SparkSession, arguments: dict[str, Any], message: str
) -> None:
    rows = spark.range(1).withColumn("weight", F.lit(1.5))
    given = {"on": "id", "source": RedisSource(), "columns": "a int", **arguments}
    with pytest.raises(TailraceError, match=message):
        tailrace.enrich(rows, **given)
