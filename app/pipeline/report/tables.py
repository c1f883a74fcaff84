"""A small table: the result of a measure, which the page shows and a CSV file holds."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, TypeAlias

import msgspec

Cell: TypeAlias = str | int | float | bool | datetime | None


class Table(msgspec.Struct, frozen=True):
    """Rows in the order of ``columns``. Delays are in seconds, sizes in bytes, times in UTC."""

    columns: tuple[str, ...]
    rows: Sequence[tuple[Cell, ...]] = ()

    def dicts(self) -> list[dict[str, Any]]:
        return [dict(zip(self.columns, row, strict=True)) for row in self.rows]

    def column(self, name: str) -> list[Any]:
        at = self.columns.index(name)
        return [row[at] for row in self.rows]


def of(columns: str, rows: Iterable[Sequence[Cell]] = ()) -> Table:
    """Build a table from column names separated by blanks: ``of("type events", [("a", 1)])``."""
    return Table(tuple(columns.split()), [tuple(row) for row in rows])


def write(folder: Path, tables: Mapping[str, Table]) -> None:
    """Write each table as a CSV file with a header line. A None is written as an empty cell, and
    times are in ISO 8601.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for name, table in tables.items():
        with (folder / f"{name}.csv").open("w", encoding="utf-8", newline="") as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow(table.columns)
            writer.writerows(map(_texts, table.rows))


def read(file: Path) -> list[dict[str, str]]:
    """Read a file that ``write`` has written."""
    with file.open(encoding="utf-8", newline="") as lines:
        return list(csv.DictReader(lines))


def _texts(row: Iterable[Cell]) -> list[Cell]:
    return [cell.isoformat() if isinstance(cell, datetime) else cell for cell in row]
