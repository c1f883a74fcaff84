"""A small table: what a measure gives, what the page shows, and what lies behind it as a file."""

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
    """``columns`` with blanks between: ``of("type events", [("a", 1)])``."""
    return Table(tuple(columns.split()), [tuple(row) for row in rows])


def write(folder: Path, tables: Mapping[str, Table]) -> None:
    """One CSV file a table, with a line of names; nothing for none, times in ISO 8601."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, table in tables.items():
        with (folder / f"{name}.csv").open("w", encoding="utf-8", newline="") as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow(table.columns)
            writer.writerows(map(_texts, table.rows))


def read(file: Path) -> list[dict[str, str]]:
    """Of a file that ``write`` made."""
    with file.open(encoding="utf-8", newline="") as lines:
        return list(csv.DictReader(lines))


def _texts(row: Iterable[Cell]) -> list[Cell]:
    return [cell.isoformat() if isinstance(cell, datetime) else cell for cell in row]
