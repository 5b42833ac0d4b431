"""The logs that `tailrace rollback` reads from a checkpoint, without Spark."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tailrace.errors import RollbackError
from tailrace.rollback.logs import BatchLog, read_lineages, read_offsets, with_checksum
from tailrace.rollback.plan import local, verify_quiet
from tailrace.rollback.sources import kind_of


def log_of(folder: Path, *names: str) -> BatchLog:
    for name in names:
        (folder / name).write_text("v1")
    return BatchLog(folder)


def test_only_numbered_files_are_entries(tmp_path: Path) -> None:
    (tmp_path / "7").mkdir()
    log = log_of(tmp_path, "10", "9.compact", "2", ".11.crc", ".12.3e.tmp", "notes", "13.tmp")
    assert log.numbers == [2, 9, 10]
    assert [entry.compact for entry in log.entries] == [False, True, False]


@pytest.mark.parametrize(
    ("names", "last", "chain"),
    [
        (("0", "1", "2.compact", "3", "4", "5.compact", "6"), 6, ["5.compact", "6"]),
        (("0", "1", "2.compact", "3", "4", "5.compact", "6"), 4, ["2.compact", "3", "4"]),
        (("0", "1", "2.compact", "3", "4", "5.compact", "6"), 5, ["5.compact"]),
        (("0", "1", "2.compact", "3"), 1, ["0", "1"]),
        (("5.compact", "6"), 6, ["5.compact", "6"]),
    ],
)
def test_what_tells_everything_up_to_an_entry(
    tmp_path: Path, names: tuple[str, ...], last: int, chain: list[str]
) -> None:
    assert [entry.path.name for entry in log_of(tmp_path, *names).chain(last)] == chain


@pytest.mark.parametrize(
    ("names", "last"),
    [
        (("5.compact", "6"), 4),  # only a later compact file has it
        (("1", "2"), 2),
        (("2.compact", "4"), 4),
        (("0", "1"), 2),
        ((), 0),
    ],
)
def test_a_log_that_does_not_tell_everything_is_refused(
    tmp_path: Path, names: tuple[str, ...], last: int
) -> None:
    with pytest.raises(RollbackError, match="no longer holds"):
        log_of(tmp_path, *names).chain(last)


@pytest.mark.parametrize(
    ("names", "interval"),
    [(("0", "1"), None), (("2.compact", "3"), 3), (("2.compact", "5.compact"), 3)],
)
def test_how_often_a_log_was_compacted(
    tmp_path: Path, names: tuple[str, ...], interval: int | None
) -> None:
    assert log_of(tmp_path, *names).compact_interval() == interval


def test_a_checksum_goes_with_its_file(tmp_path: Path) -> None:
    log_of(tmp_path, "1", "2", ".2.crc")
    assert with_checksum(tmp_path / "1") == [tmp_path / "1"]
    assert with_checksum(tmp_path / "2") == [tmp_path / "2", tmp_path / ".2.crc"]


def test_offsets_of_both_versions(tmp_path: Path) -> None:
    path = tmp_path / "0"
    path.write_text('v1\n{"conf":{}}\n{"logOffset":4}\n-')
    assert read_offsets(path) == {"0": '{"logOffset":4}', "1": None}
    path.write_text('v2\n{"conf":{}}\norders:{"logOffset":4}\nrates:-')
    assert read_offsets(path) == {"orders": '{"logOffset":4}', "rates": None}
    for damaged in ("", "v3\n{}", "17", '{"logOffset":4}'):
        path.write_text(damaged)
        with pytest.raises(RollbackError, match="cannot be read"):
            read_offsets(path)


def test_lineages_of_a_commit(tmp_path: Path) -> None:
    path = tmp_path / "0"
    path.write_text('v1\n{"nextBatchWatermarkMs":0}')
    assert read_lineages(path) == {}
    path.write_text('v2\n{"nextBatchWatermarkMs":0,"stateUniqueIds":{"0":[["a","b"],["c"]]}}')
    assert read_lineages(path) == {"0/0": ["a", "b"], "0/1": ["c"]}


@pytest.mark.parametrize(
    ("offset", "kind"),
    [
        ('{"logOffset":4}', "file"),
        ('{"orders":{"0":23,"1":-2}}', "kafka"),
        ('{"offset":30,"timestamp":1000}', "rate"),
        ("17", "unknown"),
        ('{"sourceVersion":1,"reservoirId":"a"}', "unknown"),
        ("{}", "unknown"),
        ("somewhere", "unknown"),
    ],
)
def test_the_kind_of_a_source(tmp_path: Path, offset: str, kind: str) -> None:
    assert kind_of(offset, tmp_path) == kind


def test_a_rate_source_is_known_by_its_note(tmp_path: Path) -> None:
    (tmp_path / "0").write_text("v1\n1700000000000")
    assert kind_of("17", tmp_path) == "rate"


@pytest.mark.parametrize("location", ["/a/b c", "file:/a/b%20c", "file:///a/b%20c"])
def test_locations_on_this_machine(location: str) -> None:
    assert local(location) == Path("/a/b c")


@pytest.mark.parametrize("name", ["a b", "a%20b", "a#b"])
def test_a_location_as_hadoop_writes_it(tmp_path: Path, name: str) -> None:
    (tmp_path / name).mkdir()
    assert local(f"file:{tmp_path}/{name}") == tmp_path / name
    assert local((tmp_path / name).as_uri()) == tmp_path / name


def test_a_file_that_vanishes_is_of_a_query_that_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "offsets").mkdir()
    entry = tmp_path / "offsets" / "3"
    entry.write_text("v1")
    os.utime(entry, (0, 0))
    verify_quiet(tmp_path / "offsets", 10)
    look = Path.lstat

    def late(path: Path) -> os.stat_result:
        path.unlink()  # between the list and the look
        return look(path)

    monkeypatch.setattr(Path, "lstat", late)
    with pytest.raises(RollbackError, match="seems to be running"):
        verify_quiet(tmp_path, 10)
