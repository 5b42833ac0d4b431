"""The bytes of a checkpoint are those of FORMAT.md, and stay so.

Two kinds of proof: whole files compared with bytes kept here (a change of the format must change
this test, FORMAT.md and the format's number), and files read back by a reader that was written from
FORMAT.md alone.
"""

from __future__ import annotations

import struct
from pathlib import Path

from support import statefile
from support.fixtures import Opener, wait_for
from support.harness import Encoder, Shape

PLAIN = {"spark.sql.streaming.stateStore.tailrace.compression": "none"}
LONGS = Shape(key="k LONG", value="v LONG")


def row_of_longs(*values: int) -> bytes:
    """Spark's own row format: null bits, then eight bytes a field."""
    return bytes(8) + b"".join(struct.pack("<q", value) for value in values)


def store_file(opener: Opener, name: str) -> Path:
    return opener.directory / "0" / "0" / name


HEADER = bytes.fromhex(
    "5441494c52414345"  # TAILRACE
    "00010100"  # format 1, changes, no compression
    "00000056"  # header length
    "0000000000000001"  # version
    "91cf8d2f26916849"  # lineage: XXH64 over the one change, the version and the parent
    "0000000000000000"  # the parent is the empty state
    "0000000b302f302f64656661756c74"  # store 0/0/default
    "0001"  # one family
    "000000000000"  # id 0, no flags, no order, no parameter
    "0000000000000001"  # one row
    "0000000764656661756c74"  # default
    "00000006626967696e74"  # bigint
    "00000006626967696e74"  # bigint
)
PAYLOAD = bytes.fromhex(
    "0100001000000010000000"  # put, family 0, 16 and 16 bytes
    "00000000000000000700000000000000"  # the row (7)
    "00000000000000002a00000000000000"  # the row (42)
)
END = bytes.fromhex("00000000000000010000000000000001")  # no more blocks: 1 block, 1 entry


def checked(data: bytes) -> bytes:
    return data + struct.pack(">I", statefile.crc32c(data))


def test_changes_file_has_the_golden_bytes(open_provider: Opener) -> None:
    store = open_provider(LONGS, confs=PLAIN).load(0)
    store.put([7], [42])
    assert store.commit() == 1
    lengths = struct.pack(">III", len(PAYLOAD), len(PAYLOAD), statefile.crc32c(PAYLOAD))
    golden = checked(HEADER) + checked(lengths) + PAYLOAD + checked(END)
    assert store_file(open_provider, "1.changes.tr").read_bytes().hex() == golden.hex()


def test_every_kind_of_change_reads_back_by_the_grammar(open_provider: Opener) -> None:
    shape = Shape(key="k LONG", value="v LONG")
    provider = open_provider(shape, column_families=True, confs=PLAIN)
    store = provider.load(0)
    lists = Shape(key="k LONG", value="v LONG", multiple_values=True)
    store.create_family("lists", lists)
    store.put([1], [10])
    store.put([2], [20])
    store.merge([5], [50], "lists")
    store.put_list([6], [[61], [62]], "lists")
    store.commit()
    store = provider.load(1)
    store.create_family("lists", lists)
    store.put([1], [11])
    store.remove([2])
    store.merge([5], [51], "lists")
    store.commit()

    first = statefile.read(store_file(open_provider, "1.changes.tr"))
    second = statefile.read(store_file(open_provider, "2.changes.tr"))
    assert (first.format, first.kind, first.version, first.store) == (
        1,
        "changes",
        1,
        "0/0/default",
    )
    assert second.parent_lineage == first.lineage
    assert [(family.name, family.flags) for family in second.families] == [
        ("default", 0),
        ("lists", 1),
    ]
    assert [(entry.kind, entry.family) for entry in first.entries] == [
        ("put", 0),
        ("put", 0),
        ("append", 1),
        ("put_list", 1),
    ]
    listed = b"".join(struct.pack("<I", 16) + row_of_longs(value) for value in (61, 62))
    assert first.entries[3].value == listed
    assert [(entry.kind, entry.key, entry.value) for entry in second.entries] == [
        ("put", row_of_longs(1), row_of_longs(11)),
        ("remove", row_of_longs(2), b""),
        ("append", row_of_longs(5), row_of_longs(51)),
    ]


