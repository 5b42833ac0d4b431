"""Records in a real Redis server: keys, kinds of records, and errors."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.sql.types import StructType
from support.slow_line import SlowLine

from tailrace.bench.redis_server import RedisServer
from tailrace.enrich import RedisSource, Wanted
from tailrace.enrich.fetcher import Surroundings
from tailrace.enrich.manager import PrefetchManager
from tailrace.enrich.settings import Settings
from tailrace.errors import EnrichmentError, OptionError, SourceUnavailableError
from tailrace.supervise import Backoff

SCHEMA = StructType().add("name", "string").add("size", "integer")
NAMES = ("name", "size")


def read(source: RedisSource, on: tuple[str, ...], columns: tuple[str, ...], *keys: Any) -> Any:
    wanted = Wanted(on, columns, 30.0)
    source.check(wanted)
    table = source.connect(wanted)
    try:
        return table.get_many(keys)
    finally:
        table.close()


def test_hashes(redis_server: RedisServer) -> None:
    redis_server.client.hset("ad:1", mapping={"name": "one", "size": 1, "other": "x"})
    redis_server.client.hset("ad:2", mapping={"size": 2})
    redis_server.client.hset("ad:3", mapping={"other": "x"})
    found = read(RedisSource(redis_server.url, "ad:{id}"), ("id",), NAMES, 1, 2, 3, 4)
    assert found == {
        1: {"name": b"one", "size": b"1"},
        2: {"name": None, "size": b"2"},
        3: None,
        4: None,
    }


def test_a_key_that_is_no_hash_is_named(redis_server: RedisServer) -> None:
    redis_server.client.set("ad:7", "text")
    it = manager(redis_server.url)
    try:
        with pytest.raises(EnrichmentError, match=r"The value of 'ad:7'(?s:.*)WRONGTYPE"):
            it.take(it.expect([1, 7, 2], None))
        # The answer to the third key, which was not read, is not taken for one of these.
        redis_server.client.hset("ad:3", "name", "three")
        assert it.take(it.expect([3], None)) == {3: ("three", None)}
    finally:
        it.close()


def test_json(redis_server: RedisServer) -> None:
    redis_server.client.mset({"a": '{"name": "one", "size": 1}', "b": "{}"})
    found = read(RedisSource(redis_server.url, value="json"), ("id",), NAMES, "a", "b", "c")
    assert found == {"a": {"name": "one", "size": 1}, "b": {}, "c": None}


def test_strings_and_a_key_of_several_columns(redis_server: RedisServer) -> None:
    redis_server.client.set("de/7", "seven")
    source = RedisSource(redis_server.url, "{country}/{id}", "string")
    found = read(source, ("id", "country"), ("name",), (7, "de"), (8, "de"))
    assert found == {(7, "de"): {"name": b"seven"}, (8, "de"): None}


@pytest.mark.parametrize("text", ["[1]", "no json", "null"])
def test_text_that_is_no_object_is_refused(redis_server: RedisServer, text: str) -> None:
    redis_server.client.set("a", text)
    with pytest.raises(EnrichmentError, match=r"The value of a in redis://.* not a JSON object"):
        read(RedisSource(redis_server.url, value="json"), ("id",), NAMES, "a")


@pytest.mark.parametrize(
    ("source", "on", "columns", "message"),
    [
        ({"value": "list"}, ("id",), NAMES, "value does not take 'list'"),
        ({"value": "string"}, ("id",), NAMES, "cannot give the 2 columns name, size"),
        ({}, ("id", "country"), NAMES, 'key="{id}:{country}"'),
        ({"key": "ad:{ad}"}, ("id",), NAMES, "It names ad; on has id"),
        ({"key": "ad"}, ("id",), NAMES, "It names none; on has id"),
        ({"key": "ad:{id"}, ("id",), NAMES, "is no template"),
        ({"url": "http://host"}, ("id",), NAMES, "is not the address of a Redis server"),
    ],
)
def test_what_can_never_work_is_refused(
    source: dict[str, str], on: tuple[str, ...], columns: tuple[str, ...], message: str
) -> None:
    with pytest.raises(OptionError) as raised:
        RedisSource(**source).check(Wanted(on, columns, 30.0))
    assert message in str(raised.value)


def test_a_password_is_not_shown() -> None:
    source = RedisSource("redis://user:secret@host:1234/2?password=secret")
    assert source.name == "redis://host:1234/2"
    assert "secret" not in repr(source)


def manager(url: str, timeout: str = "30s", **around: Any) -> PrefetchManager:
    settings = Settings(timeout=timeout)
    surroundings = Surroundings(backoff=Backoff(first=0.001, cap=0.01), **around)
    return PrefetchManager(
        RedisSource(url, "ad:{id}"), ("id",), SCHEMA, "UTC", settings, surroundings
    )


def test_a_server_that_comes_back_in_time_costs_retries(redis_server: RedisServer) -> None:
    def fill() -> None:
        redis_server.client.hset("ad:1", mapping={"name": "one", "size": 1})

    def come_back(_: BaseException) -> None:
        if not redis_server.running:
            redis_server.start()
            fill()

    fill()
    it = manager(redis_server.url, on_retry=come_back)
    try:
        assert it.take(it.expect([1], None)) == {1: ("one", 1)}
        redis_server.kill()
        assert it.take(it.expect([2, 1], None)) == {1: ("one", 1), 2: None}
        assert it.report()["retries"] >= 1
    finally:
        it.close()


def test_a_server_that_does_not_come_back_is_an_error(redis_server: RedisServer) -> None:
    redis_server.kill()
    it = manager(redis_server.url, timeout="200ms")
    try:
        with pytest.raises(SourceUnavailableError, match=r"127.0.0.1:.* gave no answer within"):
            it.take(it.expect([1], None))
    finally:
        it.close()


def test_a_server_that_does_not_answer_is_asked_again(redis_server: RedisServer) -> None:
    redis_server.client.hset("ad:1", mapping={"name": "one", "size": 1})
    with SlowLine(redis_server.port) as line:
        # The first attempt ends by its time limit, and nothing else does.
        it = manager(line.url, timeout="6s", on_retry=lambda _: line.open.set())
        try:
            source = it.expect([1], None)
            assert line.asked.wait(60)
            assert it.take(source) == {1: ("one", 1)}
        finally:
            it.close()


def test_a_wrong_password_is_not_an_outage(redis_server: RedisServer) -> None:
    redis_server.client.config_set("requirepass", "right")
    for url in (redis_server.url, redis_server.url.replace("//", "//:wrong@")):
        it = manager(url)
        try:
            with pytest.raises(EnrichmentError, match="refused a request") as raised:
                it.take(it.expect([1], None))
            assert "wrong" not in raised.value.problem
        finally:
            it.close()
