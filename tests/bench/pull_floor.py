"""The floors of a pull queue, in batches, a durable transaction each step.

``rows``   rows inserted and deleted, and nothing else.
``queue``  inserted; the oldest read and locked, a token each; deleted by their tokens.

The same key, headers and body as the service keeps. Prints one line of JSON: for each kind the microseconds of the
process's own CPU an event.
"""

from __future__ import annotations

import argparse
import json
import secrets
import sqlite3
from collections.abc import Sequence
from time import process_time
from typing import Any

import bench_events
import psycopg

Row = tuple[bytes, bytes, bytes]


def row(number: int) -> Row:
    said = bench_events.attributes(number)
    return said["partitionkey"].encode(), json.dumps(said).encode(), bench_events.body(number)


class Floor:
    """``mark`` is where the driver puts a parameter; ``key`` declares the table's own."""

    def __init__(self, connection: Any, mark: str, key: str) -> None:
        self._connection, self._at, self._mark = connection, connection.cursor(), mark
        columns = f"id {key}, key bytea, headers bytea, body bytea, token text"
        self._at.execute(f"CREATE TABLE floor ({columns})")
        self._at.execute("CREATE INDEX floor_token ON floor (token)")
        self._insert = self._sql("INSERT INTO floor (key, headers, body) VALUES (?, ?, ?)")
        self._read = self._sql("SELECT * FROM floor WHERE token IS NULL ORDER BY id LIMIT ?")
        self._lock = self._sql("UPDATE floor SET token = ? WHERE id = ?")
        self._acknowledge = self._sql("DELETE FROM floor WHERE token = ?")
        oldest = "SELECT id FROM floor ORDER BY id LIMIT ?"
        self._delete = self._sql(f"DELETE FROM floor WHERE id IN ({oldest})")
        connection.commit()

    def _sql(self, text: str) -> str:
        return text.replace("?", self._mark)

    def rows(self, rows: Sequence[Row]) -> None:
        self._at.executemany(self._insert, rows)
        self._connection.commit()
        self._at.execute(self._delete, (len(rows),))
        self._connection.commit()

    def queue(self, rows: Sequence[Row]) -> None:
        self._at.executemany(self._insert, rows)
        self._connection.commit()
        found = self._at.execute(self._read, (len(rows),)).fetchall()
        locked = [(secrets.token_urlsafe(18), each[0]) for each in found]
        self._at.executemany(self._lock, locked)
        self._connection.commit()
        self._at.executemany(self._acknowledge, [(token,) for token, _ in locked])
        self._connection.commit()


def measure(floor: Floor, kind: str, events: int, batch: int) -> float:
    """Microseconds an event; the first batch does not count."""
    step, rows = getattr(floor, kind), [row(number) for number in range(batch)]
    step(rows)
    before = process_time()
    for _ in range(events // batch):
        step(rows)
    return 1e6 * (process_time() - before) / (events // batch * batch)


def in_file(path: str) -> Floor:
    """As durable as the store: a rollback journal that is synced, its folder too."""
    file = sqlite3.connect(path)
    for pragma in ("journal_mode=DELETE", "synchronous=EXTRA"):
        file.execute(f"PRAGMA {pragma}")
    return Floor(file, "?", "INTEGER PRIMARY KEY")


def in_postgresql(dsn: str) -> Floor:
    return Floor(psycopg.connect(dsn), "%s", "bigserial PRIMARY KEY")


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
