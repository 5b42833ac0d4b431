"""The bridge from Python to any state store.

Problem: tests want to say `store.put(key, value)`; the store lives in the JVM.
Answer: `Remote.run` sends a list of operations as one JSON document and gets one back; `Provider`
and `Store` are thin names over single operations.
Invariant: an operation that fails raises `StoreError` from `call`, and is a `StoreError` in the
list that `run` returns; nothing is lost on the way.
"""

from __future__ import annotations

import base64
import itertools
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

Row = tuple[Any, ...]
Pair = tuple[Row, Any]
Operation = dict[str, Any]

PACKAGE = "org.apache.spark.sql.tailrace.testing."


class StoreError(Exception):
    """An operation that a store refused, with the JVM's error."""

    def __init__(self, operation: Mapping[str, Any], error: Mapping[str, Any]) -> None:
        self.operation = operation
        self.class_name: str = error["class"]
        self.condition: str | None = error["condition"]
        self.causes: list[str] = error["causes"]
        super().__init__(f"{operation['op']}: " + " <- ".join(self.causes) + "\n" + error["frames"])

    @property
    def is_accident(self) -> bool:
        """True for a failure no store raises on purpose: a broken link, a missing case."""
        accidents = ("java.lang.NoSuchMethod", "java.lang.AbstractMethod", "java.lang.NoClassDef")
        return any(
            cause.startswith((*accidents, "scala.MatchError", "scala.NotImplementedError"))
            for cause in self.causes
        )


def wire(value: Any) -> Any:
    """The JSON form of a value: bytes as base64, numbers that JSON does not have as strings."""
    if isinstance(value, (bytes, bytearray)):
        return base64.b64encode(value).decode("ascii")
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else ("Infinity" if value > 0 else "-Infinity")
    if isinstance(value, (list, tuple)):
        return [wire(item) for item in value]
    if isinstance(value, dict):
        return {name: wire(item) for name, item in value.items()}
    return value


def row(values: Sequence[Any] | None) -> Any:
    """A row as a tuple, so that it can be compared, sorted and used as a key."""
    if values is None:
        return None
    return tuple(row(value) if isinstance(value, list) else value for value in values)


def pairs(values: Iterable[Sequence[Any]]) -> list[Pair]:
    """Key and value rows of a scan, in the scan's order."""
    return [(row(key), row(value)) for key, value in values]


@dataclass(frozen=True)
class Encoder:
    """How a family's keys are ordered and which scans it answers."""

    kind: str = "none"
    columns: int = 0
    ordinals: tuple[int, ...] = ()

    @staticmethod
    def prefix(columns: int) -> Encoder:
        return Encoder("prefix", columns=columns)

    @staticmethod
    def range(*ordinals: int) -> Encoder:
        return Encoder("range", ordinals=ordinals)

    def document(self) -> Operation:
        return {"kind": self.kind, "columns": self.columns, "ordinals": list(self.ordinals)}


NO_PREFIX = Encoder()
TIMESTAMP_PREFIX = Encoder("timestamp_prefix")
TIMESTAMP_POSTFIX = Encoder("timestamp_postfix")


@dataclass(frozen=True)
class Shape:
    """Schemas, encoder and multiplicity of a column family."""

    key: str = "k STRING"
    value: str = "v LONG"
    encoder: Encoder = NO_PREFIX
    multiple_values: bool = False

    def document(self) -> Operation:
        return {
            "key": self.key,
            "value": self.value,
            "encoder": self.encoder.document(),
            "multiple_values": self.multiple_values,
        }


class HarnessJar:
    """The harness's classes in the JVM of a session: one loader, so one class of each name."""

    def __init__(self, spark: Any, jar: Path) -> None:
        jvm = spark.sparkContext._jvm
        self._gateway = spark.sparkContext._gateway
        self._class = jvm.java.lang.Class
        self._object = jvm.java.lang.Object
        parent = jvm.java.lang.Thread.currentThread().getContextClassLoader()
        urls = self._gateway.new_array(jvm.java.net.URL, 1)
        urls[0] = jvm.java.io.File(str(jar)).toURI().toURL()
        self._loader = jvm.java.net.URLClassLoader(urls, parent)

    def new(self, class_name: str) -> Any:
        constructor = self._loader.loadClass(PACKAGE + class_name).getConstructor(
            self._gateway.new_array(self._class, 0)
        )
        return constructor.newInstance(self._gateway.new_array(self._object, 0))


