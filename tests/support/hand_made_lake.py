"""A lake whose records are stored by hand, and derived as the archive derives them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import pytest

from app.bindings.record import Record
from app.pipeline import tables
from app.pipeline.archive import typed_tables
from app.pipeline.archive.derive import Derived, derive
from app.pipeline.archive.job import ignore
from app.pipeline.archive.known import IdentityCache
from app.pipeline.archive.ranges import DeriveRange, pending, split_by_records
from app.pipeline.kinds import TypedTable
from app.pipeline.settings import Lake
from lake_folders import lake_in, read_table, session_of
from replay_records import Row, fill

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class Killed(BaseException):
    pass


class HandMadeLake:
    """A lake whose ``events_raw`` is filled by hand, partition 0 of one topic."""

    def __init__(self, folder: Path, typed: Sequence[TypedTable] = (), buckets: int = 2) -> None:
        self.folder = folder
        self.lake: Lake = msgspec.structs.replace(lake_in(folder), buckets=buckets)
        self.session: SparkSession = session_of(self.lake)
        tables.make(self.session, self.lake)
        self.has(*typed)
        self.next = 0
        self.known = IdentityCache()

    def has(self, *typed: TypedTable) -> None:
        """Configure the typed tables, and make them as the archive does when it starts."""
        self.lake = msgspec.structs.replace(self.lake, tables=typed)
        typed_tables.make(self.session, self.lake)

    def stored(self, *records: tuple[float, Record]) -> None:
        """One file more: moments after the begin, and records."""
        rows = [Row("t", 0, self.next + n, at, each) for n, (at, each) in enumerate(records)]
        self.next += len(rows)
        fill(self.session, self.lake, rows)

    def derived(self, most: int = 1_000) -> Derived:
        """Derive all that is pending, as the archive does it."""
        found = Derived()
        for piece in self.pieces(most):
            found += derive(self.session, self.lake, piece, ignore, self.known)
        return found

    def pieces(self, most: int = 1_000) -> Iterator[DeriveRange]:
        whole = pending(self.session, self.lake)
        for each in (*whole.older, whole):
            yield from split_by_records(self.session, self.lake, each, most)

    def left_half_way(self, at: str = "events committed") -> None:
        """Derive one range, killed at a moment."""

        def die(moment: str) -> None:
            if moment == at:
                raise Killed

        with pytest.raises(Killed):
            derive(self.session, self.lake, next(self.pieces()), die, self.known)

    def events(self) -> dict[tuple[str, str], int]:
        """The offset of each, by source and id: none is there twice."""
        rows = read_table(self.folder, "events", ("source", "id", "offset")).to_pylist()
        found = {(row["source"], row["id"]): row["offset"] for row in rows}
        assert len(found) == len(rows)
        return found

    def quarantined(self) -> list[int]:
        rows = read_table(self.folder, "quarantine", ("offset",))
        return sorted(rows["offset"].to_pylist())

    def commits(self, table: str) -> int:
        """Return the number of commits of a table, also of those that only change its columns."""
        name = self.lake.table(table)
        return self.session.sql(f"SELECT file FROM {name}.metadata_log_entries").count()
