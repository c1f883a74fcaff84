"""Wrap a record that is no CloudEvent in an event (``on_foreign: wrap``). Every redelivery gives the same event.

========================  =========================================================================
attribute                 from
========================  =========================================================================
``id``                    ``PARTITION:POSITION``. If a log has no lasting position (queues of
                          RabbitMQ): the broker's message id, or a digest of the record
``source``                ``urn:skybridge:record:BROKER/TOPIC``
``type``                  ``dev.skybridge.record``
``time``                  the time of the log; without lasting positions that of the producer, or none
``datacontenttype``       the content type of the record, if it is a media type;
                          ``application/octet-stream`` if a content coding is not undone
``partitionkey``          the key, if it is text
``recordheaders``         the headers as a JSON array of pairs, without those that may hold a credential
data                      the body; none for a record without a value
========================  =========================================================================

The headers are also forwarded next to the event, as foreign headers always are.
"""

from __future__ import annotations

import base64
import hashlib
import re
from datetime import UTC, datetime, timedelta
from urllib.parse import quote

import msgspec

from app.bindings.content_coding import coding_in, uncoded
from app.bindings.forwarding import may_hold_credential
from app.bindings.record import ContentMode, Decoded, Header, Record
from app.event.media_types import parse as parse_media_type
from app.event.types import forbidden_character
from app.event.value import CloudEvent

TYPE = "dev.skybridge.record"
_CONTENT_TYPE = "content-type"
_CODED = "application/octet-stream"
_DIGITS = 32  # hexadecimal digits of a digest in an id: 128 bits
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_LATEST = 253_402_300_799_999  # the last millisecond that RFC 3339 can write
_NOT_ASCII = re.compile("[^ -~]")
_json = msgspec.json.Encoder().encode


class RecordLocation(msgspec.Struct, frozen=True):
    """The place of a record in a log.

    Attributes:
        broker: The name of the broker in the configuration.
        topic: The topic.
        partition: The partition.
        position: The position in its partition, the same at every redelivery. "" if the log has no lasting
            position.
        time_ms: The log's own time of the record in ms since 1970. None if it changes with a redelivery.
    """

    broker: str
    topic: str
    partition: int
    position: str = ""
    time_ms: int | None = None


def wrap(record: Record, origin: RecordLocation) -> Decoded:
    """Return a valid event that contains the record. The record may have any content.

    Data with a content coding that is not undone gets the type ``application/octet-stream``. The attribute
    ``recordheaders`` then keeps the coding and the content type.
    """
    named = _content_type(record)
    typed = named is not None and parse_media_type(named) is not None
    headers = tuple(
        header for header in record.headers if not (typed and header[0].lower() == _CONTENT_TYPE)
    )
    said = headers
    if coding_in(record):
        said += ((_CONTENT_TYPE, named.encode("utf-8", "replace")),) if named and typed else ()
        named, typed, headers = _CODED, True, uncoded(headers)
    given = {
        "specversion": "1.0",
        "id": _id(record, origin),
        "source": f"urn:skybridge:record:{quote(origin.broker, safe='')}/{quote(origin.topic, safe='')}",
        "type": TYPE,
        "time": _time(record.time_ms if origin.time_ms is None else origin.time_ms),
        "datacontenttype": named if typed else None,
        "partitionkey": _text(record.key),
        "recordheaders": _written(said, record),
    }
    attributes = {name: text for name, text in given.items() if text is not None}
    event = CloudEvent(attributes, record.body)
    return Decoded(event, ContentMode.BINARY, foreign=headers, natives=record.natives)


def _content_type(record: Record) -> str | None:
    """Return the content type of a record: the broker's property, or the first header of that name."""
    if record.content_type is not None:
        return record.content_type
    for name, value in record.headers:
        if value is not None and name.lower() == _CONTENT_TYPE:
            return value.decode("utf-8", "replace")
    return None


def _id(record: Record, origin: RecordLocation) -> str:
    if origin.position:
        return f"{origin.partition}:{origin.position}"
    named = record.message_id
    if named and forbidden_character(named) is None:
        return named
    said = repr(record).encode("utf-8", "surrogatepass")
    return hashlib.sha256(said).hexdigest()[:_DIGITS]


def _time(milliseconds: int | None) -> str | None:
    """Return the RFC 3339 text of a time in ms since 1970. Return None for 0 or less, because old Kafka
    clients send -1."""
    if milliseconds is None or not 0 < milliseconds <= _LATEST:
        return None
    moment = _EPOCH + timedelta(milliseconds=milliseconds)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _text(key: bytes | None) -> str | None:
    """Return the key as text. Return None if it is empty, or if an attribute cannot hold it (core 1.3)."""
    try:
        text = (key or b"").decode()
    except UnicodeDecodeError:
        return None
    return text if text and forbidden_character(text) is None else None


def _written(headers: tuple[Header, ...], record: Record) -> str | None:
    """Return the headers as JSON. Bytes that are not UTF-8 become ``{"base64": ...}``; typed values become JSON
    values.
    """
    pairs = [
        (name.encode("utf-8", "replace").decode(), _value(name, value, record))
        for name, value in headers
        if not may_hold_credential(name.lower())
    ]
    if not pairs:
        return None
    text = _json(pairs).decode()
    return text if forbidden_character(text) is None else _NOT_ASCII.sub(_escaped, text)


def _value(name: str, value: bytes | None, record: Record) -> object:
    native = record.natives.get(name)
    if value is None or native is not None:
        return native
    try:
        return value.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(value).decode()}


def _escaped(character: re.Match[str]) -> str:
    """Return the JSON escapes of a character, in UTF-16 units."""
    units = character[0].encode("utf-16-be")
    return "".join(f"\\u{units[n]:02x}{units[n + 1]:02x}" for n in range(0, len(units), 2))
