"""The stored attempts, which operators search. Nothing else depends on these rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
from sqlalchemy import Connection, delete, select, update
from sqlalchemy import insert as plain_insert

from app.interfaces import Attempt, AttemptFilter, EventName, HttpExchange
from app.model.message import Partition
from app.store.rows import struct_of, text, values_of
from app.store.tables import attempts as table
from app.store.transactions import StorePart, shared_transaction, transaction

LONGEST = 600  # characters of an event's id

_c = table.c
_write = msgspec.msgpack.Encoder().encode
_read = msgspec.msgpack.Decoder(HttpExchange).decode


class Attempts(StorePart):
    """The stored attempts. Implements ``interfaces.Attempts``. A repeated write stores its attempts twice."""

    @shared_transaction
    def add(
        self, connection: Connection, attempts: Sequence[Attempt], latest: Sequence[Attempt] = ()
    ) -> None:
        for success in latest:
            before = (_c.subscription == success.subscription, _c.outcome == success.outcome)
            connection.execute(delete(table).where(*before))
        rows = [_values(attempt) for attempt in (*attempts, *latest)]
        if rows:
            connection.execute(plain_insert(table), rows)

    @transaction
    def find(
        self, connection: Connection, choice: AttemptFilter, limit: int = 100
    ) -> list[Attempt]:
        query = select(table).order_by(_c.id.desc()).limit(limit)
        if choice.subscription is not None:
            query = query.where(_c.subscription == choice.subscription)
        if choice.subscriptions:
            query = query.where(_c.subscription.in_(choice.subscriptions))
        if choice.event_id is not None:
            query = query.where(_c.event_id == _indexed(choice.event_id))
        if choice.event_source is not None:
            query = query.where(_c.event_source == text(choice.event_source))
        if choice.outcome is not None:
            query = query.where(_c.outcome == choice.outcome)
        return [
            struct_of(
                Attempt,
                row,
                partition=Partition(row.topic, row.partition),
                event=EventName(row.event_id, row.event_source, row.event_type),
                exchange=None if row.exchange is None else _read(row.exchange),
            )
            for row in connection.execute(query)
        ]

    @transaction
    def trim(self, connection: Connection, *, before_ms: int, most: int) -> int:
        """Delete attempts that are too old or too many, and return their number.

        Ids are in the order of writing, so all rows below the first surplus row are surplus too."""
        old = connection.execute(delete(table).where(_c.started_ms < before_ms)).rowcount
        surplus = select(_c.id).order_by(_c.id.desc()).offset(most).limit(1)
        first = connection.scalar(surplus)
        if first is None:
            return old
        return old + connection.execute(delete(table).where(_c.id <= first)).rowcount

    @transaction
    def forget_exchanges(self, connection: Connection, *, since_ms: int, before_ms: int) -> None:
        """Delete headers and bodies of the attempts that started in this time, and keep their rows."""
        old = (_c.started_ms >= since_ms, _c.started_ms < before_ms, _c.exchange.is_not(None))
        connection.execute(update(table).where(*old).values(exchange=None))


def _indexed(event_id: str) -> str:
    """Return an event id clipped to 600 characters, because PostgreSQL indexes at most 2,700 bytes."""
    return text(event_id)[:LONGEST]


def _values(attempt: Attempt) -> dict[str, Any]:
    return values_of(
        attempt,
        table,
        topic=attempt.partition.topic,
        partition=attempt.partition.number,
        event_id=_indexed(attempt.event.id),
        event_source=text(attempt.event.source),
        event_type=text(attempt.event.type),
        detail=text(attempt.detail),
        exchange=None if attempt.exchange is None else _write(attempt.exchange),
    )
