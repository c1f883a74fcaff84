"""Which small files a running archive merges, and when: no Spark."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from app.pipeline import history
from app.pipeline.archive import small_files
from app.pipeline.archive.rewrite import StoredFile
from app.pipeline.archive.small_files import CLOSED, MERGED, SMALL, SmallFiles
from app.pipeline.archive.table_state import TableState, table_state

KB = 1 << 10


def stored(name: str, size: int = 10 * KB, day: str = "1") -> StoredFile:
    partition = SimpleNamespace(toString=lambda: day)
    return StoredFile(size, name, SimpleNamespace(partition=lambda: partition))


def names(groups: list[list[Any]]) -> list[list[str]]:
    return [[each.stored.path for each in group] for group in groups]


def test_ten_files_of_a_partition_are_merged_once() -> None:
    small = SmallFiles()
    for n in range(MERGED - 1):
        small.add([stored(f"a{n}"), stored(f"b{n}", day="2")], n, 0.0)
    assert small.take(1.0) == []
    small.add([stored("a9"), stored("large", SMALL)], 9, 0.0)
    [group] = small.take(1.0)
    assert [each.stored.path for each in group] == [f"a{n}" for n in range(MERGED)]
    assert min(group, key=lambda each: each.turn).since == 0
    assert small.take(1.0) == []


def test_a_record_is_written_again_once_for_each_power_of_ten() -> None:
    """Merged files wait for others of their size."""
    small, written = SmallFiles(), 0
    for n in range(999):
        small.add([stored(f"{n}")], n, 0.0)
        while groups := small.take(0.0):
            for group in groups:
                size = sum(each.stored.size for each in group)
                written += size
                small.add([stored(f"m{n}-{size}", size)], n, 0.0)
    assert written <= 4 * 1_000 * 10 * KB
    left = small.take(CLOSED)
    assert len(left[0]) <= 3 * MERGED


def test_a_partition_without_new_files_is_closed() -> None:
    """All of its files become one, of any size; a single one stays as it is."""
    small = SmallFiles()
    small.add([stored("a", 5), stored("b", SMALL - 1), stored("only", day="2")], None, 100.0)
    assert small.take(100.0 + CLOSED - 1) == []
    assert names(small.take(100.0 + CLOSED)) == [["a", "b"]]
    small.add([stored("c")], 7, 200.0)
    assert small.take(200.0 + CLOSED) == [], "the closed ones are forgotten"


def test_a_merge_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(small_files, "TOGETHER", 25 * 10 * KB)
    small = SmallFiles()
    for day in "12345":
        small.add([stored(f"{day}-{n}", day=day) for n in range(MERGED)], 0, 0.0)
    assert [len(small.take(0.0)) for _ in range(4)] == [2, 2, 1, 0]
    monkeypatch.setattr(small_files, "MOST", 3)
    small.add([stored(str(n), day=str(n)) for n in range(4)], 0, 0.0)
    assert small.take(CLOSED) == []


class Table:
    """A table of Iceberg's Java, whose snapshots are given from the oldest on."""

    def __init__(self, *made: tuple[int, str, dict[str, str]], gone: int | None = None) -> None:
        ids = [gone, *(each[0] for each in made)]
        self.found = {
            n: SimpleNamespace(
                snapshotId=lambda n=n: n,
                parentId=lambda p=parent: p,
                timestampMillis=lambda: 0,
                operation=lambda of=operation: of,
                summary=lambda of=summary: of,
            )
            for parent, (n, operation, summary) in zip(ids, made, strict=False)
        }

    def currentSnapshot(self) -> Any:  # noqa: N802 - Iceberg's name
        return next(reversed(self.found.values()), None)

    def snapshot(self, number: int) -> Any:
        return self.found.get(number)

    def snapshots(self) -> list[Any]:
        return list(self.found.values())


def told(rows: int) -> dict[str, str]:
    return {"added-records": str(rows), "total-data-files": "3", "total-files-size": "99"}


def test_the_state_of_a_table_counts_rows_that_were_added_since() -> None:
    assert table_state(Table(), None) == TableState()
    before = table_state(Table((1, "append", told(5))), None)
    assert before == TableState(newest=1, added=0, files=3, octets=99, snapshots=1)
    table = Table(
        (1, "append", told(5)), (2, "append", told(7)), (3, "replace", told(12)),
        (4, "append", told(1)),
    )  # fmt: skip
    after = table_state(table, before)
    assert (after.added, after.snapshots, after.newest) == (8, 4, 4)
    assert table_state(table, after).added == 0
    assert table_state(table, TableState()).added == 13, "the table was empty"


def test_a_compaction_is_no_change_of_rows() -> None:
    """The hashes that the archive remembers of ``events`` stay, whoever compacts."""
    table = Table((1, "append", {}), (2, "replace", {}), (3, "append", {}), (4, "replace", {}))
    found = [(each.id, each.parent) for each in history.changes_of(table)]
    assert found == [(3, 1), (1, None)]


def test_rows_whose_changes_have_expired_are_not_taken_for_an_empty_table() -> None:
    """Else all events would be new."""
    found = [each.id for each in history.changes_of(Table((8, "replace", {}), gone=7))]
    assert found == [8]
    assert list(history.changes_of(Table())) == []
