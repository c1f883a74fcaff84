# ruff: noqa: S608 - made of the names of columns and of marks, once
"""The SQL statements of ``pulled`` as text, each for a whole batch.

SQLAlchemy would build the parameters of every row again, which costs more than the database itself. Both databases
have the same statements, with different parameter marks. SQLite reads lists from JSON, and needs no row locks
because it has one writer."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import cache
from typing import Any

import msgspec
from sqlalchemy import Connection

from app.store.rows import EVENT, PLACE, RECORD, WRITTEN
from app.store.tables import pulled

Values = Sequence[Any]

_LOCK = ("id", "subscription", "broker", "lane", "deliveries", "token", "locked_until_ms", "at_ms")
ROW = (*_LOCK, *PLACE, *RECORD, *EVENT, "consumer")
"""The columns of a received message, in their order."""

OFFERED = ("subscription", "broker", "lane", "at_ms", *WRITTEN)
"""The columns that an offered message fills. The other columns describe its lock and deliveries."""

_UNLOCKED = "0, '', 0"
_OLDER = (
    "SELECT 1 FROM pulled AS older"
    " WHERE older.subscription = pulled.subscription AND older.lane = pulled.lane AND older.id < pulled.id"
)
_SIZE = "coalesce(length(body), 0) + length(headers)"


class Statements:
    """The statements for one database, with these parameters.

    =============  ======================================================================
    insert         rows of ``OFFERED``, as ``offered`` converts them
    free           subscription, now, number: id and bytes of the oldest free messages
                   of each lane
    worn           subscription, now, deliveries: ids of free messages with as many
    hand_out       secret, lock end, deliveries to add, consumer, ids: the locked rows,
                   each with the secret and its id as its token
    held           tokens, now: token, id and subscription of valid tokens
    found          subscription, broker, topic, partition, position
    named          event id, number of the newest rows to search
    rows, remove   ids
    release        next time, ids
    renew          lock end, ids
    count          subscription
    count_all      nothing: subscription, number of messages, time of the oldest
    =============  ======================================================================
    """

    def __init__(self, mark: str, among: str, lock: str) -> None:
        """Build the statements.

        Args:
            mark: the mark of a parameter.
            among: the condition for a list of a type, passed as one parameter.
            lock: the clause that locks the rows that are read.
        """
        passing_by = f"{lock} SKIP LOCKED" if lock else ""
        row, these = _names(ROW), f"WHERE id {among.format('bigint')}"
        free = f"FROM pulled WHERE subscription = {mark} AND locked_until_ms <= {mark}"
        self.insert = (
            f"INSERT INTO pulled ({_names(OFFERED)}, deliveries, token, locked_until_ms)"
            f" {self._rows(mark)} ON CONFLICT DO NOTHING"
        )
        self.free = (
            f"SELECT id, {_SIZE} {free} AND NOT EXISTS ({_OLDER})"
            f" ORDER BY id LIMIT {mark} {passing_by}"
        )
        self.worn = f"SELECT id {free} AND deliveries >= {mark} ORDER BY id {passing_by}"
        self.hand_out = (
            f"UPDATE pulled SET token = CAST({mark} AS text) || id, locked_until_ms = {mark},"
            f" deliveries = deliveries + {mark}, consumer = {mark} {these} RETURNING {row}"
        )
        self.held = (
            f"SELECT token, id, subscription FROM pulled WHERE token {among.format('text')}"
            f" AND locked_until_ms > {mark} ORDER BY id {lock}"
        )
        self.rows = f"SELECT {row} FROM pulled {these} ORDER BY id"
        self.found = (
            f"SELECT {row} FROM pulled WHERE subscription = {mark} AND broker = {mark} AND topic = {mark}"
            f" AND partition = {mark} AND position = {mark}"
        )
        self.named = (
            f"SELECT {row} FROM pulled WHERE event_id = {mark}"
            f" AND id > (SELECT coalesce(max(id), 0) FROM pulled) - {mark} ORDER BY id LIMIT 100"
        )
        self.remove = f"DELETE FROM pulled {these}"
        self.release = f"UPDATE pulled SET locked_until_ms = {mark}, token = '' {these}"
        self.renew = f"UPDATE pulled SET locked_until_ms = {mark} {these}"
        self.count = f"SELECT count(*) FROM pulled WHERE subscription = {mark}"
        self.count_all = (  # counts in an index: the rows of a queue may have a MiB each
            "SELECT oldest.subscription, waiting, at_ms FROM (SELECT count(*) AS waiting, min(id) AS id"
            " FROM pulled GROUP BY subscription) AS queue JOIN pulled AS oldest ON oldest.id = queue.id"
        )

    def offered(self, rows: Sequence[Values]) -> Any:
        """Return the rows of ``OFFERED`` as parameters of ``insert``."""
        raise NotImplementedError

    def listed(self, values: Collection[Any]) -> Any:
        """Return a list as one parameter."""
        raise NotImplementedError

    def _rows(self, mark: str) -> str:
        raise NotImplementedError


class _Sqlite(Statements):
    def __init__(self) -> None:
        super().__init__("?", "IN (SELECT value FROM json_each(?))", "")

    def offered(self, rows: Sequence[Values]) -> Any:
        return rows

    def listed(self, values: Collection[Any]) -> Any:
        return msgspec.json.encode(values).decode()

    def _rows(self, mark: str) -> str:
        return f"VALUES ({', '.join([mark] * len(OFFERED))}, {_UNLOCKED})"


class _PostgreSQL(Statements):
    """The statements for PostgreSQL. Each column of all rows is one binary parameter. That costs a third of what
    separate rows would cost."""

    def __init__(self) -> None:
        from sqlalchemy.dialects import postgresql  # noqa: PLC0415 - 2 MB, which SQLite does not need

        dialect = postgresql.dialect()  # type: ignore[no-untyped-call]
        self._kinds = {name: pulled.c[name].type.compile(dialect) for name in OFFERED}
        super().__init__("%s", "= ANY(%b::{}[])", "FOR UPDATE")

    def offered(self, rows: Sequence[Values]) -> Any:
        return tuple(map(list, zip(*rows, strict=True)))

    def listed(self, values: Collection[Any]) -> Any:
        return list(values)

    def _rows(self, mark: str) -> str:  # noqa: ARG002 - in binary
        columns = ", ".join(f"%b::{kind}[]" for kind in self._kinds.values())
        names = _names(OFFERED)
        return (
            f"SELECT {names}, {_UNLOCKED} FROM unnest({columns})"
            f" WITH ORDINALITY AS offered ({names}, place) ORDER BY place"
        )


def _names(columns: Sequence[str]) -> str:
    return ", ".join(f'"{name}"' for name in columns)


def statements(connection: Connection) -> Statements:
    """Return the statements for the connection's database."""
    return _statements(connection.dialect.name)


@cache
def _statements(database: str) -> Statements:
    return _PostgreSQL() if database == "postgresql" else _Sqlite()