class Remote:
    """An object in the JVM that executes operations (tests/jvm/Operations.scala)."""

    def __init__(self, jar: HarnessJar, class_name: str) -> None:
        self.jar = jar
        self._remote = jar.new(class_name)
        self._numbers = itertools.count()

    def new_name(self, kind: str) -> str:
        return f"{kind}-{next(self._numbers)}"

    def run(self, operations: Sequence[Mapping[str, Any]]) -> list[Any]:
        """Executes the operations in order; a failed one yields a `StoreError` in its place."""
        answer = json.loads(self._remote.run(json.dumps(wire(list(operations)))))
        return [
            StoreError(operation, result["error"]) if "error" in result else result["value"]
            for operation, result in zip(operations, answer, strict=True)
        ]

    def call(self, op: str, **arguments: Any) -> Any:
        """Executes one operation and raises its error."""
        (result,) = self.run([{"op": op, **arguments}])
        if isinstance(result, StoreError):
            raise result
        return result


class Harness(Remote):
    """Drives state stores (tests/jvm/StoreHarness.scala)."""

    def __init__(self, jar: HarnessJar) -> None:
        super().__init__(jar, "StoreHarness")


@dataclass
class Provider:
    """A provider on a directory; it outlives the stores it gives out."""

    harness: Harness
    class_name: str
    directory: Path
    shape: Shape
    column_families: bool = False
    partition: int = 0
    store_name: str = "default"
    confs: Mapping[str, str] = field(default_factory=dict)
    # The run of the query that the store belongs to; None is a run that was not announced.
    run_id: str | None = None
    name: str = ""
    is_open: bool = False

    def __post_init__(self) -> None:
        self.name = self.harness.new_name("provider")
        self.harness.call(**self.open_operation())
        self.is_open = True

    def open_operation(self) -> Operation:
        return {
            "op": "open",
            "provider": self.name,
            "class": self.class_name,
            "directory": str(self.directory),
            "partition": self.partition,
            "name": self.store_name,
            "column_families": self.column_families,
            "confs": dict(self.confs),
            "run_id": self.run_id,
            **self.shape.document(),
        }

    def load(
        self,
        version: int,
        checkpoint_id: str | None = None,
        *,
        force_snapshot: bool = False,
        load_empty: bool = False,
    ) -> Store:
        name = self.harness.new_name("store")
        self.harness.call(
            "load",
            provider=self.name,
            store=name,
            version=version,
            checkpoint_id=checkpoint_id,
            force_snapshot=force_snapshot,
            load_empty=load_empty,
        )
        return Store(self.harness, name)

    def load_read(self, version: int, checkpoint_id: str | None = None) -> Store:
        name = self.harness.new_name("store")
        self.harness.call(
            "load_read",
            provider=self.name,
            store=name,
            version=version,
            checkpoint_id=checkpoint_id,
        )
        return Store(self.harness, name)

    def upgrade(self, read_store: Store, version: int, checkpoint_id: str | None = None) -> Store:
        name = self.harness.new_name("store")
        self.harness.call(
            "upgrade",
            provider=self.name,
            store=name,
            read_store=read_store.name,
            version=version,
            checkpoint_id=checkpoint_id,
        )
        return Store(self.harness, name)

    def maintain(self) -> None:
        self.harness.call("maintain", provider=self.name)

    def supported_custom_metrics(self) -> list[str]:
        return list(self.harness.call("supported_custom_metrics", provider=self.name))

    def supported_instance_metrics(self) -> list[str]:
        return list(self.harness.call("supported_instance_metrics", provider=self.name))

    def close(self) -> None:
        if self.is_open:
            self.is_open = False
            self.harness.call("close", provider=self.name)


