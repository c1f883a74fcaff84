"""The neutral wire form that every binding writes and every broker carries, and what decoding gives."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from datetime import datetime
from decimal import Decimal
from types import MappingProxyType
from typing import TypeAlias

import msgspec

from app.event.value import CloudEvent

Header = tuple[str, bytes | None]
"""A header name and its bytes. Null values are legal in Kafka; repeats and order are kept."""

Native: TypeAlias = (
    bool | int | float | Decimal | bytes | bytearray | datetime | dict[str, object] | list[object]
)
"""A typed header value, as AMQP has them. A table is a dict, an array a list."""

NO_NATIVES: Mapping[str, Native] = MappingProxyType({})
NO_ATTRIBUTES: Mapping[str, str] = MappingProxyType({})


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
    ``natives``       header values that are no strings, by header name, as the client library typed
                      them (RabbitMQ); ``headers`` has their canonical text, or null where none is.
    ``message_id``    the broker's own message-id property, where it has one (RabbitMQ).
    ``time_ms``       the producer's own time of the message where the broker carries one beside its
                      own (Pulsar's event time, RabbitMQ's timestamp); milliseconds since the epoch.
    """

    key: bytes | None
    headers: tuple[Header, ...]
    body: bytes | None
    content_type: str | None = None
    natives: Mapping[str, Native] = NO_NATIVES
    message_id: str | None = None
    time_ms: int | None = None


class Decoded(msgspec.Struct, frozen=True, gc=False):  # it can be in no cycle
    """One event as a binding read it.

    ``mode``       the mode it arrived in; an element of a batch has BATCH.
    ``document``   the structured document itself (for an element of a batch: its slice), so that
                   a move to structured mode need not write it again; None in binary mode.
    ``media_type`` the content type of ``document`` with its parameters, for forwarding as it was.
    ``foreign``    metadata of the message that is none of the event's (I3), by the names it came with:
                   passed along beside the event, never in it.
    ``opaque``     the document is in a format that nobody here reads (H6, K5): it goes on byte for
                   byte. ``event`` then has the attributes of mirrored headers only, perhaps none.
    ``natives``    typed values of ``foreign``, by the same names, for a broker that has such types: a
                   table is null in ``foreign``, for it has no text (RabbitMQ).
    """

    event: CloudEvent
    mode: ContentMode
    document: bytes | None = None
    media_type: str | None = None
    foreign: tuple[Header, ...] = ()
    opaque: bool = False
    natives: Mapping[str, Native] = NO_NATIVES

    @property
    def own_attributes(self) -> Mapping[str, str]:
        """Those that the event itself has: headers beside an opaque document say what their sender likes."""
        return NO_ATTRIBUTES if self.opaque else self.event.attributes
