"""State files and packs, read by FORMAT.md alone.

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
PACK_KIND = 3
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
class Place:
    """A block, as a snapshot's index names it."""

    offset: int
    length: int
    check: int
    entries: int
    first_hash: int


@dataclass(frozen=True)
class Section:
    family: int
    by_hash: bool
    places: list[Place]


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
    # Of a snapshot: its index.
    sections: list[Section]


@dataclass(frozen=True)
class PackEntry:
    """Where in a pack a store's part is, its lineage and its parent's."""

    store: str
    lineage: int
    parent_lineage: int
    offset: int
    length: int


@dataclass(frozen=True)
class Pack:
    format: int
    version: int
    entries: list[PackEntry]
    # The bytes of the index, from the first letter to its check.
    index: bytes
    # By store; each is a whole changes file.
    parts: dict[str, bytes]

    @property
    def name(self) -> str:
        """The name that a pack of this index has to have."""
        return f"{self.version}-{xxh64(self.index, self.version):016x}.pack.tr"


def crc32c(data: bytes) -> int:
    """CRC-32C (Castagnoli), bit by bit."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = (crc >> 1) ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


_PRIMES = (
    0x9E3779B185EBCA87,
    0xC2B2AE3D27D4EB4F,
    0x165667B19E3779F9,
    0x85EBCA77C2B2AE63,
    0x27D4EB2F165667C5,
)
_MASK = (1 << 64) - 1


def xxh64(data: bytes, seed: int) -> int:
    """XXH64, as its specification has it."""
    first, second, third, fourth, fifth = _PRIMES

    def rotate(value: int, bits: int) -> int:
        value &= _MASK
        return ((value << bits) | (value >> (64 - bits))) & _MASK

    def mixed(lane: int, word: int) -> int:
        return rotate(lane + word * second, 31) * first & _MASK

    at, result = 0, seed + fifth
    if len(data) >= 32:
        lanes = [seed + first + second, seed + second, seed, seed - first]
        while at + 32 <= len(data):
            words = struct.unpack_from("<4Q", data, at)
            lanes = [mixed(lane, word) for lane, word in zip(lanes, words, strict=True)]
            at += 32
        result = sum(rotate(lane, bits) for lane, bits in zip(lanes, (1, 7, 12, 18), strict=True))
        for lane in lanes:
            result = (result ^ mixed(0, lane)) * first + fourth
    result += len(data)
    while at + 8 <= len(data):
        (word,) = struct.unpack_from("<Q", data, at)
        result = rotate(result & _MASK ^ mixed(0, word), 27) * first + fourth
        at += 8
    if at + 4 <= len(data):
        (half,) = struct.unpack_from("<I", data, at)
        result = rotate(result & _MASK ^ half * first & _MASK, 23) * second + third
        at += 4
    for byte in data[at:]:
        result = rotate(result & _MASK ^ byte * fifth & _MASK, 11) * first
    result &= _MASK
    result = (result ^ result >> 33) * second & _MASK
    result = (result ^ result >> 29) * third & _MASK
    return result ^ result >> 32


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


def read_pack(path: Path) -> Pack:
    """Decodes a pack's index, verifies its check and its name, and cuts out the parts."""
    cursor = _Cursor(path.read_bytes())
    assert cursor.bytes(8) == MAGIC
    file_format, kind, zero, index_length = cursor.take(">HBBI")
    assert (kind, zero) == (PACK_KIND, 0)
    version, count = cursor.take(">qI")
    entries = [PackEntry(cursor.text(), *cursor.take(">QQQQ")) for _ in range(count)]
    assert cursor.at == 16 + index_length
    (check,) = cursor.take(">I")
    assert check == crc32c(cursor.data[: cursor.at - 4])
    index = cursor.data[: cursor.at]
    parts = {}
    for entry in entries:
        assert cursor.at == len(index) + entry.offset, "parts stand one behind the other"
        parts[entry.store] = cursor.bytes(entry.length)
    assert cursor.at == len(cursor.data)
    pack = Pack(file_format, version, entries, index, parts)
    assert pack.name == path.name
    return pack


def read(path: Path) -> StateFile:
    return decode(path.read_bytes())


