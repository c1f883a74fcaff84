"""The Pulsar binding (P1-P7): strict on write, liberal on read. Keys and properties as Pulsar has
them are in ``pulsar_properties``; here a property is a header of the record.

The binding was written for version 0.1, whose events go under its own names (``CE-EventID``); an
attribute of another version is named in the same manner (``CE-Id``), an extension under ``CE-X-``.
"""

from __future__ import annotations

from datetime import datetime

from app.bindings.documents import content_type_of
from app.bindings.headers import NotACloudEvent
from app.bindings.layout import read_plainly
from app.bindings.older import older_headers
from app.bindings.pulsar_names import (
    CONTENT_TYPE,
    FOREIGN,
    KAFKA_NAMES,
    LAYOUTS,
    LIBERAL,
    NAMES,
    STRICT,
    Leniency,
    profile,
    pulsar_name,
)
from app.bindings.reading import read
from app.bindings.record import ContentMode, Decoded, Header, Record
from app.bindings.transcode import Writing, as_document, in_version, is_binary
from app.bindings.values import quote
from app.event.upgrade import own_attributes
from app.event.value import AttributeType, CloudEvent
from app.event.versions import NEWEST, VERSIONS

__all__ = ["LIBERAL", "STRICT", "Leniency", "NotACloudEvent", "decode", "encode"]

_BINARY = ContentMode.BINARY
_STRING = AttributeType.STRING


def encode(decoded: Decoded, writing: Writing, key: bytes | None) -> Record:
    """The record of one event, with what is foreign after its own properties (I3). The key is the
    caller's affair and never touches the event.

    ``names``    ``CE-``, or ``ce_`` with ``content-type``, as Kafka clients see them over Pulsar.
    ``strings``  ``bare``, or ``json``: in quotes, P6 to the letter.
    ``empty_body``  an empty payload unless it says null, which compaction takes for a deletion.

    The event's ``time`` becomes the event time of the message.

    Raises SenderError where a format cannot hold the event.
    """
    decoded = in_version(decoded, writing.version)
    body: bytes | None
    if is_binary(decoded, writing.mode):
        headers, body = _binary_headers(decoded.event, writing), decoded.event.data  # P4
        if body is None and writing.empty_body != "null":
            body = b""
    else:
        body, media_type = as_document(decoded, writing)
        headers = _binary_headers(decoded.event, writing) if decoded.opaque else []  # (4.7)
        headers.append((_content_type_name(writing), media_type.encode()))  # P3, P7
    if decoded.foreign:
        headers += FOREIGN.written(decoded.foreign)
    return Record(key, tuple(headers), body, time_ms=_event_time(decoded.event))


def _event_time(event: CloudEvent) -> int | None:
    """``time`` as the event time of the message, in milliseconds (4.3, optional). None for what no
    clock shows: a leap second, or no time at all. The attribute itself keeps its text."""
    text = event.attributes.get("time")
    if text is None:
        return None
    try:
        return int(datetime.fromisoformat(text).timestamp() * 1000)
    except ValueError:
        return None


def _content_type_name(writing: Writing) -> str:
    return CONTENT_TYPE if writing.names == "CE-" else "content-type"


def _binary_headers(event: CloudEvent, writing: Writing) -> list[Header]:
    older = event.version != NEWEST
    headers = _older_headers(event, writing) if older else _newest_headers(event, writing)
    content_type = content_type_of(event)
    if content_type is not None:
        text = quote(content_type) if writing.strings == "json" else content_type
        headers.append((_content_type_name(writing), text.encode()))
    return headers


def _newest_headers(event: CloudEvent, writing: Writing) -> list[Header]:
    names = NAMES if writing.names == "CE-" else KAFKA_NAMES
    if writing.strings == "bare":
        return [
            (names[name], text.encode())  # P5, P6
            for name, text in event.attributes.items()
            if name != "datacontenttype"
        ]
    return [
        (names[name], (quote(text) if event.types.get(name, _STRING) is _STRING else text).encode())
        for name, text in event.attributes.items()
        if name != "datacontenttype"
    ]


def _older_headers(event: CloudEvent, writing: Writing) -> list[Header]:
    """The properties of the event's own version. In 0.1 and 0.2 a header's text is JSON already."""
    version = VERSIONS[event.version]
    bare = version.quoted or writing.strings == "bare"
    told = {own.name for own in own_attributes(event) if own.type is not _STRING}
    headers: list[Header] = []
    for name, text in older_headers(event):
        if version.nested:
            entry = name.removeprefix("X-")
            header = pulsar_name(entry, core=entry == name)  # P5: CE-X-TestExtension
        elif writing.names == "ce_":
            header = KAFKA_NAMES[name]
        else:
            header = pulsar_name(name, core=name in version.rules)
        headers.append((header, (text if bare or name in told else quote(text)).encode()))
    return headers


def decode(record: Record, leniency: Leniency = LIBERAL) -> Decoded:
    """The event in a record. An empty payload, like a null one, is an event without data.

    Raises InvalidEvent with every fault, NotACloudEvent, and SenderError (415) for formats that are
    refused.
    """
    return _read_plainly(record) or read(record, profile(leniency))


def _read_plainly(record: Record) -> Decoded | None:
    """The hot path: a binary event as we write it. None when a closer look is due."""
    return read_plainly(record, LAYOUTS, record.body or None)
