"""Dead letters as rows and back, byte for byte. Plain functions on a connection."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
from sqlalchemy import Connection, Row, func, select
from sqlalchemy.dialects.sqlite import insert

from app.bindings.record import Header, Record
from app.interfaces import DeadLetter
from app.model.message import Message, Partition
from app.store.tables import dead_letters

_encode_headers = msgspec.msgpack.Encoder().encode
_decode_headers = msgspec.msgpack.Decoder(tuple[Header, ...]).decode


def add(connection: Connection, letter: DeadLetter) -> None:
    """A second write of the same message changes nothing (rule 5)."""
    connection.execute(insert(dead_letters).values(_row(letter)).on_conflict_do_nothing())


def newest(connection: Connection, subscription: str | None, limit: int) -> list[DeadLetter]:
    query = select(dead_letters).order_by(dead_letters.c.id.desc()).limit(limit)
    if subscription is not None:
        query = query.where(dead_letters.c.subscription == subscription)
    return [_letter(row) for row in connection.execute(query)]


def counts(connection: Connection) -> Mapping[tuple[str, str], int]:
    columns = (dead_letters.c.subscription, dead_letters.c.cause)
    rows = connection.execute(select(*columns, func.count()).group_by(*columns))
    return {(subscription, cause): count for subscription, cause, count in rows}


def _row(letter: DeadLetter) -> dict[str, Any]:
    message, record = letter.message, letter.message.record
    return {
        "subscription": letter.subscription,
        "broker": letter.broker,
        "topic": message.partition.topic,
        "partition": message.partition.number,
        "position": message.position,
        "offset": message.offset,
        "epoch": message.epoch,
        "time_ms": message.time_ms,
        "key": record.key,
        "headers": _encode_headers(record.headers),
        "body": record.body,
        "content_type": record.content_type,
        "cause": letter.cause,
        "detail": letter.detail.encode("utf-8", "replace").decode(),  # it comes from outside
        "attempts": letter.attempts,
        "status": letter.status,
        "at_ms": letter.at_ms,
    }


def _letter(row: Row[Any]) -> DeadLetter:
    record = Record(row.key, _decode_headers(row.headers), row.body, row.content_type)
    message = Message(
        record,
        Partition(row.topic, row.partition),
        row.position,
        row.offset,
        row.time_ms,
        row.epoch,
    )
    return DeadLetter(
        subscription=row.subscription,
        broker=row.broker,
        message=message,
        cause=row.cause,
        detail=row.detail,
        attempts=row.attempts,
        status=row.status,
        at_ms=row.at_ms,
    )
