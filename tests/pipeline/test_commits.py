"""A snapshot that states the progress of a table, while other processes commit to the same table."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from app.pipeline.archive import commit, progress
from lake_folders import lake_in, session_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.usefixtures("spark")


def at(offset: int) -> progress.Progress:
    return {"main": {"orders": {0: offset}}}


class House:
    """A table, and another process that commits to it after a commit has read its progress."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        lake = lake_in(folder)
        self.session: SparkSession = session_of(lake)
        self.table, self._patch = lake.table("orders"), monkeypatch
        self.session.sql(f"CREATE NAMESPACE lake.{lake.namespace}")
        self.session.sql(f"CREATE TABLE {self.table} (n INT) USING iceberg")

    def append(self, end: int, start: int = 10) -> None:
        commit.append(self.session, self.table, [], at(end), start=at(start))

    def meanwhile(self, other: Callable[[], object]) -> None:
        plain = commit._Statement.set

        def stating(*given: Any) -> None:
            plain(*given)
            self._patch.setattr(commit._Statement, "set", plain)
            other()

        self._patch.setattr(commit._Statement, "set", stating)

    @property
    def reached(self) -> progress.Progress | None:
        return progress.stored(self.session, self.table)


@pytest.fixture
def house(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> House:
    return House(tmp_path, monkeypatch)


def test_a_snapshot_without_files_does_not_state_less_than_the_one_before(house: House) -> None:
    """MUST (ADR 0063): a process that was suspended before its commit does not set the archive back."""
    house.append(10)
    house.meanwhile(lambda: house.append(50))
    with pytest.raises(commit.Overtaken):
        house.append(20)
    assert house.reached == at(50)


def test_the_commit_of_another_program_does_not_stop_it(house: House) -> None:
    """A compaction, or rows that a user adds, are no progress."""
    house.append(10)
    house.meanwhile(lambda: house.session.sql(f"INSERT INTO {house.table} VALUES (1)"))
    house.append(20)
    assert house.reached == at(20)
    assert house.session.table(house.table).count() == 1


def test_a_commit_of_records_that_the_progress_does_not_count_is_refused_too(house: House) -> None:
    """A redrive repeats the progress that it found when it began."""
    house.append(20)
    with pytest.raises(commit.Overtaken):
        commit.append(house.session, house.table, [], at(15))