def decode(data: bytes) -> StateFile:
    """Decodes a whole changes file or snapshot and verifies every checksum in it."""
    cursor = _Cursor(data)
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
    seen: list[tuple[int, int, int, list[Entry]]] = []
    while True:
        block_start = cursor.at
        (raw_length,) = cursor.take(">I")
        if raw_length == 0:
            break
        stored_length, payload_check, length_check = cursor.take(">III")
        assert length_check == crc32c(cursor.data[block_start : block_start + 12])
        payload = cursor.bytes(stored_length)
        assert payload_check == crc32c(payload)
        of_block = []
        if codec == 0:
            assert stored_length == raw_length
            of_block = _entries(payload)
            entries += of_block
        seen.append((block_start, cursor.at - block_start, payload_check, of_block))
        blocks += 1
    said_blocks, said_entries, end_check = cursor.take(">IQI")
    assert end_check == crc32c(cursor.data[cursor.at - 20 : cursor.at - 4])
    assert said_blocks == blocks
    assert codec != 0 or said_entries == len(entries)
    sections = []
    if file_format == 2:
        index_start = cursor.at
        sections = _index(cursor)
        index_offset, same_check, trailer_check = cursor.take(">QII")
        assert (index_offset, same_check) == (index_start, header_check)
        assert trailer_check == crc32c(cursor.data[cursor.at - 16 : cursor.at - 4])
        _compare(sections, seen, codec)
    assert cursor.at == len(cursor.data)
    return StateFile(
        file_format,
        KINDS[kind],
        codec,
        version,
        lineage,
        parent_lineage,
        store,
        families,
        entries,
        sections,
    )


def hash_of(key: bytes) -> int:
    """By which the entries of a section are ordered."""
    return (xxh64(key, 0x7461696C72616365) >> 32) or 1


def _index(cursor: _Cursor) -> list[Section]:
    start = cursor.at
    length, count = cursor.take(">II")
    sections = []
    for _ in range(count):
        family, order, blocks = cursor.take(">HBI")
        places = [Place(*cursor.take(">QIIII")) for _ in range(blocks)]
        sections.append(Section(family, order == 1, places))
    assert cursor.at == start + 4 + length
    (check,) = cursor.take(">I")
    assert check == crc32c(cursor.data[start : cursor.at - 4])
    return sections


def _compare(
    sections: list[Section], seen: list[tuple[int, int, int, list[Entry]]], codec: int
) -> None:
    """The index names the blocks that are there, and in the order that it says."""
    places = [(section, place) for section in sections for place in section.places]
    assert [(place.offset, place.length, place.check) for _, place in places] == [
        block[:3] for block in seen
    ]
    if codec == 0:
        last: dict[int, int] = {}  # by section
        for (section, place), (_, _, _, entries) in zip(places, seen, strict=True):
            assert place.entries == len(entries)
            assert {entry.family for entry in entries} == {section.family}
            if section.by_hash:
                hashes = [hash_of(entry.key) for entry in entries]
                assert hashes == sorted(hashes)
                assert place.first_hash == hashes[0]
                assert last.get(id(section), -1) < hashes[0]
                last[id(section)] = hashes[-1]


def _entries(payload: bytes) -> list[Entry]:
    cursor = _Cursor(payload)
    found = []
    while cursor.at < len(payload):
        kind, family, key_length, value_length = cursor.take("<BHII")
        found.append(
            Entry(ENTRY_KINDS[kind], family, cursor.bytes(key_length), cursor.bytes(value_length))
        )
    return found


def read_index(data: bytes) -> list[Section]:
    """Of a snapshot, found from its last bytes: for files that are too long for `decode`."""
    (offset,) = struct.unpack_from(">Q", data, len(data) - 16)
    cursor = _Cursor(data)
    cursor.at = offset
    return _index(cursor)


def without_index(data: bytes) -> bytes:
    """A snapshot as it was in format 1."""
    (offset,) = struct.unpack_from(">Q", data, len(data) - 16)
    (header_length,) = struct.unpack_from(">I", data, 12)
    start = bytearray(data[: 16 + header_length])
    start[8:10] = (1).to_bytes(2, "big")
    check = struct.pack(">I", crc32c(bytes(start)))
    return bytes(start) + check + data[16 + header_length + 4 : offset]
