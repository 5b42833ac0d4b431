"""Records in Redis.

Problem: Redis knows keys and text. A row has columns, and a record may be a hash, a JSON object or
a plain text.
Answer: a template makes the Redis key from the columns, and `value` says which of the three a
record is. All keys of a request travel together: one MGET, or an HMGET for each with only the
fields that are wanted.
Invariant: the password of the address is in no error, and in no `repr`.
"""

from __future__ import annotations

import dataclasses
import json
import string
import urllib.parse
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tailrace.enrich.source import Key, Record, Source, Table, Wanted
from tailrace.errors import EnrichmentError, OptionError

if TYPE_CHECKING:
    import redis

VALUES = ("hash", "json", "string")


@dataclasses.dataclass(frozen=True)
class RedisSource(Source):
    """A table in a Redis server.

    url: `redis://[[user]:[password]@]host[:port][/database]`, or `rediss://` for TLS, or `unix://`.
    key: the Redis key of a row, with the columns of `on` in braces: `"ad:{ad_id}"`. If there is one
    column and no template, its value is the key.
    value: the kind of the records. `"hash"`: the columns are fields of a hash. `"json"`: a string
    with a JSON object. `"string"`: a string, the value of the only column.
    """

    url: str = dataclasses.field(default="redis://localhost:6379/0", repr=False)
    key: str | None = None
    value: str = "hash"

    @property
    def name(self) -> str:
        parts = urllib.parse.urlsplit(self.url)
        return parts._replace(netloc=parts.netloc.rpartition("@")[2], query="").geturl()

    def check(self, wanted: Wanted) -> None:
        if self.value not in VALUES:
            raise OptionError(
                f"value does not take {self.value!r}.",
                f"A record in Redis is one of {', '.join(VALUES)}.",
                "Use one of these.",
            )
        if self.value == "string" and len(wanted.columns) != 1:
            raise OptionError(
                f"A string of Redis cannot give the {len(wanted.columns)} columns "
                f"{', '.join(wanted.columns)}.",
                'With value="string" the whole string is the value of one column.',
                'Ask for one column, or store JSON objects and use value="json".',
            )
        used = _fields(self.key, wanted.on)
        if self.key is None and len(wanted.on) > 1:
            raise OptionError(
                f"The columns {', '.join(wanted.on)} do not tell the Redis key.",
                "With several columns there must be a template for it.",
                'Write for example key="' + ":".join(f"{{{name}}}" for name in wanted.on) + '".',
            )
        strange = [name for name in used if name not in wanted.on]
        left_out = [name for name in wanted.on if name not in used]
        if strange or left_out:
            raise OptionError(
                f"The key's template {self.key!r} does not fit the columns of on.",
                f"It names {', '.join(used) or 'none'}; on has {', '.join(wanted.on)}.",
                "Name each column of on in braces, and no others.",
            )
        _redis()
        self._client(wanted)  # refuses an address that cannot be read; connects to nothing

    def connect(self, wanted: Wanted) -> Table:
        return RedisTable(self._client(wanted), self, wanted)

    def _client(self, wanted: Wanted) -> redis.Redis:
        library = _redis()
        from redis.backoff import NoBackoff
        from redis.retry import Retry

        try:
            client: redis.Redis = library.Redis.from_url(
                self.url,
                socket_timeout=wanted.seconds,
                socket_connect_timeout=wanted.seconds,
                retry=Retry(NoBackoff(), 0),  # the fetcher's own retries have the deadline
            )
        except ValueError as error:
            raise OptionError(
                f"{self.name!r} is not the address of a Redis server.",
                str(error),
                "Write it like redis://host:6379/0.",
            ) from None
        return client


class RedisTable(Table):
    """One connection."""

    def __init__(self, client: redis.Redis, source: RedisSource, wanted: Wanted) -> None:
        self._client: Any = client
        self._source = source
        self._wanted = wanted

    def get_many(self, keys: Sequence[Key]) -> Mapping[Any, Record | None]:
        from redis import exceptions

        names = [self._name(key) for key in keys]
        try:
            if self._source.value == "hash":
                found = [self._hash(values) for values in self._hashes(names)]
            else:
                texts = self._client.mget(names)
                found = [self._text(*pair) for pair in zip(names, texts, strict=True)]
        except exceptions.AuthenticationError:
            raise  # a ConnectionError of redis-py, but one that comes back
        except exceptions.TimeoutError as error:
            raise TimeoutError(str(error)) from None
        except (
            exceptions.ConnectionError,
            exceptions.ReadOnlyError,
            exceptions.MasterDownError,
        ) as error:
            raise ConnectionError(str(error)) from None
        return dict(zip(keys, found, strict=True))

    def close(self) -> None:
        self._client.close()

    def _hashes(self, names: Sequence[str | bytes]) -> list[Any]:
        """The wanted fields of all these hashes, with one round trip.

        On the connection itself, because a pipeline of redis-py takes twice the time per command.
        """
        pool = self._client.connection_pool
        connection = pool.get_connection()
        try:
            fields = self._wanted.columns
            commands = connection.pack_commands([("HMGET", name, *fields) for name in names])
            connection.send_packed_command(commands)
            return [self._answer(connection, name) for name in names]
        except BaseException:
            connection.disconnect()  # the answers that were not read would be taken for others
            raise
        finally:
            pool.release(connection)

    def _answer(self, connection: Any, name: str | bytes) -> Any:
        from redis import exceptions

        try:
            return connection.read_response()
        except (exceptions.ReadOnlyError, exceptions.MasterDownError):
            raise  # an outage
        except exceptions.ResponseError as error:
            raise EnrichmentError(
                f"The value of {name!r} in {self._source.name} cannot be read as a hash.",
                str(error),
                "Correct it in the table, or say what the values are with RedisSource(value=...).",
            ) from None

    def _name(self, key: Key) -> str | bytes:
        template = self._source.key
        if template is None:
            return key if isinstance(key, (str, bytes)) else str(key)
        values = key if isinstance(key, tuple) else (key,)
        return template.format(**dict(zip(self._wanted.on, values, strict=True)))

    def _hash(self, values: Sequence[Any]) -> Record | None:
        # Redis does not tell a hash that is not there from one without these fields.
        if all(value is None for value in values):
            return None
        return dict(zip(self._wanted.columns, values, strict=True))

    def _text(self, name: Any, text: bytes | None) -> Record | None:
        if text is None:
            return None
        if self._source.value == "string":
            return {self._wanted.columns[0]: text}
        try:
            found = json.loads(text)
        except ValueError as error:
            found = str(error)
        if not isinstance(found, dict):
            raise EnrichmentError(
                f"The value of {name} in {self._source.name} is not a JSON object.",
                found if isinstance(found, str) else f"It is of type {type(found).__name__}.",
                'Correct it in the table, or use value="string".',
            )
        return found


def _fields(template: str | None, on: Sequence[str]) -> list[str]:
    if template is None:
        return list(on)
    try:
        return [name for _, name, _, _ in string.Formatter().parse(template) if name is not None]
    except ValueError as error:
        raise OptionError(
            f"{template!r} is no template for a key.",
            str(error),
            "Write it like ad:{ad_id}, with the columns of on in braces.",
        ) from None


def _redis() -> Any:
    try:
        import redis
    except ImportError:
        raise OptionError(
            "Redis cannot be read.",
            "The package redis is not installed.",
            "pip install 'tailrace[redis]', on the driver and on the executors.",
        ) from None
    return redis
