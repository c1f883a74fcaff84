"""The floors of a pull queue, in batches, a durable transaction each step.

``rows``   rows inserted and deleted, and nothing else.
``queue``  inserted; the oldest read and locked, a token each; deleted.

The rows and the table, with its indexes, are those of the service; the driver is its own, without SQLAlchemy. Prints
one line of JSON: for each kind the microseconds of the process's own CPU an event.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import secrets
import sqlite3
from collections.abc import Sequence
from pathlib import Path
from time import process_time
from typing import Any

import bench_events
import psycopg

from app.bindings.record import Record
from app.interfaces import EventName, PullMessage
from app.model.message import Message, Partition
from app.store import open_shared_store, open_store
from app.store.pulled_sql import OFFERED
from app.store.rows import message_columns

NOW = 1_795_000_000_000
Row = tuple[Any, ...]


def row(number: int) -> Row:
    """Without its position, which comes last: no two rows have the same."""
    said = bench_events.attributes(number)
    key = said["partitionkey"].encode()
    headers = [(f"ce_{name}", value.encode()) for name, value in said.items()]
    record = Record(
        key, (*headers, ("content-type", b"application/json")), bench_events.body(number)
    )
    offered = PullMessage(
        subscription="bench",
        broker="target",
        message=Message(record, Partition("bench", number % 8), "", number, NOW, 1),
        lane=key,
        at_ms=NOW,
        event=EventName(said["id"], said["source"], said["type"]),
    )
    values = ("bench", "target", key, NOW, *message_columns(offered))
    return tuple(value for name, value in zip(OFFERED, values, strict=True) if name != "position")


class Floor:
    """``mark`` is where the driver puts a parameter."""

    def __init__(self, connection: Any, mark: str) -> None:
        self._connection, self._at = connection, connection.cursor()
        self._count = 0
        names = ", ".join(f'"{name}"' for name in OFFERED if name != "position")
        marks = ", ".join([mark] * len(OFFERED))
        self._insert = (
            f"INSERT INTO pulled ({names}, position, deliveries, token, locked_until_ms)"
            f" VALUES ({marks}, 0, '', 0)"
        )
        oldest = f"FROM pulled ORDER BY id LIMIT {mark}"
        self._read = f"SELECT * {oldest}"
        self._lock = (
            f"UPDATE pulled SET token = {mark}, locked_until_ms = {mark}, deliveries = 1"
            f" WHERE id = {mark}"
        )
        self._delete = f"DELETE FROM pulled WHERE id IN (SELECT id {oldest})"

    def rows(self, rows: Sequence[Row]) -> None:
        self._add(rows)
        self._at.execute(self._delete, (len(rows),))
        self._connection.commit()

    def queue(self, rows: Sequence[Row]) -> None:
        self._add(rows)
        found = self._at.execute(self._read, (len(rows),)).fetchall()
        locks = [(secrets.token_urlsafe(18), NOW, each[0]) for each in found]
        self._at.executemany(self._lock, locks)
        self._connection.commit()
        self._at.execute(self._delete, (len(rows),))
        self._connection.commit()

    def _add(self, rows: Sequence[Row]) -> None:
        first, self._count = self._count, self._count + len(rows)
        values = [(*each, str(first + number)) for number, each in enumerate(rows)]
        self._at.executemany(self._insert, values)
        self._connection.commit()


def measure(floor: Floor, kind: str, events: int, batch: int) -> float:
    """Microseconds an event; the first batch does not count."""
    step, rows = getattr(floor, kind), [row(number) for number in range(batch)]
    step(rows)
    before = process_time()
    for _ in range(events // batch):
        step(rows)
    return 1e6 * (process_time() - before) / (events // batch * batch)


async def make(store: Any) -> None:
    """The tables of the service."""
    await store.start()
    await store.stop()


def in_file(path: str) -> Floor:
    """As durable as the store: a rollback journal that is synced, its folder too."""
    asyncio.run(make(open_store(Path(path))))
    file = sqlite3.connect(path)
    for pragma in ("journal_mode=DELETE", "synchronous=EXTRA"):
        file.execute(f"PRAGMA {pragma}")
    return Floor(file, "?")


def in_postgresql(dsn: str) -> Floor:
    asyncio.run(make(open_shared_store(dsn)))
    return Floor(psycopg.connect(dsn), "%s")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--at", required=True, help="a file of SQLite, or a DSN of PostgreSQL")
    parser.add_argument("--events", type=int, required=True)
    parser.add_argument("--batch", type=int, required=True)
    given = parser.parse_args()
    floor = in_postgresql(given.at) if "://" in given.at else in_file(given.at)
    kinds = ("rows", "queue")
    costs = {kind: measure(floor, kind, given.events, given.batch) for kind in kinds}
    print(json.dumps(costs))


if __name__ == "__main__":
    main()
