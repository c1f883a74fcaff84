"""Tables of a history, in a temporary SQLite database, so that a history may have more lines than memory holds.

The tables have a row for each event of each line. Times are seconds, as in the history. Two tables are derived:
``event`` has one row for each event that was sent, and ``result`` one for each event and subscription that got
an attempt.
"""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterable, Iterator
from typing import Any

from proof.history import (
    BadHistory,
    Call,
    Delivery,
    Event,
    Fault,
    Left,
    Line,
    Ownership,
    Record,
    Request,
    Terms,
)

_TABLES = """
CREATE TABLE sent (
    line INTEGER, pos INTEGER, id TEXT, topic TEXT, key TEXT, hash TEXT, receipt TEXT, gateway TEXT, start REAL,
    end REAL, outcome TEXT);
CREATE TABLE arrived (
    line INTEGER, pos INTEGER, subscription TEXT, worker TEXT, id TEXT, key TEXT, hash TEXT, receipt TEXT,
    start REAL, end REAL, done INTEGER);
CREATE TABLE call (line INTEGER, verb TEXT, subscription TEXT, start REAL, end REAL, status INTEGER);
CREATE TABLE owner (
    line INTEGER, worker TEXT, subscription TEXT, partition TEXT, start REAL, end REAL);
CREATE TABLE fault (line INTEGER, name TEXT, host TEXT, start REAL, end REAL, isolates INTEGER, repeats INTEGER);
CREATE TABLE kept (line INTEGER, subscription TEXT, id TEXT, place TEXT);
CREATE TABLE subscription (name TEXT, topic TEXT);
"""

# SQLite takes the other columns of a group from the row that has its only min() or max().
_DERIVED = """
CREATE INDEX sent_by_id ON sent (id);
CREATE INDEX arrived_by_id ON arrived (subscription, id);
CREATE INDEX arrived_by_key ON arrived (subscription, key, worker, start);
CREATE INDEX kept_by_id ON kept (subscription, id);
CREATE TABLE event (
    id TEXT PRIMARY KEY, topic TEXT, key TEXT, hash TEXT, gateway TEXT, first_sent REAL, copies INTEGER,
    acked_at REAL, acked_line INTEGER, sent_line INTEGER, pos INTEGER) WITHOUT ROWID;
INSERT INTO event
    SELECT id, topic, key, hash, CASE WHEN count(DISTINCT gateway) = 1 THEN gateway END,
        min(CASE WHEN outcome <> 'refused' THEN start END), sum(outcome <> 'refused'), NULL, NULL, line, pos
    FROM sent GROUP BY id;
CREATE INDEX event_by_key ON event (key);
CREATE TABLE acknowledged AS
    SELECT id, min(end) AS end, line FROM sent WHERE outcome = 'stored' GROUP BY id;
CREATE UNIQUE INDEX acknowledged_by_id ON acknowledged (id);
UPDATE event SET (acked_at, acked_line) =
    (SELECT end, line FROM acknowledged WHERE acknowledged.id = event.id);
CREATE TABLE result (
    subscription TEXT, id TEXT, attempt REAL, attempt_line INTEGER, finished REAL,
    finished_line INTEGER, attempts INTEGER, successes INTEGER,
    PRIMARY KEY (subscription, id)) WITHOUT ROWID;
INSERT INTO result (subscription, id, attempt, attempt_line, attempts, successes)
    SELECT subscription, id, min(start), line, count(*), sum(done) FROM arrived GROUP BY subscription, id;
CREATE TABLE success AS
    SELECT subscription, id, min(end) AS end, line FROM arrived WHERE done GROUP BY subscription, id;
CREATE UNIQUE INDEX success_by_id ON success (subscription, id);
UPDATE result SET (finished, finished_line) = (
    SELECT end, line FROM success
    WHERE success.subscription = result.subscription AND success.id = result.id);
"""


class Tables:
    """The tables of one history.

    Attributes:
        database: The connection, for the queries of the verdicts.
        terms: The terms of the run.
    """

    def __init__(self, lines: Iterable[Line]) -> None:
        self.database = sqlite3.connect("")  # a temporary file, which SQLite removes
        self.database.executescript("PRAGMA journal_mode=OFF; PRAGMA synchronous=OFF;" + _TABLES)
        self._terms: Terms | None = None
        with self.database:
            for line in lines:
                self._add(line)
            for row in self.terms.subscriptions.items():
                self._insert("subscription", row)
        self.database.executescript(_DERIVED)

    def close(self) -> None:
        self.database.close()

    @property
    def terms(self) -> Terms:
        if self._terms is None:
            raise BadHistory("no line has the terms of the run")
        return self._terms

    def rows(self, query: str, *values: Any, **named: Any) -> Iterator[tuple[Any, ...]]:
        """Run a query with values by position or by name, and return its rows one at a time."""
        with contextlib.closing(self.database.execute(query, named or values)) as found:
            yield from found

    def count(self, query: str) -> int:
        """Return the first value of the first row of a query."""
        return int(self.database.execute(query).fetchone()[0] or 0)

    def _add(self, line: Line) -> None:
        record = line.record
        if isinstance(record, Terms):
            self._take(record)
            return
        for table, values in rows_of(record):
            self._insert(table, (line.number, *values))

    def _take(self, terms: Terms) -> None:
        if self._terms not in (None, terms):
            raise BadHistory("two lines have different terms")
        self._terms = terms

    def _insert(self, table: str, values: tuple[Any, ...]) -> None:
        self.database.execute(f"INSERT INTO {table} VALUES ({','.join('?' * len(values))})", values)


def rows_of(record: Record) -> Iterator[tuple[str, tuple[Any, ...]]]:
    """Return the table and the values of each row of a record, without the number of its line."""
    match record:
        case Request(gateway, start, end, status, events, topic):
            for pos, e in enumerate(events):
                times = (gateway, start, end, outcome(status, e))
                yield "sent", (pos, e.id, topic, e.key, e.hash, e.receipt, *times)
        case Delivery(subscription, worker, start, end, status, events):
            for pos, e in enumerate(events):
                event = (e.id, e.key, e.hash, e.receipt)
                yield (
                    "arrived",
                    (pos, subscription, worker, *event, start, end, succeeded(status)),
                )
        case Call(verb, subscription, start, end, status):
            yield "call", (verb, subscription, start, end, status)
        case Ownership(worker, subscription, partition, start, end):
            yield "owner", (worker, subscription, partition, start, end)
        case Fault(name, host, start, end, isolates, repeats):
            yield "fault", (name, host, start, end, isolates, repeats)
        case Left(subscription, id, place):
            yield "kept", (subscription, id, place)


def outcome(status: int | None, event: Event) -> str:
    """Return what the answer promises about an event: ``stored``, ``refused``, or ``unknown``.

    An event that the answer states as not stored is not stored later either.
    """
    if event.stored is not None:
        return "stored" if event.stored else "refused"
    if status in {200, 202}:
        return "stored"
    return "refused" if status is not None and 400 <= status < 500 else "unknown"


def succeeded(status: int | None) -> bool:
    """Return whether the answer finishes the events of a delivery."""
    return status is not None and 200 <= status < 300
