"""The HTTP binding (H1-H13): requests to events, and events to webhook requests."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from app.bindings.documents import JSON_DOCUMENT, write_document
from app.bindings.headers import (
    NotACloudEvent,
    attribute_names,
    collapse,
    header_names,
    malformed,
    percent_decode,
    percent_decode_once,
    percent_encode,
    percent_encode_json,
    plain_attributes,
    plain_texts,
)
from app.bindings.modes import WireType, document_text, wire_type
from app.bindings.older import older_headers, read_older
from app.bindings.record import ContentMode, Decoded
from app.errors import Fault, InvalidEvent
from app.event.upgrade import older_version
from app.event.validate import clip, faults_of, merge, shorten
from app.event.value import CloudEvent, DataForm
from app.event.versions import NEWEST, VERSIONS
from app.formats import json

MAX_BATCH = 10_000  # events in one batch (H5); more are answered 413
JSON_BATCH = f"{json.BATCH_MEDIA_TYPE}; charset=UTF-8"  # H13

Pairs = Sequence[tuple[bytes, bytes]]

_BINARY = ContentMode.BINARY
_BATCH = ContentMode.BATCH
_SAYS_NEWEST = (b"ce-specversion", NEWEST.encode())
_NAMES = attribute_names("ce-")
_HEADERS = header_names("ce-")


class HttpMessage(msgspec.Struct, frozen=True):
    """Headers and body of a request, ready for a client."""

    headers: tuple[tuple[str, str], ...]
    body: bytes


def decode(
    headers: Pairs, body: bytes, *, strict_percent: bool = False, max_batch: int = MAX_BATCH
) -> list[Decoded]:
    """The events of one request: one, or those of a batch, which may be none.

    ``headers``         names in lower case.
    ``strict_percent``  refuse a malformed ``%`` or quote in a header instead of keeping it.

    Raises InvalidEvent with every fault, NotACloudEvent, and SenderError (413, 415).
    """
    names: list[str] = []
    values: list[bytes] = []
    content_type: bytes | None = None
    for name, value in headers:
        if name[:3] == b"ce-":
            names.append(_NAMES[name])
            values.append(value)
        elif name == b"content-type":
            content_type = _only(content_type, value.strip(b" \t"))
    wire = wire_type(content_type) if content_type is not None else None
    if wire is not None and wire.mode is not _BINARY:  # H4: the content type alone decides
        return _read_documents(wire, body, max_batch)  # H12: ce- headers beside it are ignored
    attributes = plain_attributes(names, plain_texts(values), wire.text if wire else None)
    # H9: the body as it is; a request without body is an event without data
    data = body or None
    if attributes is not None:
        return [Decoded(CloudEvent(attributes, data), _BINARY)]
    older = _older_version(headers)
    if older is not None:
        return [Decoded(_read_older(older, headers, wire, data, strict_percent), _BINARY)]
    return [Decoded(CloudEvent(_read_closely(headers, wire, strict_percent), data), _BINARY)]


def _older_version(headers: Pairs) -> str | None:
    if _SAYS_NEWEST in headers:
        return None  # the usual answer, at little cost
    named = {header.lower(): value for header, value in headers}

    def said(attribute: str) -> str | None:
        try:
            return percent_decode(named.get(b"ce-" + attribute.lower().encode(), b""))
        except UnicodeDecodeError:
            return None

    return older_version(said, _locate)


def _read_older(
    name: str, headers: Pairs, wire: WireType | None, data: bytes | None, strict: bool
) -> CloudEvent:
    """V6: a header of 0.1 and 0.2 holds a JSON value, one of 0.3 what one of 1.0 does."""
    decode_value = percent_decode_once if VERSIONS[name].quoted else percent_decode
    pairs: list[tuple[str, str]] = []
    faults: list[Fault] = []
    for header, value in headers:
        if header[:3].lower() != b"ce-":
            continue
        text = _header_text(header, value, decode_value, strict)
        if isinstance(text, Fault):
            faults.append(text)
        else:
            pairs.append((header[3:].decode("latin-1"), text))
    if faults:
        raise InvalidEvent(faults)
    return read_older(name, pairs, wire.text if wire else None, data, _locate_older)


def _locate_older(name: str) -> str:
    return f"header ce-{clip(name.lower())[1:-1]}"


def _only(first: bytes | None, second: bytes) -> bytes:
    if first is None or first == second:
        return second
    detail = "content-type is given twice, with different values."
    raise InvalidEvent([Fault("repeated-attribute", detail, "header content-type", "H8")])


def _read_documents(wire: WireType, body: bytes, max_batch: int) -> list[Decoded]:
    text = document_text(wire, body)
    if wire.mode is not _BATCH:
        return [Decoded(json.read_event(text), wire.mode, body, wire.text)]
    return [
        Decoded(event, _BATCH, slice_, JSON_DOCUMENT)
        for event, slice_ in json.read_batch(text, max_batch)
    ]


def _read_closely(headers: Pairs, wire: WireType | None, strict: bool) -> dict[str, str]:
    """Anything out of the ordinary: percent code, quotes, repeats, bad names, faults."""
    read: list[tuple[str, str]] = []
    faults: list[Fault] = []
    for header, value in headers:
        if header[:3] != b"ce-":
            continue
        text = _read_header(header, value, wire, strict)
        if isinstance(text, Fault):
            faults.append(text)
        elif text is not None:
            read.append((_NAMES[header], text))
    attributes, repeats = collapse(read, _locate)
    if wire is not None:
        attributes["datacontenttype"] = wire.text  # H8: never percent-coded
    faults = merge(faults + repeats, faults_of(attributes, _locate))
    if faults:
        raise _refusal(faults)
    return attributes


def _read_header(
    header: bytes, value: bytes, wire: WireType | None, strict: bool
) -> str | Fault | None:
    """The text of one ce- header, what is wrong with it, or None for one that is ignored."""
    if header == b"ce-datacontenttype":
        return _second_content_type(value, wire)
    if not _NAMES[header]:
        detail = "names no attribute: lower-case letters a-z and digits only, and not data"
        return _header_fault(header, "bad-attribute-name", detail, "core 1.2")
    return _header_text(header, value, percent_decode, strict)


def _header_text(
    header: bytes, value: bytes, decode_value: Callable[[bytes], str], strict: bool
) -> str | Fault:
    wrong = malformed(value) if strict else None
    if wrong is not None:
        return _header_fault(header, "bad-percent", f"holds {wrong}", "HTTP 3.1.3.2")
    try:
        return decode_value(value)
    except UnicodeDecodeError:
        return _header_fault(header, "bad-utf8", "is not UTF-8 after decoding", "HTTP 3.1.3.2")


def _header_fault(header: bytes, code: str, detail: str, rule: str) -> Fault:
    at = f"header {clip(header.decode('latin-1'))[1:-1]}"
    return Fault(code, f"{at} {detail}.", at, rule)


def _second_content_type(value: bytes, wire: WireType | None) -> Fault | None:
    """H8: ``ce-datacontenttype`` must not be there. One that repeats Content-Type does no harm and is
    ignored; any other would leave open which of them is true.
    """
    if wire is not None and value.strip(b" \t") == wire.text.encode("utf-8", "surrogateescape"):
        return None
    detail = "must not be sent: the content type of the data is the header Content-Type"
    return _header_fault(b"ce-datacontenttype", "unexpected-datacontenttype", detail, "H8")


def _refusal(faults: list[Fault]) -> InvalidEvent | NotACloudEvent:
    """H7: without a single required attribute it is no CloudEvent at all, rather than a bad one."""
    missing = sum(fault.code == "missing-attribute" for fault in faults)
    if missing < sum(rule.required for rule in VERSIONS[NEWEST].rules.values()):
        return InvalidEvent(faults)
    return NotACloudEvent(
        "Not a CloudEvent: no ce- headers, and the content type is none of the family", faults
    )


def _locate(name: str) -> str:
    return "header content-type" if name == "datacontenttype" else f"header ce-{shorten(name)}"


def encode(decoded: Decoded, mode: ContentMode) -> HttpMessage:
    """A webhook request. Structured: the document the event came with is reused untouched.

    A binary event without data is a request with headers only.
    """
    if mode is _BINARY:
        return _write_binary(decoded.event)
    document, media_type = write_document(decoded)
    if mode is _BATCH:
        return HttpMessage((("Content-Type", JSON_BATCH),), json.write_batch([document]))
    return HttpMessage((("Content-Type", media_type),), document)  # H11


def _write_binary(event: CloudEvent) -> HttpMessage:
    if event.version != NEWEST:
        return _write_older(event)
    attributes = {**event.attributes}
    attributes.pop("datacontenttype", None)  # H8
    texts = percent_encode(attributes.values())
    headers = [(_HEADERS[name], text) for name, text in zip(attributes, texts, strict=True)]  # H10
    content_type = content_type_of(event)
    if content_type is not None:
        headers.append(("Content-Type", content_type))
    return HttpMessage(tuple(headers), event.data or b"")


def _write_older(event: CloudEvent) -> HttpMessage:
    """The headers of the event's own version."""
    version = VERSIONS[event.version]
    prefix = "CE-" if version.nested else "ce-"
    names, texts = zip(*older_headers(event), strict=True)
    coded = (
        [percent_encode_json(text) for text in texts] if version.quoted else percent_encode(texts)
    )
    headers = [(prefix + name, text) for name, text in zip(names, coded, strict=True)]
    content_type = content_type_of(event)
    if content_type is not None:
        headers.append(("Content-Type", content_type))
    return HttpMessage(tuple(headers), event.data or b"")


def content_type_of(event: CloudEvent) -> str | None:
    """``datacontenttype``, made explicit where the JSON format had implied it (J13, I4)."""
    implied = "application/json" if event.data_form is DataForm.JSON else None
    return event.attributes.get("datacontenttype", implied)
