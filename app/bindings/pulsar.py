"""The Pulsar binding (P1-P7): strict on write, liberal on read. Keys and properties as Pulsar has
them are in ``pulsar_properties``; here a property is a header of the record.

The binding was written for version 0.1 and names that version's attributes only; an attribute of 1.0
is named in the same manner (``CE-Id``), an extension under ``CE-X-``. Versions before 1.0 are refused
by name until the table of versions knows them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal

import msgspec

from app.bindings.documents import read_document, read_unnamed_document, write_document
from app.bindings.headers import (
    NotACloudEvent,
    collapse,
    plain_attributes,
    printable_texts,
)
from app.bindings.http import content_type_of
from app.bindings.modes import WireType, wire_type
from app.bindings.pulsar_names import (
    CONTENT_TYPE,
    CORE,
    EXACT,
    KAFKA_NAMES,
    LIBERAL,
    NAMES,
    STRICT,
    Leniency,
    content_types,
    spellings,
)
from app.bindings.pulsar_values import is_quoted, read_json, unquote, write_text
from app.bindings.record import ContentMode, Decoded, Header, Record
from app.bindings.sniff import holds_event
from app.bindings.spellings import Spelling, begun, in_use, select, unclaimed
from app.errors import Fault, InvalidEvent
from app.event.validate import clip, faults_of, merge, shorten
from app.event.value import NO_TYPES, AttributeType, CloudEvent

__all__ = [
    "LIBERAL", "STRICT", "Leniency", "NotACloudEvent", "Writing", "decode", "encode", "foreign",
]  # fmt: skip

_BINARY = ContentMode.BINARY

Values = Sequence[tuple[str, bytes]]


class Writing(msgspec.Struct, frozen=True):
    """Choices that the binding leaves open, or that depart from its letter.

    ``names``    ``CE-``, or ``ce_`` with ``content-type``, as Kafka clients see them over Pulsar.
    ``strings``  ``bare``, or ``json``: in quotes, P6 to the letter.
    ``no_data``  what an event without data becomes in binary mode: an empty payload, or null, which
                 compaction takes for a deletion.
    """

    names: Literal["CE-", "ce_"] = "CE-"
    strings: Literal["bare", "json"] = "bare"
    no_data: Literal["empty", "null"] = "empty"


AS_BOUND = Writing()


def encode(
    decoded: Decoded,
    mode: Literal["binary", "structured", "as_received"],
    key: bytes | None,
    writing: Writing = AS_BOUND,
) -> Record:
    """The record of one event. The key is the caller's affair and never touches the event.

    ``as_received``  what arrived as a document, alone or in a batch, goes on as that document.
    """
    if mode == "binary" or (mode == "as_received" and decoded.mode is _BINARY):
        return _write_binary(decoded.event, key, writing)
    document, media_type = write_document(decoded)
    return Record(key, ((_content_type_name(writing), media_type.encode()),), document)  # P3, P7


def _content_type_name(writing: Writing) -> str:
    return CONTENT_TYPE if writing.names == "CE-" else "content-type"


def _write_binary(event: CloudEvent, key: bytes | None, writing: Writing) -> Record:
    names = NAMES if writing.names == "CE-" else KAFKA_NAMES
    as_json = writing.strings == "json"
    headers: list[Header] = [
        (names[name], write_text(text, event.types.get(name), as_json=as_json))  # P5, P6
        for name, text in event.attributes.items()
        if name != "datacontenttype"
    ]
    content_type = content_type_of(event)
    if content_type is not None:
        headers.append(
            (_content_type_name(writing), write_text(content_type, None, as_json=as_json))
        )
    no_data = None if writing.no_data == "null" else b""
    return Record(key, tuple(headers), no_data if event.data is None else event.data)  # P4


def decode(record: Record, leniency: Leniency = LIBERAL) -> Decoded:
    """The event in a record. An empty payload, like a null one, is an event without data.

    Raises InvalidEvent with every fault, NotACloudEvent, and SenderError (415) for formats that are
    not ours to read.
    """
    return _read_plainly(record) or _read_closely(record, leniency)


def _read_plainly(record: Record) -> Decoded | None:
    """The hot path: a binary event as we write it. None when a closer look is due."""
    names: list[str] = []
    values: list[bytes] = []
    content_type: bytes | None = None
    for header, value in record.headers:
        if header == CONTENT_TYPE and content_type is None:
            content_type = value
        elif header[:1] in "cC":
            name = EXACT[header]
            if not name or name == "datacontenttype" or value is None:
                return None
            names.append(name)
            values.append(value)
    wire = wire_type(content_type) if content_type else None
    if wire is not None and wire.mode is not _BINARY:
        return None
    attributes = plain_attributes(names, printable_texts(values), wire.text if wire else None)
    return (
        None
        if attributes is None
        else Decoded(CloudEvent(attributes, record.body or None), _BINARY)
    )


def _read_closely(record: Record, leniency: Leniency) -> Decoded:
    headers = [(name, value) for name, value in record.headers if value is not None]
    wire = _wire(headers, leniency)
    if wire is not None and wire.mode is not _BINARY:  # P3: it beats mirrored properties (P7)
        return read_document(wire, record.body)
    names = [name for name, _ in headers]
    known = spellings(leniency)
    chosen = in_use(known, names)
    if chosen is None and leniency.sniff and holds_event(wire.text if wire else None, record.body):
        return read_unnamed_document(record.body or b"")
    chosen = chosen or begun(known, names)
    if chosen is None:
        raise NotACloudEvent("Not a CloudEvent: no CE- properties, no content type of the family")
    return Decoded(_read_binary(chosen, headers, wire, record.body, leniency), _BINARY)


def _wire(headers: Values, leniency: Leniency) -> WireType | None:
    """P3: ``CE-ContentType`` decides; the names that others use count where it is absent."""
    for is_content_type in content_types(leniency):
        found = {_unquoted(value, leniency) for name, value in headers if is_content_type(name)}
        found.discard(b"")
        if len(found) > 1:
            detail = "The content type is given more than once, with different values."
            raise InvalidEvent(
                [Fault("repeated-attribute", detail, f"property {CONTENT_TYPE}", "P3")]
            )
        if found:
            return wire_type(found.pop())
    return None


def _unquoted(value: bytes, leniency: Leniency) -> bytes:
    """No media type starts with a quote, so that here the quotes alone tell."""
    if not leniency.quoted:
        return value
    return unquote(value.decode("utf-8", "surrogateescape")).encode("utf-8", "surrogateescape")


def _read_binary(
    chosen: Spelling, headers: Values, wire: WireType | None, body: bytes | None, leniency: Leniency
) -> CloudEvent:
    locate = _locator(chosen)
    found = select(chosen, headers)
    texts, faults = _texts(found, chosen, leniency)
    pairs: list[tuple[str, str]] = []
    types: dict[str, AttributeType] = {}
    as_json = leniency.quoted and any(
        name == "specversion" and is_quoted(text) for name, text, _ in texts
    )
    for name, text, at in texts:
        read = read_json(text, at) if as_json else (text, AttributeType.STRING)
        if isinstance(read, Fault):
            faults.append(read)
        elif read[0] is not None:
            pairs.append((name, read[0]))
            if read[1] is not AttributeType.STRING and name not in CORE:
                types[name] = read[1]
    attributes, repeats = collapse(pairs, locate)
    if wire is not None:
        attributes["datacontenttype"] = wire.text
    faults = merge(faults + repeats, faults_of(attributes, locate))
    if faults:
        raise InvalidEvent(faults)
    return CloudEvent(attributes, body or None, types=types or NO_TYPES)


def _texts(
    found: list[tuple[str, str, bytes]], chosen: Spelling, leniency: Leniency
) -> tuple[list[tuple[str, str, str]], list[Fault]]:
    """Attribute name, text and place of each property, and what is wrong with the others."""
    texts: list[tuple[str, str, str]] = []
    faults: list[Fault] = []
    for header, name, value in found:
        at = f"property {clip(header)[1:-1]}"
        if name == "datacontenttype" and chosen.claims and not leniency.datacontenttype:
            detail = f"{at} must not be sent: the content type of the data is {CONTENT_TYPE}."
            faults.append(Fault("unexpected-datacontenttype", detail, at, "P3"))
            continue
        try:
            texts.append((name, value.decode(), at))
        except UnicodeDecodeError:
            faults.append(Fault("bad-utf8", f"{at} is not UTF-8.", at, "P6"))
    return texts, faults


def _locator(chosen: Spelling) -> Callable[[str], str]:
    return lambda name: f"property {shorten(chosen.exact(name)[0])}"


def foreign(record: Record, leniency: Leniency = LIBERAL) -> tuple[Header, ...]:
    """The properties that are none of the event's (I3): to be passed along beside it, never in it."""
    headers = [(name, value) for name, value in record.headers if value is not None]
    wire = _wire(headers, leniency)
    known = spellings(leniency)
    if wire is not None and wire.mode is not _BINARY:
        known = known[:1]  # mirrored properties (P7)
    names = [name for name, _ in headers]
    others = unclaimed(in_use(known, names) or begun(known, names), record.headers)
    named = content_types(leniency)
    return tuple(h for h in others if not any(is_content_type(h[0]) for is_content_type in named))
