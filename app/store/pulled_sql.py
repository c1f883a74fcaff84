# ruff: noqa: S608 - made of the names of columns and of marks, once
"""The statements of ``pulled`` as text, one of each for a whole batch: SQLAlchemy would build the parameters of every
row again, which cost more than the database itself.

Both databases have the same statements. They differ in the mark of a parameter, in how a list is one parameter
(SQLite reads it from JSON), and in the locks of rows, which SQLite has no need of: it has one writer.
"""

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
"""Columns of a row that is handed out, in their order."""

OFFERED = ("subscription", "broker", "lane", "at_ms", *WRITTEN)
"""Columns that an offered row fills; nobody has it, and nobody had it."""

_NOBODY = "0, '', 0"
_OLDER = (
    "SELECT 1 FROM pulled AS older"
    " WHERE older.subscription = pulled.subscription AND older.lane = pulled.lane AND older.id < pulled.id"
)
_SIZE = "coalesce(length(body), 0) + length(headers)"


class Statements:
    """Of one database: as text, with its parameters.

    ``insert``    rows of ``OFFERED``, as ``offered`` makes them a parameter.
    ``free``      subscription, now, most: id and bytes of the oldest of each lane, where it is free.
    ``worn``      subscription, now, deliveries: ids of what is free and was handed out so often.
    ``hand_out``  secret, until, deliveries to add, consumer, ids: the rows. The token of each is the secret and its id.
    ``held``      tokens, now: token, id and subscription of those that hold.
    ``found``     subscription, broker, topic, partition, position. ``named``: id of an event, and how many of the
                  newest rows are walked.
    ``rows``      ids. ``remove``: likewise.
    ``release``   until, ids. ``renew``: likewise.
    ``count``     subscription.
    """

    def __init__(self, mark: str, among: str, lock: str) -> None:
        """``mark``: of a parameter. ``among``: a list of a kind as one. ``lock``: of rows that are read."""
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

    def offered(self, rows: Sequence[Values]) -> Any:
        raise NotImplementedError

    def listed(self, values: Collection[Any]) -> Any:
        """As one parameter."""
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
        return f"VALUES ({', '.join([mark] * len(OFFERED))}, {_NOBODY})"


class _PostgreSQL(Statements):
    """A column of all rows is one parameter, and in binary: a third of what rows cost one by one."""

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
            f"SELECT {names}, {_NOBODY} FROM unnest({columns})"
            f" WITH ORDINALITY AS offered ({names}, place) ORDER BY place"
        )


def _names(columns: Sequence[str]) -> str:
    return ", ".join(f'"{name}"' for name in columns)


def statements(connection: Connection) -> Statements:
    return _statements(connection.dialect.name)


@cache
def _statements(database: str) -> Statements:
    return _PostgreSQL() if database == "postgresql" else _Sqlite()
