"""Convert between the neutral record and Pulsar's properties and partition key, which are text on that broker."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Mapping

import msgspec

from app.bindings.record import Record
from app.event.types import binary

KEY_ENCODING = "x-skybridge-key-encoding"
"""The property that marks a key as base64, because its bytes are not UTF-8."""


class PulsarMessage(msgspec.Struct, frozen=True):
    """A message as Pulsar's client sends and receives it.

    Attributes:
        properties: The headers, as text.
        partition_key: The key, as text or as base64 (``KEY_ENCODING``).
        payload: The body. None for a null value.
        event_time_ms: The producer's own time in ms since 1970. None if it set none.
    """

    properties: Mapping[str, str]
    partition_key: str | None
    payload: bytes | None
    event_time_ms: int | None = None


def to_message(record: Record) -> PulsarMessage:
    """Return the Pulsar message of a record.

    Pulsar has each property once, so the first of repeated headers is kept. Null headers are left out, and
    bytes that are not UTF-8 become replacement characters.
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
    """Return the record of a Pulsar message. The key has the bytes that it had before it became text."""
    properties = dict(message.properties)
    key = message.partition_key
    raw = None if key is None else key.encode("utf-8", "surrogateescape")
    if key is not None and properties.get(KEY_ENCODING) == "base64":
        decoded = binary(key)
        if (
            decoded is not None
        ):  # not base64: another producer set this property, and the key stays as it is
            del properties[KEY_ENCODING]
            raw = decoded
    headers = tuple(
        (name, text.encode("utf-8", "surrogateescape")) for name, text in properties.items()
    )
    return Record(raw, headers, message.payload, time_ms=message.event_time_ms)
