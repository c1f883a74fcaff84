"""A record that waits in a spool. It is the record of the target with one more header, which holds the
destination.

Key, headers, body and content type are unchanged. The added header also holds the parts that the embedded log
does not store: typed header values, the message id and the producer's time.
"""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal
from typing import Any

import msgspec
from msgspec.structs import replace

from app.bindings.record import NO_NATIVES, Native, Record
from app.errors import BrokerRefused

HEADER = "skybridge-spool"


class Destination(msgspec.Struct, frozen=True, array_like=True):
    """The target of a spooled record, and the parts of the record that the spool's log cannot store.

    Attributes:
        log: The name of the log that publishes the record later.
        topic: The topic in that log.
        message_id: See ``Record.message_id``.
        time_ms: See ``Record.time_ms``.
        natives: See ``Record.natives``.
    """

    log: str
    topic: str
    message_id: str | None = None
    time_ms: int | None = None
    natives: dict[str, Any] = {}


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Destination).decode


def to_spooled(record: Record, log: str, topic: str) -> Record:
    """Return the record to write to the spool."""
    natives = {name: _tagged(value) for name, value in record.natives.items()}
    destination = Destination(log, topic, record.message_id, record.time_ms, natives)
    header = (HEADER, _encode(destination))
    return Record(record.key, (*record.headers, header), record.body, record.content_type)


def from_spooled(record: Record) -> tuple[Destination, Record]:
    """Return the destination of a record in a spool, and the original record.

    Raises:
        BrokerRefused: The record has no readable spool header.
    """
    name, value = record.headers[-1] if record.headers else ("", None)
    if name != HEADER or value is None:
        raise BrokerRefused(f"the record has no header {HEADER}", kind="unwritable")
    try:
        destination = _decode(value)
        natives = {name: _untagged(each) for name, each in destination.natives.items()}
    except (msgspec.DecodeError, ValueError, TypeError, ArithmeticError) as error:
        raise BrokerRefused(
            f"its header {HEADER} cannot be read: {error}", kind="unwritable"
        ) from None
    return destination, replace(
        record,
        headers=record.headers[:-1],
        natives=natives or NO_NATIVES,
        message_id=destination.message_id,
        time_ms=destination.time_ms,
    )


def _tagged(value: Native) -> object:
    """Return a value that MessagePack can hold. A value of any other type becomes a list of its type name and
    its text."""
    match value:
        case Decimal():
            return ["decimal", str(value)]
        case datetime():
            return ["time", value.isoformat()]
        case bytearray():
            return ["bytearray", bytes(value)]
        case dict():
            return ["table", {name: _tagged(inner) for name, inner in value.items()}]  # type: ignore[arg-type]
        case list():
            return ["list", [_tagged(inner) for inner in value]]  # type: ignore[arg-type]
    return value


def _untagged(value: Any) -> Any:
    match value:
        case ["decimal", text]:
            return Decimal(text)
        case ["time", text]:
            return datetime.fromisoformat(text)
        case ["bytearray", content]:
            return bytearray(content)
        case ["table", inner]:
            return {name: _untagged(each) for name, each in inner.items()}
        case ["list", inner]:
            return [_untagged(each) for each in inner]
    return value
