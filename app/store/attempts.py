"""What was tried: the wide lines that an operator asks for. Nothing hangs on a row of these."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
from sqlalchemy import Connection, delete, select
from sqlalchemy import insert as plain_insert

from app.interfaces import Attempt, AttemptChoice, Exchange
from app.model.message import Partition
from app.store.rows import struct_of, text, values_of
from app.store.tables import attempts
from app.store.transactions import Transactions

LONGEST = 600  # characters of an event's id

_c = attempts.c
_write = msgspec.msgpack.Encoder().encode
_read = msgspec.msgpack.Decoder(Exchange).decode


class Attempts:
    """Fills ``interfaces.Attempts``. A write that is repeated shows its attempts twice."""

    def __init__(self, transactions: Transactions) -> None:
        self._transactions = transactions

    async def add(self, attempts: Sequence[Attempt], latest: Sequence[Attempt] = ()) -> None:
        await self._transactions.together(_add, attempts, latest)

    async def find(self, choice: AttemptChoice, limit: int = 100) -> list[Attempt]:
        query = select(attempts).order_by(_c.id.desc()).limit(limit)
        if choice.subscription is not None:
            query = query.where(_c.subscription == choice.subscription)
        if choice.event_id is not None:
            query = query.where(_c.event_id == _indexed(choice.event_id))
        if choice.event_source is not None:
            query = query.where(_c.event_source == text(choice.event_source))
        if choice.outcome is not None:
            query = query.where(_c.outcome == choice.outcome)
        return await self._transactions.run(_find, query)

    async def trim(self, *, before_ms: int, most: int) -> int:
        return await self._transactions.run(_trim, before_ms, most)


def _add(connection: Connection, some: Sequence[Attempt], latest: Sequence[Attempt]) -> None:
    for success in latest:
        before = (_c.subscription == success.subscription, _c.outcome == success.outcome)
        connection.execute(delete(attempts).where(*before))
    rows = [_values(attempt) for attempt in (*some, *latest)]
    if rows:
        connection.execute(plain_insert(attempts), rows)


def _find(connection: Connection, query: Any) -> list[Attempt]:
    return [
        struct_of(
            Attempt,
            row,
            partition=Partition(row.topic, row.partition),
            exchange=None if row.exchange is None else _read(row.exchange),
        )
        for row in connection.execute(query)
    ]


def _trim(connection: Connection, before_ms: int, most: int) -> int:
    """``id`` is in order of writing: what is below the first row too many is too many as well."""
    old = connection.execute(delete(attempts).where(_c.started_ms < before_ms)).rowcount
    surplus = select(_c.id).order_by(_c.id.desc()).offset(most).limit(1)
    first = connection.scalar(surplus)
    if first is None:
        return old
    return old + connection.execute(delete(attempts).where(_c.id <= first)).rowcount


def _indexed(event_id: str) -> str:
    """PostgreSQL has no index over more than 2,700 bytes."""
    return text(event_id)[:LONGEST]


def _values(attempt: Attempt) -> dict[str, Any]:
    return values_of(
        attempt,
        attempts,
        topic=attempt.partition.topic,
        partition=attempt.partition.number,
        event_id=_indexed(attempt.event_id),
        event_source=text(attempt.event_source),
        event_type=text(attempt.event_type),
        detail=text(attempt.detail),
        exchange=None if attempt.exchange is None else _write(attempt.exchange),
    )
