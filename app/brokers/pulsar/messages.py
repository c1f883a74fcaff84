"""Records as messages of the client, and back."""

from __future__ import annotations

import logging
from typing import Any, NamedTuple

from app.bindings.pulsar_properties import KEY_ENCODING, PulsarMessage, from_message, to_message
from app.bindings.record import Record
from app.brokers.pulsar.positions import Position
from app.model.message import Message, Partition

log = logging.getLogger(__name__)


class Outgoing(NamedTuple):
    """The arguments of a publish."""

    content: bytes | None
    properties: dict[str, str] | None
    partition_key: str | None
    event_timestamp: int | None


def build(record: Record) -> Outgoing:
    """Return the message of a record. Raises ValueError for text that is no UTF-8."""
    message = to_message(record)
    properties = message.properties
    if record.key == b"":  # the client reads no key as an empty one, so the empty one is marked
        properties = {**properties, KEY_ENCODING: "base64"}
    moment = message.event_time_ms
    return Outgoing(
        message.payload,
        dict(properties) or None,
        message.partition_key,
        moment if moment is not None and moment > 0 else None,
    )


def message_of(raw: Any, place: Position, offset: int, partition: Partition, epoch: int) -> Message:
    """What the client received."""
    return Message(
        record=record_of(raw),
        partition=partition,
        position=place.text,
        offset=offset,
        time_ms=raw.publish_timestamp(),
        epoch=epoch,
    )


def record_of(raw: Any) -> Record:
    """One whose properties or key are no UTF-8 comes without them: it would stop all that stand behind it."""
    try:
        properties, key = raw.properties(), raw.partition_key()
    except UnicodeDecodeError as error:
        log.warning("a message comes without properties and key, for they are no UTF-8: %s", error)
        properties, key = {}, ""
    payload = None if raw.has_null_value() else raw.data()
    return from_message(
        PulsarMessage(
            properties,
            key if key or KEY_ENCODING in properties else None,
            payload,
            raw.event_timestamp() or None,
        )
    )