def test_a_change_that_a_later_one_of_the_batch_replaced_is_not_written(
    open_provider: Opener,
) -> None:
    store = open_provider(LONGS, confs=PLAIN).load(0)
    for value in range(10):
        store.put([1], [value])
    store.commit()
    written = statefile.read(store_file(open_provider, "1.changes.tr"))
    assert [entry.value for entry in written.entries] == [row_of_longs(9)]


def test_snapshot_holds_exactly_the_state(open_provider: Opener) -> None:
    shape = Shape(key="k LONG", value="v LONG", encoder=Encoder.range(0))
    provider = open_provider(shape, confs=PLAIN)
    store = provider.load(0)
    store.put_all([([key], [key * 10]) for key in range(-3, 4)])
    store.commit()
    store = provider.load(1, force_snapshot=True)
    store.remove([0])
    store.commit()
    wait_for(store_file(open_provider, "2.snapshot.tr"))
    snapshot = statefile.read(store_file(open_provider, "2.snapshot.tr"))
    assert (snapshot.format, snapshot.kind, snapshot.version) == (2, "snapshot", 2)
    assert snapshot.parent_lineage == 0
    assert snapshot.lineage == statefile.read(store_file(open_provider, "2.changes.tr")).lineage
    assert {entry.kind for entry in snapshot.entries} == {"put"}
    assert [section.by_hash for section in snapshot.sections] == [False]
    assert [entry.value for entry in snapshot.entries] == [
        row_of_longs(value) for value in (-30, -20, -10, 10, 20, 30)
    ]


def written_snapshot(opener: Opener, version: int) -> Path:
    path = store_file(opener, f"{version}.snapshot.tr")
    wait_for(path)
    return path


def test_snapshot_has_the_golden_index(open_provider: Opener) -> None:
    store = open_provider(LONGS, confs=PLAIN).load(0, force_snapshot=True)
    store.put([7], [42])
    store.commit()
    data = written_snapshot(open_provider, 1).read_bytes()
    header = bytearray(HEADER)
    header[8:12] = bytes.fromhex("00020200")  # format 2, snapshot, no compression
    start = checked(bytes(header))
    lengths = struct.pack(">III", len(PAYLOAD), len(PAYLOAD), statefile.crc32c(PAYLOAD))
    block = checked(lengths) + PAYLOAD
    first_hash = statefile.hash_of(row_of_longs(7))
    section = struct.pack(">HBI", 0, 1, 1)
    place = struct.pack(">QIIII", len(start), len(block), statefile.crc32c(PAYLOAD), 1, first_hash)
    index = checked(struct.pack(">II", 4 + len(section) + len(place), 1) + section + place)
    body = start + block + checked(END)
    trailer = checked(struct.pack(">Q", len(body)) + start[-4:])
    assert data.hex() == (body + index + trailer).hex()


def test_records_that_are_found_by_hash_are_in_its_order(open_provider: Opener) -> None:
    """Enough keys for many segments of the table, in several blocks each."""
    keys = 40_000
    store = open_provider(LONGS, confs=PLAIN).load(0, force_snapshot=True)
    store.put_all([([key], [key]) for key in range(keys)])
    store.commit()
    data = written_snapshot(open_provider, 1).read_bytes()
    index = statefile.read_index(data)
    assert [(section.family, section.by_hash) for section in index] == [(0, True)]
    assert sum(place.entries for place in index[0].places) == keys
    hashes = [place.first_hash for place in index[0].places]
    assert hashes == sorted(set(hashes))
    assert len(hashes) > 100


def test_runs_that_change_the_same_have_the_same_lineage(open_provider: Opener) -> None:
    provider = open_provider(LONGS, confs=PLAIN)

    def lineage_of(entries: list[tuple[list[int], list[int]]]) -> int:
        store = provider.load(0)
        store.put_all(entries)
        store.commit()
        return statefile.read(store_file(open_provider, "1.changes.tr")).lineage

    forwards = lineage_of([([1], [10]), ([2], [20])])
    backwards = lineage_of([([2], [20]), ([1], [10])])
    different = lineage_of([([2], [20]), ([1], [11])])
    assert forwards == backwards
    assert forwards != different
