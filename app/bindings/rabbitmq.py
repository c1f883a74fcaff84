"""The RabbitMQ binding (R1-R11): strict on write, liberal on read. The header table and its types are
in ``amqp_table``.

The record's ``content_type`` is the property of that name; a body is never null, and an empty one is
an event without data, for AMQP cannot tell the two apart.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Literal, TypeAlias

from app.bindings.amqp_table import NO_NATIVES, Native, native_text, native_type
from app.bindings.documents import read_document, read_unnamed_document, write_document
from app.bindings.headers import (
    NotACloudEvent,
    collapse,
    plain_attributes,
    printable_texts,
)
from app.bindings.http import content_type_of
from app.bindings.modes import WireType, wire_type
from app.bindings.rabbitmq_names import HEADERS, LIBERAL, STRICT, Leniency, spellings
from app.bindings.record import ContentMode, Decoded, Header, Record
from app.bindings.sniff import holds_event
from app.bindings.spellings import Spelling, begun, in_use, select, unclaimed
from app.errors import Fault, InvalidEvent
from app.event.validate import clip, faults_of, merge, shorten
from app.event.value import NO_TYPES, AttributeType, CloudEvent
from app.event.versions import NEWEST, VERSIONS

__all__ = ["LIBERAL", "STRICT", "Leniency", "NotACloudEvent", "decode", "encode", "foreign"]

SHORT_STRING = 255  # bytes of a header name or a content type (AMQP 0-9-1, 4.2.5.3)

_BINARY = ContentMode.BINARY
_CONTENT_TYPE = "content-type"

Value: TypeAlias = bytes | Native
Values: TypeAlias = Sequence[tuple[str, Value]]


def encode(
    decoded: Decoded, mode: Literal["binary", "structured", "as_received"], key: bytes | None
) -> Record:
    """The record of one event. The key is the caller's affair and never touches the event.

    ``as_received``  what arrived as a document, alone or in a batch, goes on as that document.

    Raises InvalidEvent for a name or content type longer than AMQP can carry.
    """
    if mode == "binary" or (mode == "as_received" and decoded.mode is _BINARY):
        record = _write_binary(decoded.event, key)
    else:
        document, media_type = write_document(decoded)
        record = Record(key, (), document, media_type)  # R10
    faults = list(_too_long(record))
    if faults:
        raise InvalidEvent(faults)
    return record


def _write_binary(event: CloudEvent, key: bytes | None) -> Record:
    headers = tuple(
        (HEADERS[name], text.encode())  # R6, R9: every value as a string
        for name, text in event.attributes.items()
        if name != "datacontenttype"  # R4: a property, never ce-datacontenttype
    )
    return Record(key, headers, event.data or b"", content_type_of(event))  # R5


def _too_long(record: Record) -> Iterable[Fault]:
    for header, _ in record.headers:
        if len(header) > SHORT_STRING:
            detail = f"The header name {clip(header)} is longer than {SHORT_STRING} bytes: use structured mode."
            yield Fault("name-too-long", detail, f"header {shorten(header)}", "AMQP 4.2.5.3")
    if record.content_type is not None and len(record.content_type.encode()) > SHORT_STRING:
        detail = (
            f"The content type {clip(record.content_type)} is longer than {SHORT_STRING} bytes."
        )
        yield Fault("content-type-too-long", detail, "property content_type", "AMQP 4.2.5.3")


def decode(
    record: Record, natives: Mapping[str, Native] = NO_NATIVES, leniency: Leniency = LIBERAL
) -> Decoded:
    """The event in a record. ``natives`` are the header values that are no strings, by header name.

    Raises InvalidEvent with every fault, NotACloudEvent, and SenderError (415) for formats that are
    not ours to read.
    """
    return (None if natives else _read_plainly(record)) or _read_closely(record, natives, leniency)


def _read_plainly(record: Record) -> Decoded | None:
    """The hot path: a binary event as we write it. None when a closer look is due."""
    names: list[str] = []
    values: list[bytes] = []
    for name, value in record.headers:
        if name[:3] == "ce-" and value is not None:
            names.append(name[3:])
            values.append(value)
        elif name[:1] in "cC":  # perhaps one of ours in another spelling, or null
            return None
    wire = _property(record)
    if "datacontenttype" in names or (wire is not None and wire.mode is not _BINARY):
        return None
    attributes = plain_attributes(names, printable_texts(values), wire.text if wire else None)
    return (
        None
        if attributes is None
        else Decoded(CloudEvent(attributes, record.body or None), _BINARY)
    )


def _property(record: Record) -> WireType | None:
    text = record.content_type
    return wire_type(text.encode("utf-8", "surrogateescape")) if text else None


def _read_closely(record: Record, natives: Mapping[str, Native], leniency: Leniency) -> Decoded:
    headers = _values(record, natives)
    wire = _wire(record, headers, leniency)
    if wire is not None and wire.mode is not _BINARY:  # R3: it beats mirrored headers (R11)
        return read_document(wire, record.body)
    names = [name for name, _ in headers]
    known = spellings(leniency)
    chosen = in_use(known, names)
    if chosen is None and leniency.sniff and holds_event(wire.text if wire else None, record.body):
        return read_unnamed_document(record.body or b"")
    chosen = chosen or begun(known, names)
    if chosen is None:
        raise NotACloudEvent("Not a CloudEvent: no ce- headers, and no content type of the family")
    return Decoded(_read_binary(chosen, headers, wire, record.body, leniency), _BINARY)


def _values(record: Record, natives: Mapping[str, Native]) -> Values:
    """Headers with a value, as typed on the wire; a null one is unset."""
    found: list[tuple[str, Value]] = []
    for name, text in record.headers:
        native = natives.get(name)
        if isinstance(native, bytes):  # kept apart from the text of a string
            found.append((name, bytearray(native)))
        elif native is not None:
            found.append((name, native))
        elif text is not None:
            found.append((name, text))
    return found


def _wire(record: Record, headers: Values, leniency: Leniency) -> WireType | None:
    """R3: the property decides; a header of that name only where the property is missing."""
    wire = _property(record)
    if wire is not None or not leniency.content_type:
        return wire
    found = {
        value
        for name, value in headers
        if _is_content_type(name) and value and isinstance(value, bytes)
    }
    if len(found) > 1:
        detail = "content-type is given more than once, with different values."
        raise InvalidEvent([Fault("repeated-attribute", detail, "header content-type", "R3")])
    return wire_type(found.pop()) if found else None


def _is_content_type(header: str) -> bool:
    return header.lower() == _CONTENT_TYPE


def _read_binary(
    chosen: Spelling, headers: Values, wire: WireType | None, body: bytes | None, leniency: Leniency
) -> CloudEvent:
    locate = _locator(chosen)
    texts: list[tuple[str, str]] = []
    types: dict[str, AttributeType] = {}
    faults: list[Fault] = []
    for header, name, value in _attributes(chosen, headers):
        text = _text(header, name, value, chosen, leniency)
        if isinstance(text, Fault):
            faults.append(text)
            continue
        texts.append((name, text))
        kind = AttributeType.STRING if isinstance(value, bytes) else native_type(value)
        if kind is not AttributeType.STRING and name not in VERSIONS[NEWEST].rules:
            types[name] = kind
    attributes, repeats = collapse(texts, locate)
    if wire is not None:
        attributes["datacontenttype"] = wire.text  # R4
    faults = merge(faults + repeats, faults_of(attributes, locate))
    if faults:
        raise InvalidEvent(faults)
    return CloudEvent(attributes, body or None, types=types or NO_TYPES)


def _attributes(chosen: Spelling, headers: Values) -> list[tuple[str, str, Value]]:
    """The headers to read. A bare one whose type no attribute has is foreign rather than wrong."""
    found: list[tuple[str, str, Value]] = select(chosen, headers)
    return [
        (header, name, value)
        for header, name, value in found
        if chosen.claims or isinstance(value, bytes) or native_text(value) is not None
    ]


def _text(
    header: str, name: str, value: Value, chosen: Spelling, leniency: Leniency
) -> str | Fault:
    at = f"header {clip(header)[1:-1]}"
    if name == "datacontenttype" and chosen.claims and not leniency.datacontenttype:
        detail = "the content type of the data is the property content_type"
        return Fault("unexpected-datacontenttype", f"{at} must not be sent: {detail}.", at, "R6")
    if not isinstance(value, bytes):
        return _native(value, at, leniency)
    try:
        return value.decode()
    except UnicodeDecodeError:
        return Fault("bad-utf8", f"{at} is not UTF-8.", at, "R9")


def _native(value: Native, at: str, leniency: Leniency) -> str | Fault:
    text = native_text(value) if leniency.natives else None
    if text is not None:
        return text
    others = ", boolean, timestamp or integer of 32 bits" if leniency.natives else ""
    detail = f"{at} is no string{others}, but of type {type(value).__name__}."
    return Fault("wrong-type", detail, at, "R9")


def _locator(chosen: Spelling) -> Callable[[str], str]:
    def locate(name: str) -> str:
        if name == "datacontenttype":
            return "property content_type"
        return f"header {shorten(chosen.exact(name)[0])}"

    return locate


def foreign(
    record: Record, natives: Mapping[str, Native] = NO_NATIVES, leniency: Leniency = LIBERAL
) -> tuple[Header, ...]:
    """The headers that are none of the event's (I3): to be passed along beside it, never in it."""
    headers = _values(record, natives)
    wire = _wire(record, headers, leniency)
    known = spellings(leniency)
    if wire is not None and wire.mode is not _BINARY:
        known = known[:1]  # mirrored headers (R11)
    names = [name for name, _ in headers]
    chosen = in_use(known, names) or begun(known, names)
    others = unclaimed(chosen, record.headers)
    if chosen is not None and not chosen.claims:
        read = {header for header, _, _ in _attributes(chosen, headers)}
        others = tuple(header for header in record.headers if header[0] not in read)
    return tuple(h for h in others if not (leniency.content_type and _is_content_type(h[0])))
