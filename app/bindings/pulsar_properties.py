"""Pulsar's properties and partition key, and the neutral record: both are text on that broker."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Mapping

import msgspec

from app.bindings.record import Record
from app.event.types import binary

KEY_ENCODING = "x-skybridge-key-encoding"
"""The property that marks a key which is not UTF-8, and is therefore sent as base64."""


class PulsarMessage(msgspec.Struct, frozen=True):
    """What a producer takes and a consumer gives.

    ``payload``        None for a null value.
    ``event_time_ms``  the producer's own time, milliseconds since the epoch; None where it set none.
    """

    properties: Mapping[str, str]
    partition_key: str | None
    payload: bytes | None
    event_time_ms: int | None = None


def to_message(record: Record) -> PulsarMessage:
    """The message of a record. A property is there once, so of a repeated header the first is kept;
    null headers are left out, and bytes that are not UTF-8 become replacement characters.
    """
    properties: dict[str, str] = {}
    for name, value in record.headers:
        if value is not None:
            properties.setdefault(name, value.decode("utf-8", "replace"))
    key = record.key
    if key is None:
        return PulsarMessage(properties, None, record.body, record.time_ms)
    try:
        return PulsarMessage(properties, key.decode(), record.body, record.time_ms)
    except UnicodeDecodeError:
        properties[KEY_ENCODING] = "base64"
        return PulsarMessage(properties, b64encode(key).decode(), record.body, record.time_ms)


def from_message(message: PulsarMessage) -> Record:
    """The record of a message, with its key as it was before it became text."""
    properties = dict(message.properties)
    key = message.partition_key
    raw = None if key is None else key.encode("utf-8", "surrogateescape")
    if key is not None and properties.get(KEY_ENCODING) == "base64":
        decoded = binary(key)
        if decoded is not None:  # else the mark is somebody else's, and the key is as it is
            del properties[KEY_ENCODING]
            raw = decoded
    headers = tuple(
        (name, text.encode("utf-8", "surrogateescape")) for name, text in properties.items()
    )
    return Record(raw, headers, message.payload, time_ms=message.event_time_ms)
