"""Convert records to messages of Pulsar's client, and back."""

from __future__ import annotations

import logging
from typing import Any, NamedTuple

from app.bindings.pulsar_properties import KEY_ENCODING, PulsarMessage, from_message, to_message
from app.bindings.record import Record
from app.brokers.pulsar.positions import Position
from app.model.message import Message, Partition

log = logging.getLogger(__name__)


class PublishArguments(NamedTuple):
    """The arguments of a publish call of the client."""

    content: bytes | None
    properties: dict[str, str] | None
    partition_key: str | None
    event_timestamp: int | None


def build(record: Record) -> PublishArguments:
    """Return the publish arguments for a record. Raises ValueError for text that is not UTF-8."""
    message = to_message(record)
    properties = message.properties
    if record.key == b"":  # the client cannot distinguish no key from an empty key
        properties = {**properties, KEY_ENCODING: "base64"}
    moment = message.event_time_ms
    return PublishArguments(
        message.payload,
        dict(properties) or None,
        message.partition_key,
        moment if moment is not None and moment > 0 else None,
    )


def message_of(raw: Any, place: Position, offset: int, partition: Partition, epoch: int) -> Message:
    """Return the message that the client received, at this position of the partition."""
    return Message(
        record=record_of(raw),
        partition=partition,
        position=place.text,
        offset=offset,
        time_ms=raw.publish_timestamp(),
        epoch=epoch,
    )


def record_of(raw: Any) -> Record:
    """Return the record of a received message.

    Properties and key are dropped if they are not UTF-8. Otherwise the message would block its partition.
    """
    try:
        properties, key = raw.properties(), raw.partition_key()
    except UnicodeDecodeError as error:
        log.warning(
            "a message is read without properties and key, because they are not UTF-8: %s", error
        )
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
