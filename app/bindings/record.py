"""The neutral record and the result of decoding. Every binding writes neutral records, and every broker
transports them."""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from decimal import Decimal
from types import MappingProxyType
from typing import TypeAlias

import msgspec

from app.event.value import CloudEvent

Header = tuple[str, bytes | None]
"""A header name and its bytes. Null values are legal in Kafka; repeated names and the order are kept."""

Native: TypeAlias = (
    bool | int | float | Decimal | bytes | bytearray | datetime | dict[str, object] | list[object]
)
"""A typed header value, as AMQP has them. A dict is an AMQP table, a list is an AMQP array."""

NO_NATIVES: Mapping[str, Native] = MappingProxyType({})
NO_ATTRIBUTES: Mapping[str, str] = MappingProxyType({})


class ContentMode(enum.Enum):
    """The form of an event on the wire (CloudEvents core: content modes)."""

    BINARY = "binary"
    STRUCTURED = "structured"
    BATCH = "batch"


class Record(msgspec.Struct, frozen=True, gc=False):  # an instance can be in no reference cycle
    """A message as it is on the wire of a log.

    Attributes:
        key: Bytes, or None for no key. They need not be UTF-8.
        headers: Ordered pairs. Repeated names and null values are kept as they are.
        body: None is no value at all (a tombstone in Kafka); ``b""`` is an empty value.
        content_type: The broker's own content-type property (RabbitMQ). None on Kafka and the embedded log,
            where the content type is a header.
        natives: Header values that are no strings, by header name, as the client library typed them
            (RabbitMQ). ``headers`` has their canonical text, or null if a value has none.
        message_id: The broker's own message-id property (RabbitMQ).
        time_ms: The producer's time of the message in ms since 1970 (Pulsar's event time, RabbitMQ's
            timestamp). None if the broker carries no such time.
    """

    key: bytes | None
    headers: tuple[Header, ...]
    body: bytes | None
    content_type: str | None = None
    natives: Mapping[str, Native] = NO_NATIVES
    message_id: str | None = None
    time_ms: int | None = None


RecordForm = Callable[[bytes | None, Sequence[bytes], bytes], Record]
"""A function from a key, the attribute values and the body of an event to its record. All its events have the same
attribute names, and values of printable ASCII. An empty body is an event without data."""


class Decoded(msgspec.Struct, frozen=True, gc=False):  # an instance can be in no reference cycle
    """One event as a binding read it.

    Attributes:
        mode: The mode in which the event arrived. An element of a batch has BATCH.
        document: The structured document, or the slice of a batch with this event. Encoding in structured
            mode reuses these bytes. None in binary mode.
        media_type: The content type of ``document`` with its parameters, which is forwarded unchanged.
        foreign: Headers of the message that do not belong to the event, by their original names. They are
            forwarded next to the event, never in it.
        opaque: True if the document has a format that Skybridge does not read. It is forwarded byte for byte.
            ``event`` then has only the attributes that headers repeat, perhaps none.
        natives: Typed values of ``foreign``, by the same names, for a broker with typed headers. A value
            without a text form, such as a table, is null in ``foreign`` (RabbitMQ).
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
        """Return the attributes of the event. Return none if its document has an unknown format, because
        headers next to a document prove nothing.
        """
        return NO_ATTRIBUTES if self.opaque else self.event.attributes
