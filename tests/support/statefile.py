"""A state file, read by FORMAT.md alone.

Problem: a golden-byte test that used the engine's own reader would prove nothing.
Answer: a second reader, in Python, written from the grammar in FORMAT.md.
Invariant: every checksum is verified; only files without compression are decoded.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from pathlib import Path

MAGIC = b"TAILRACE"
KINDS = {1: "changes", 2: "snapshot"}
ENTRY_KINDS = {1: "put", 2: "remove", 3: "append", 4: "put_list"}


@dataclass(frozen=True)
class Family:
    id: int
    flags: int
    order: int
    parameter: int
    rows: int
    name: str
    key_types: str
    value_types: str


@dataclass(frozen=True)
class Entry:
    kind: str
    family: int
    key: bytes
    value: bytes


@dataclass(frozen=True)
class StateFile:
    format: int
    kind: str
    codec: int
    version: int
    lineage: int
    parent_lineage: int
    store: str
    families: list[Family]
    entries: list[Entry]


def crc32c(data: bytes) -> int:
    """CRC-32C (Castagnoli), bit by bit."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = (crc >> 1) ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


class _Cursor:
    def __init__(self, data: bytes) -> None:
        self.data = data
        self.at = 0

    def take(self, layout: str) -> tuple[int, ...]:
        values = struct.unpack_from(layout, self.data, self.at)
        self.at += struct.calcsize(layout)
        return values

    def bytes(self, length: int) -> bytes:
        taken = self.data[self.at : self.at + length]
        assert len(taken) == length, "the file ends too early"
        self.at += length
        return taken

    def text(self) -> str:
        (length,) = self.take(">I")
        return self.bytes(length).decode("utf-8")


def read(path: Path) -> StateFile:
    """Decodes a whole file and verifies every checksum in it."""
    cursor = _Cursor(path.read_bytes())
    assert cursor.bytes(8) == MAGIC
    file_format, kind, codec, header_length = cursor.take(">HBBI")
    header_start = cursor.at
    version, lineage, parent_lineage = cursor.take(">qQQ")
    store = cursor.text()
    (count,) = cursor.take(">H")
    families = []
    for _ in range(count):
        family_id, flags, order, parameter, rows = cursor.take(">HBBHQ")
        families.append(
            Family(
                family_id,
                flags,
                order,
                parameter,
                rows,
                cursor.text(),
                cursor.text(),
                cursor.text(),
            )
        )
    assert cursor.at == header_start + header_length
    (header_check,) = cursor.take(">I")
    assert header_check == crc32c(cursor.data[: cursor.at - 4])

    entries: list[Entry] = []
    blocks = 0
    while True:
        block_start = cursor.at
        (raw_length,) = cursor.take(">I")
        if raw_length == 0:
            break
        stored_length, payload_check, length_check = cursor.take(">III")
        assert length_check == crc32c(cursor.data[block_start : block_start + 12])
        payload = cursor.bytes(stored_length)
        assert payload_check == crc32c(payload)
        if codec == 0:
            assert stored_length == raw_length
            entries += _entries(payload)
        blocks += 1
    said_blocks, said_entries, end_check = cursor.take(">IQI")
    assert end_check == crc32c(cursor.data[cursor.at - 20 : cursor.at - 4])
    assert said_blocks == blocks
    assert codec != 0 or said_entries == len(entries)
    assert cursor.at == len(cursor.data)
    return StateFile(
        file_format, KINDS[kind], codec, version, lineage, parent_lineage, store, families, entries
    )


def _entries(payload: bytes) -> list[Entry]:
    cursor = _Cursor(payload)
    found = []
    while cursor.at < len(payload):
        kind, family, key_length, value_length = cursor.take("<BHII")
        found.append(
            Entry(ENTRY_KINDS[kind], family, cursor.bytes(key_length), cursor.bytes(value_length))
        )
    return found