@dataclass(frozen=True)
class Store:
    """One version of the state, open for a batch."""

    harness: Harness
    name: str

    def call(self, op: str, **arguments: Any) -> Any:
        return self.harness.call(op, store=self.name, **arguments)

    def put(self, key: Sequence[Any] | None, value: Any, family: str | None = None) -> None:
        self.call("put", key=key, value=value, family=family)

    def put_all(self, entries: Iterable[tuple[Any, Any]], family: str | None = None) -> None:
        self.call("put_all", pairs=[list(entry) for entry in entries], family=family)

    def get(self, key: Sequence[Any] | None, family: str | None = None) -> Any:
        return row(self.call("get", key=key, family=family))

    def key_exists(self, key: Sequence[Any] | None, family: str | None = None) -> bool:
        return bool(self.call("key_exists", key=key, family=family))

    def multi_get(self, keys: Sequence[Any], family: str | None = None) -> list[Any]:
        return [row(value) for value in self.call("multi_get", keys=keys, family=family)]

    def remove(self, key: Sequence[Any] | None, family: str | None = None) -> None:
        self.call("remove", key=key, family=family)

    def merge(self, key: Sequence[Any] | None, value: Any, family: str | None = None) -> None:
        self.call("merge", key=key, value=value, family=family)

    def merge_list(self, key: Sequence[Any] | None, values: Any, family: str | None = None) -> None:
        self.call("merge_list", key=key, values=values, family=family)

    def put_list(self, key: Sequence[Any] | None, values: Any, family: str | None = None) -> None:
        self.call("put_list", key=key, values=values, family=family)

    def values(self, key: Sequence[Any] | None, family: str | None = None) -> list[Row]:
        return [row(value) for value in self.call("values", key=key, family=family)]

    def delete_range(self, start: Any, end: Any, family: str | None = None) -> None:
        self.call("delete_range", start=start, end=end, family=family)

    def iterate(self, family: str | None = None) -> list[Pair]:
        return pairs(self.call("iterate", family=family))

    def iterate_multiple(self, family: str | None = None) -> list[Pair]:
        return pairs(self.call("iterate_multiple", family=family))

    def prefix_scan(self, prefix: Any, family: str | None = None) -> list[Pair]:
        return pairs(self.call("prefix_scan", prefix=prefix, family=family))

    def prefix_scan_multiple(self, prefix: Any, family: str | None = None) -> list[Pair]:
        return pairs(self.call("prefix_scan_multiple", prefix=prefix, family=family))

    def range_scan(
        self, start: Any = None, end: Any = None, family: str | None = None
    ) -> list[Pair]:
        return pairs(self.call("range_scan", start=start, end=end, family=family))

    def range_scan_multiple(
        self, start: Any = None, end: Any = None, family: str | None = None
    ) -> list[Pair]:
        return pairs(self.call("range_scan_multiple", start=start, end=end, family=family))

    def open_iterator(self, scan: str = "iterate", **arguments: Any) -> OpenIterator:
        name = self.harness.new_name("iterator")
        self.call("open_iterator", iterator=name, scan=scan, **arguments)
        return OpenIterator(self.harness, name)

    def create_family(self, family: str, shape: Shape, *, internal: bool = False) -> None:
        self.call("create_family", family=family, internal=internal, **shape.document())

    def register_family(self, family: str, shape: Shape) -> None:
        self.call("register_family", family=family, **shape.document())

    def remove_family(self, family: str) -> bool:
        return bool(self.call("remove_family", family=family))

    def family_names(self) -> set[str]:
        return set(self.call("family_names"))

    def commit(self) -> int:
        return int(self.call("commit"))

    def abort(self) -> None:
        self.call("abort")

    def release(self) -> None:
        self.call("release")

    def has_committed(self) -> bool:
        return bool(self.call("has_committed"))

    def version(self) -> int:
        return int(self.call("store_version"))

    def metrics(self) -> dict[str, Any]:
        return dict(self.call("metrics"))

    def checkpoint_info(self) -> dict[str, Any]:
        return dict(self.call("checkpoint_info"))


@dataclass(frozen=True)
class OpenIterator:
    """A scan that stays open while the store changes under it."""

    harness: Harness
    name: str

    def next(self, count: int = 1) -> list[Pair]:
        return pairs(self.harness.call("next", iterator=self.name, count=count))

    def close(self) -> None:
        self.harness.call("close_iterator", iterator=self.name)
