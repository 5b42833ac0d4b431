"""A store's checkpoint, damaged in every way that a disk or a person may damage it.

Problem: tests of damage, and of files in the place of damaged ones, need the same few files.
Answer: checkpoints of a known content, functions that damage a file, and one assertion.
Invariant: `load_error` has seen that the load changed nothing on disk.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from support.expectations import commit_all
from support.fixtures import Opener
from support.harness import Shape, StoreError

ERRORS = "tailrace.errors."
SHAPE = Shape(key="k LONG", value="v LONG")
ENTRIES = [([key], [key * key]) for key in range(500)]


def folder_of(opener: Opener) -> Path:
    return opener.directory / "0" / "0"


def contents_of(folder: Path) -> dict[str, bytes]:
    files = (path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


def write_three_versions(opener: Opener) -> Path:
    provider = opener(SHAPE)
    for version in range(3):
        commit_all(provider, version, ENTRIES[version * 100 :])
    provider.close()
    return folder_of(opener)


def load_error(opener: Opener, version: int = 3) -> StoreError:
    """Loads with a new provider, asserts that it fails and that nothing on disk has changed."""
    folder = folder_of(opener)
    before = contents_of(folder)
    with pytest.raises(StoreError) as caught:
        opener(SHAPE).load(version)
    assert contents_of(folder) == before
    return caught.value


def assert_clear(error: StoreError, kind: str, file: str) -> None:
    assert error.class_name == ERRORS + kind, str(error)
    text = str(error)
    assert file in text
    assert "Cause:" in text
    assert "Remedy:" in text


def truncate(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-30])


def cut_to_header(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:40])


def append_bytes(path: Path) -> None:
    path.write_bytes(path.read_bytes() + b"more")


def empty_a_block(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[200:260] = bytes(60)
    path.write_bytes(bytes(data))


def to_notes(path: Path) -> None:
    path.write_bytes(b"a user's notes, in our place")


def to_nothing(path: Path) -> None:
    path.write_bytes(b"")


def flip_first_bit(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[0] ^= 1
    path.write_bytes(bytes(data))
