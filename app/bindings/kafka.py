"""The Kafka binding (K1-K18), also of the embedded log: strict on write, liberal on read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import msgspec

from app.bindings.documents import read_unnamed_document, write_document
from app.bindings.headers import (
    NotACloudEvent,
    collapse,
    plain_attributes,
    printable_texts,
)
from app.bindings.modes import WireType, document_text, unsupported_format, wire_type
from app.bindings.older import older_headers, read_older
from app.bindings.record import ContentMode, Decoded, Header, Record
from app.bindings.sniff import holds_event
from app.errors import Fault, InvalidEvent
from app.event.memo import Memo
from app.event.upgrade import older_version
from app.event.validate import clip, faults_of, merge, shorten
from app.event.value import CloudEvent, DataForm
from app.event.versions import NEWEST, VERSIONS
from app.formats import json

__all__ = ["NotACloudEvent", "decode", "encode"]

_BINARY = ContentMode.BINARY
_STRUCTURED = ContentMode.STRUCTURED
_JSON_DATA = DataForm.JSON
_CONTENT_TYPE = "content-type"
_SPECVERSION = "specversion"
_SAYS_NEWEST = (f"ce_{_SPECVERSION}", NEWEST.encode())
_PREFIXES = {True: ("ce_",), False: ("ce-", "ce_")}  # by whether the version says specversion
_HEADERS = Memo(
    lambda name: _CONTENT_TYPE if name == "datacontenttype" else f"ce_{name}"
)  # K12, K15


def encode(
    decoded: Decoded,
    mode: Literal["binary", "structured", "as_received"],
    key: bytes | None,
    empty_body: Literal["null", "empty"] = "null",
) -> Record:
    """The record of one event. The key is the caller's affair and never touches the event (K10).

    ``as_received``  what arrived as a document, alone or in a batch, goes on as that document.
    ``empty_body``   what an event without data becomes in binary mode: no value (K13), or ``b""``.
    """
    if mode == "binary" or (mode == "as_received" and decoded.mode is _BINARY):
        return _write_binary(decoded.event, key, b"" if empty_body == "empty" else None)
    return _write_structured(decoded, key)


def _write_binary(event: CloudEvent, key: bytes | None, no_data: bytes | None) -> Record:
    if event.version != NEWEST:
        return _write_older(event, key, no_data)
    attributes = event.attributes
    texts = "\0".join(attributes.values())  # NUL is in no attribute, and one encoding is cheaper
    names = [_HEADERS[name] for name in attributes]
    headers: list[Header] = list(zip(names, texts.encode().split(b"\0"), strict=True))  # K14
    if event.data_form is _JSON_DATA and "datacontenttype" not in attributes:
        headers.append((_CONTENT_TYPE, b"application/json"))  # J13, I4
    data = event.data
    return Record(key, tuple(headers), no_data if data is None else data)


def _write_older(event: CloudEvent, key: bytes | None, no_data: bytes | None) -> Record:
    """The headers of the event's own version; 0.1, which knew no Kafka, has those of its HTTP."""
    prefix = "CE-" if VERSIONS[event.version].nested else "ce_"
    headers: list[Header] = [(prefix + name, text.encode()) for name, text in older_headers(event)]
    content_type = event.datacontenttype
    if content_type is None and event.data_form is _JSON_DATA:
        content_type = "application/json"  # J13, I4
    if content_type is not None:
        headers.append((_CONTENT_TYPE, content_type.encode()))
    data = event.data
    return Record(key, tuple(headers), no_data if data is None else data)


def _write_structured(decoded: Decoded, key: bytes | None) -> Record:
    document, media_type = write_document(decoded)
    return Record(key, ((_CONTENT_TYPE, media_type.encode()),), document)  # K16: always written


def decode(record: Record) -> Decoded:
    """The event in a record. Raises InvalidEvent with every fault, NotACloudEvent, and SenderError
    (415) for formats that are not ours to read.

    Liberal: header names in any case, repeated headers that agree, null headers, quoted values, and
    documents whose producer gave the content type of the data or none.
    """
    return _read_plainly(record) or _read_liberally(record)


def _read_plainly(record: Record) -> Decoded | None:
    """The hot path: a binary event as we write it. None when a closer look is due."""
    names: list[str] = []
    values: list[bytes] = []
    content_types: list[bytes] = []
    for name, value in record.headers:
        if value is None:
            continue  # legal in Kafka, and means unset
        if name[:3] == "ce_":
            names.append(name[3:])
            values.append(value)
        elif name == _CONTENT_TYPE:
            content_types.append(value)
        elif name[:1] in "cC":  # perhaps one of ours in another case
            return None
    wire = wire_type(content_types[0]) if content_types else None
    if len(content_types) > 1 or (wire is not None and wire.mode is not _BINARY):
        return None
    attributes = plain_attributes(names, printable_texts(values), wire.text if wire else None)
    return None if attributes is None else Decoded(CloudEvent(attributes, record.body), _BINARY)


