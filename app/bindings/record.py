"""The neutral wire form that every binding writes and every broker carries, and what decoding gives."""

from __future__ import annotations

import enum

import msgspec

from app.event.value import CloudEvent

Header = tuple[str, bytes | None]
"""A header name and its bytes. Null values are legal in Kafka; repeats and order are kept."""


class ContentMode(enum.Enum):
    """How an event sits on the wire (core: content modes)."""

    BINARY = "binary"
    STRUCTURED = "structured"
    BATCH = "batch"


class Record(msgspec.Struct, frozen=True, gc=False):  # it can be in no cycle
    """A message as it is on the wire of a log.

    ``key``           bytes, or None for none. Never assumed to be UTF-8.
    ``headers``       ordered pairs; repeated names and null values are kept as they are.
    ``body``          None is no value at all (a tombstone in Kafka); ``b""`` is an empty value.
    ``content_type``  the broker's own content-type *property*, where it has one (RabbitMQ). On Kafka
                      and the embedded log the content type is a header and this stays None.
    """

    key: bytes | None
    headers: tuple[Header, ...]
    body: bytes | None
    content_type: str | None = None


class Decoded(msgspec.Struct, frozen=True, gc=False):  # it can be in no cycle
    """One event as a binding read it.

    ``mode``       the mode it arrived in; an element of a batch has BATCH.
    ``document``   the structured document itself (for an element of a batch: its slice), so that
                   a move to structured mode need not write it again; None in binary mode.
    ``media_type`` the content type of ``document`` with its parameters, for forwarding as it was.
    """

    event: CloudEvent
    mode: ContentMode
    document: bytes | None = None
    media_type: str | None = None
