"""The Kafka binding (K1-K18), also of the embedded log: strict on write, liberal on read."""

from __future__ import annotations

from app.bindings.documents import content_type_of
from app.bindings.headers import NotACloudEvent
from app.bindings.kafka_names import (
    CONTENT_TYPE,
    FOREIGN,
    HEADERS,
    LAYOUTS,
    LIBERAL,
    STRICT,
    Leniency,
    profile,
)
from app.bindings.layout import read_plainly
from app.bindings.older import older_headers
from app.bindings.reading import read
from app.bindings.record import ContentMode, Decoded, Header, Record
from app.bindings.spellings import prefix_of
from app.bindings.transcode import Writing, as_document, in_version, is_binary
from app.event.value import CloudEvent, DataForm
from app.event.versions import NEWEST, VERSIONS

__all__ = ["LIBERAL", "STRICT", "Leniency", "NotACloudEvent", "decode", "encode"]

_BINARY = ContentMode.BINARY
_JSON_DATA = DataForm.JSON
_header_name = HEADERS.__getitem__


def encode(decoded: Decoded, writing: Writing, key: bytes | None) -> Record:
    """The record of one event, with what is foreign after its own headers (I3). The key is the
    caller's affair and never touches the event (K10).

    Raises SenderError where a format cannot hold the event.
    """
    decoded = in_version(decoded, writing.version)
    if is_binary(decoded, writing.mode):
        headers, body = _binary_headers(decoded.event), decoded.event.data
        if body is None and writing.empty_body == "empty":
            body = b""  # else no value: a tombstone where a topic is compacted (K13)
    else:
        body, media_type = as_document(decoded, writing)
        headers = _mirrored_headers(decoded) if decoded.opaque else []
        headers.append((CONTENT_TYPE, media_type.encode()))  # K16: always written
    if decoded.foreign:
        headers += FOREIGN.written(decoded.foreign)
    return Record(key, tuple(headers), body)


def _binary_headers(event: CloudEvent) -> list[Header]:
    if event.version != NEWEST:
        return _older_headers(event)
    attributes = event.attributes
    texts = "\0".join(attributes.values())  # NUL is in no attribute, and one encoding is cheaper
    names = map(_header_name, attributes)
    headers: list[Header] = list(zip(names, texts.encode().split(b"\0"), strict=True))  # K14
    if event.data_form is _JSON_DATA and "datacontenttype" not in attributes:
        headers.append((CONTENT_TYPE, b"application/json"))  # J13, I4
    return headers


def _mirrored_headers(opaque: Decoded) -> list[Header]:
    """4.7: what mirrored headers told of a document that nobody here reads."""
    return _binary_headers(opaque.event) if opaque.event.attributes else []


def _older_headers(event: CloudEvent) -> list[Header]:
    """The headers of the event's own version; 0.1, which knew no Kafka, has those of its HTTP."""
    prefix = prefix_of(VERSIONS[event.version], "ce_")
    headers: list[Header] = [(prefix + name, text.encode()) for name, text in older_headers(event)]
    content_type = content_type_of(event)
    if content_type is not None:
        headers.append((CONTENT_TYPE, content_type.encode()))
    return headers


def decode(record: Record, leniency: Leniency = LIBERAL) -> Decoded:
    """The event in a record. Raises InvalidEvent with every fault, NotACloudEvent, and SenderError
    (415) for formats that are refused.
    """
    return _read_plainly(record) or read(record, profile(leniency))


def _read_plainly(record: Record) -> Decoded | None:
    """The hot path: a binary event as we write it. None when a closer look is due."""
    return read_plainly(record, LAYOUTS, record.body)