def _read_liberally(record: Record) -> Decoded:
    content_type = _content_type(record.headers)
    wire = wire_type(content_type) if content_type is not None else None
    if wire is not None and wire.mode is not _BINARY:  # K4: it beats mirrored headers (K18)
        return _read_document(wire, record.body)
    older = _older_version(record.headers)
    if older is not None:
        return Decoded(_read_older(older, record, wire), _BINARY)
    pairs = _attribute_headers(record.headers)
    named = any(name == "ce_specversion" for name, _ in pairs)
    if not named and holds_event(wire.text if wire else None, record.body):
        return read_unnamed_document(record.body or b"")
    if not pairs:
        raise NotACloudEvent("Not a CloudEvent: no ce_ headers, and no content type of the family")
    return Decoded(_read_binary(pairs, wire, record.body), _BINARY)


def _older_version(headers: Sequence[Header]) -> str | None:
    if _SAYS_NEWEST in headers:
        return None  # the usual answer, at little cost
    named = {name.lower(): value for name, value in headers if value is not None}

    def said(attribute: str) -> str | None:
        for prefix in _PREFIXES[attribute == _SPECVERSION]:
            value = named.get(prefix + attribute.lower())
            if value is not None:
                return _unquote(value.decode("utf-8", "replace"))
        return None

    return older_version(said, _locate)


def _read_older(name: str, record: Record, wire: WireType | None) -> CloudEvent:
    version = VERSIONS[name]
    prefixes = _PREFIXES[version.attribute == _SPECVERSION]
    headers = [
        (header, value)
        for header, value in record.headers
        if value is not None and header[:3].lower() in prefixes
    ]
    if not version.nested:  # 0.1 tells extensions by the case that they are in
        headers = _attribute_headers(headers)
    texts, faults = _texts(headers)
    if faults:
        raise InvalidEvent(faults)
    pairs = texts if version.quoted else _unquoted(texts)
    return read_older(name, pairs, wire.text if wire else None, record.body, _locate)


def _content_type(headers: Sequence[Header]) -> bytes | None:
    """The exact name first, else any case; several that differ leave the mode open: refused."""
    for fold in (str, str.lower):
        values = {value for name, value in headers if fold(name) == _CONTENT_TYPE and value}
        if len(values) > 1:
            detail = "content-type is given more than once, with different values."
            raise InvalidEvent([Fault("repeated-attribute", detail, "header content-type", "K4")])
        if values:
            return values.pop()
    return None


def _read_document(wire: WireType, body: bytes | None) -> Decoded:
    if wire.mode is not _STRUCTURED:  # K1: no batches
        raise unsupported_format(wire)
    if body is None:
        detail = "A structured event has a value, also without data."
        raise InvalidEvent([Fault("no-document", detail, rule="K17")])
    return Decoded(json.read_event(document_text(wire, body)), _STRUCTURED, body, wire.text)


def _attribute_headers(headers: Sequence[Header]) -> list[tuple[str, bytes]]:
    """Headers under ``ce_`` that have a value; other spellings count where the exact one is absent."""
    lowered = [(name.lower(), name, value) for name, value in headers if value is not None]
    ours = [header for header in lowered if header[0].startswith("ce_")]
    exact = [(name, value) for lower, name, value in ours if lower == name]
    loose = [(lower, value) for lower, name, value in ours if lower != name]
    names = {name for name, _ in exact}
    return exact + [pair for pair in loose if pair[0] not in names]


def _read_binary(
    pairs: list[tuple[str, bytes]], wire: WireType | None, body: bytes | None
) -> CloudEvent:
    texts, faults = _texts(pairs)
    attributes, repeats = collapse(_unquoted(texts), _locate)
    if wire is not None:
        attributes["datacontenttype"] = wire.text  # K12: it wins over ce_datacontenttype
    faults = merge(faults + repeats, faults_of(attributes, _locate))
    if faults:
        raise InvalidEvent(faults)
    return CloudEvent(attributes, body)


def _texts(pairs: list[tuple[str, bytes]]) -> tuple[list[tuple[str, str]], list[Fault]]:
    """Attribute names and texts: K14, UTF-8 and nothing decoded any further."""
    read: list[tuple[str, str]] = []
    faults: list[Fault] = []
    for header, value in pairs:
        try:
            read.append((header[3:], value.decode()))
        except UnicodeDecodeError:
            at = f"header {clip(header)[1:-1]}"
            faults.append(Fault("bad-utf8", f"{at} is not UTF-8.", at, "K14"))
    return read, faults


def _unquoted(texts: list[tuple[str, str]]) -> list[tuple[str, str]]:
    """The examples of the binding show values in quotes, and some producers write them so; that is
    so for all of them or none, and ``specversion`` tells.
    """
    if not any(name == "specversion" and text.startswith('"') for name, text in texts):
        return texts
    return [(name, _unquote(text)) for name, text in texts]


def _unquote(text: str) -> str:
    try:
        return msgspec.json.decode(text, type=str)
    except msgspec.DecodeError:
        return text


def _locate(name: str) -> str:
    return "header content-type" if name == "datacontenttype" else f"header ce_{shorten(name)}"
