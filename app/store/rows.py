"""Convert structs to columns and back, messages byte for byte, and build an INSERT for both databases.

A column and a field with the same meaning have the same name."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from decimal import Decimal
from typing import Any, TypeVar

import msgspec
from msgspec.msgpack import Ext
from msgspec.structs import replace
from sqlalchemy import ColumnElement, Connection, Row, Table, and_, select, update
from sqlalchemy.dialects import sqlite

from app.bindings.record import NO_NATIVES, Header, Record
from app.interfaces import DeadLetter, EventName, Parked, PullMessage
from app.model.message import Message, Partition
from app.store.tables import ONCE

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(tuple[Header, ...]).decode
_decode_any = msgspec.msgpack.Decoder(list[tuple[Any, bytes | None]]).decode
_DECIMAL, _BINARY = 1, 2  # values that MessagePack has no type for
_TYPES: Mapping[int, Callable[[memoryview], Any]] = {
    _DECIMAL: lambda data: Decimal(str(data, "ascii")),
    _BINARY: bytearray,
}


class _Properties(msgspec.Struct, array_like=True):
    """The message id, time and typed headers that only some brokers have."""

    message_id: bytes | None = None
    time_ms: int | None = None
    natives: dict[str, Any] = {}


_NONE = _Properties()
_decode_properties = msgspec.msgpack.Decoder(
    _Properties, ext_hook=lambda code, data: _TYPES[code](data)
).decode


Kind = TypeVar("Kind", bound=msgspec.Struct)


def values_of(struct: msgspec.Struct, table: Table, **others: Any) -> dict[str, Any]:
    """Return the fields of a struct that are columns, without ``id``, which the store generates.

    Args:
        struct: the struct.
        table: the table.
        others: columns that are not fields, or have other values.
    """
    names = [name for name in struct.__struct_fields__ if name in table.c and name != "id"]
    return {name: getattr(struct, name) for name in names} | others


def struct_of(kind: type[Kind], row: Row[Any], **others: Any) -> Kind:
    """Return a struct of the columns of a row.

    Args:
        kind: the type of the struct.
        row: the row.
        others: fields that are not columns, or have other values.
    """
    columns = row._asdict()
    return kind(
        **{name: columns[name] for name in kind.__struct_fields__ if name in columns} | others
    )


MessageRow = DeadLetter | Parked | PullMessage

PLACE = ("topic", "partition", "position", "offset", "time_ms", "epoch")
RECORD = ("key", "headers", "body", "content_type", "properties")
EVENT = ("event_id", "event_source", "event_type")
WRITTEN = PLACE + RECORD + EVENT
"""Columns of a message and its event, in the order of ``message_columns`` and ``message_of``."""


def message_row_values(kept: MessageRow, table: Table, **others: Any) -> dict[str, Any]:
    """Return the columns of a struct with its message and event."""
    columns = dict(zip(WRITTEN, message_columns(kept), strict=True))
    return values_of(kept, table, **columns, **others)


def message_columns(kept: MessageRow) -> tuple[Any, ...]:
    """Return the columns ``WRITTEN`` of the message and its event."""
    message, event = kept.message, kept.event
    record, partition = message.record, message.partition
    return (
        partition.topic,
        partition.number,
        message.position,
        message.offset,
        message.time_ms,
        message.epoch,
        record.key,
        _written(record.headers),
        record.body,
        _as_bytes(record.content_type),
        _properties_of(record),
        text(event.id),
        text(event.source),
        text(event.type),
    )


def message_row_of(
    kind: type[Kind],
    row: Row[Any],
    epochs: Mapping[Partition, int] | None = None,
) -> Kind:
    """Return the struct of a row with its message.

    Args:
        kind: the type of the struct.
        row: the row.
        epochs: the reader's epochs by partition, for the message; None keeps the writer's epoch.
    """
    columns = row._asdict()
    event = EventName(*(columns[name] for name in EVENT))
    message = message_of(*(columns[name] for name in PLACE + RECORD))
    if epochs is not None:
        message = replace(message, epoch=epochs[message.partition])
    return struct_of(kind, row, message=message, event=event)


def message_of(
    topic: str,
    number: int,
    position: str,
    offset: int,
    time_ms: int,
    epoch: int,
    key: bytes | None,
    headers: bytes,
    body: bytes | None,
    content_type: bytes | None,
    properties: bytes | None,
) -> Message:
    """Return the message of the columns ``PLACE`` and ``RECORD``."""
    record = Record(key, _read(headers), body, _as_text(content_type))
    if properties is not None:
        own = _decode_properties(properties)
        record = replace(
            record,
            natives=own.natives or NO_NATIVES,
            message_id=_as_text(own.message_id),
            time_ms=own.time_ms,
        )
    return Message(record, Partition(topic, number), position, offset, time_ms, epoch)


def text(outside: str) -> str:
    """Return text that a database can store: invalid Unicode and NUL characters become replacement characters."""
    if outside.isascii() and "\0" not in outside:
        return outside
    return outside.encode("utf-8", "replace").decode().replace("\0", "�")


def in_partition(
    table: Table, subscription: str, broker: str, partition: Partition
) -> ColumnElement[bool]:
    """Return the condition for rows of one partition of a subscription."""
    columns = table.c
    return and_(
        columns.subscription == subscription,
        columns.broker == broker,
        columns.topic == partition.topic,
        columns.partition == partition.number,
    )


def _as_bytes(of_broker: str | None) -> bytes | None:
    """Return text of a broker as bytes, because a text column cannot hold every character."""
    return None if of_broker is None else of_broker.encode("utf-8", "surrogateescape")


def _as_text(stored: bytes | None) -> str | None:
    return None if stored is None else stored.decode("utf-8", "surrogateescape")


def _properties_of(record: Record) -> bytes | None:
    if record.natives is NO_NATIVES and record.message_id is None and record.time_ms is None:
        return None
    natives = {name: _packed(value) for name, value in record.natives.items()}
    own = _Properties(_as_bytes(record.message_id), record.time_ms, natives)
    return None if own == _NONE else _encode(own)


def _packed(value: Any) -> Any:
    """Return a value in a form that MessagePack can hold, at any depth."""
    if isinstance(value, Decimal):
        return Ext(_DECIMAL, str(value).encode())
    if isinstance(value, bytearray):
        return Ext(_BINARY, bytes(value))
    if isinstance(value, dict):
        return dict(zip(value, map(_packed, value.values()), strict=True))
    return list(map(_packed, value)) if isinstance(value, list) else value


def _written(headers: tuple[Header, ...]) -> bytes:
    """Encode headers. A name that was not UTF-8 on its broker is stored as its bytes."""
    try:
        return _encode(headers)
    except UnicodeEncodeError:
        return _encode(
            [(name.encode("utf-8", "surrogateescape"), value) for name, value in headers]
        )


def _read(stored: bytes) -> tuple[Header, ...]:
    try:
        return _decode(stored)
    except msgspec.ValidationError:  # a name is stored as bytes
        return tuple(
            (name if isinstance(name, str) else name.decode("utf-8", "surrogateescape"), value)
            for name, value in _decode_any(stored)
        )


_CONTENT = ("key", "headers", "body")


def move_conflicting(
    connection: Connection, table: Table, rows: Iterable[Mapping[str, Any]]
) -> bool:
    """Move stored messages away that have the positions of ``rows`` but other contents. Return True if there were
    any.

    Such a message is from an earlier topic of that name, or from another cluster. It stays in the table, under a
    position that no log uses."""
    moved = False
    columns = table.c
    for row in rows:
        place = and_(*(columns[name] == row[name] for name in ONCE))
        found = connection.execute(
            select(columns.id, *(columns[name] for name in _CONTENT)).where(place)
        ).first()
        if found is not None and any(getattr(found, name) != row[name] for name in _CONTENT):
            aside = f"{row['position']}@{found.id}"
            connection.execute(update(table).where(columns.id == found.id).values(position=aside))
            moved = True
    return moved


def insert(connection: Connection, table: Table) -> Any:
    """Return an INSERT statement that supports ON CONFLICT, for the connection's database."""
    if connection.dialect.name == "postgresql":
        from sqlalchemy.dialects import postgresql  # noqa: PLC0415 - 2 MB, which SQLite does not need

        return postgresql.insert(table)
    return sqlite.insert(table)
