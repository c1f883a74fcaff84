"""Decode binary HTTP requests with percent-encoding, quotes, repeated headers, older versions or faults."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from app.bindings.headers import (
    NotACloudEvent,
    attribute_names,
    collapse,
    count_joined,
    malformed,
    not_utf8,
    percent_decode,
    percent_decode_once,
    split_joined,
)
from app.bindings.modes import WireType, wire_type
from app.bindings.older import read_older
from app.bindings.reading_documents import mirrored_event
from app.errors import Fault, InvalidEvent
from app.event.media_types import MediaType
from app.event.media_types import parse as parse_media_type
from app.event.memo import Memo
from app.event.upgrade import older_version
from app.event.validate import clip, faults_of, merge, shorten
from app.event.value import CloudEvent
from app.event.versions import ATTRIBUTES, NEWEST, VERSIONS

Pairs = Sequence[tuple[bytes, bytes]]

_NEWEST_VERSION = (b"ce-specversion", NEWEST.encode())
_NAMES = attribute_names("ce-")
_TYPED = "datacontenttype"
_VERSION_HEADERS = frozenset(b"ce-" + attribute.lower().encode() for attribute in ATTRIBUTES)


def demand_one_type(headers: Pairs) -> None:
    """Raise InvalidEvent if the content type is repeated with different values."""
    given = {value.strip(b" \t") for name, value in headers if name == b"content-type"}
    if len(given) > 1:
        raise _two_content_types()


def _two_content_types() -> InvalidEvent:
    detail = "content-type is given twice, with different values."
    return InvalidEvent([Fault("repeated-attribute", detail, "header content-type", "H8")])


def _wire_of(content_type: bytes) -> WireType:
    """Return the mode and format of a content type. A list of equal media types counts as one.

    An intermediary joins repeated headers into a list (RFC 9110 5.3).
    """
    content_type = content_type.strip(b" \t")
    if b"," in content_type and _media_type(content_type) is None:
        listed = {part.strip(b" \t") for part in content_type.split(b",")}
        if all(_media_type(part) for part in listed):
            content_type = listed.pop()
            if listed:
                raise _two_content_types()
    return wire_type(content_type)


def _media_type(content_type: bytes) -> MediaType | None:
    return parse_media_type(content_type.decode("latin-1"))


wire_of = Memo(_wire_of)
"""A cached mapping from a content type to its mode and format. Raises InvalidEvent for a list of different
media types."""


def read_binary(
    headers: Pairs, wire: WireType | None, data: bytes | None, *, strict: bool
) -> CloudEvent:
    """Return the event of a binary request. Raises InvalidEvent with every fault, or NotACloudEvent."""
    headers = _unjoined(headers)
    older = _older_version(headers)
    if older is not None:
        return _read_older(older, headers, wire, data, strict)
    return CloudEvent(_read_newest(headers, wire, strict), data)


def demand_media_type(wire: WireType) -> None:
    """Raise InvalidEvent if the content type of a document in an unknown format is malformed."""
    if parse_media_type(wire.text) is None:
        detail = f"The content type {clip(wire.text)} is malformed."
        raise InvalidEvent([Fault("bad-media-type", detail, "header content-type", "RFC 2046")])


def mirrored(headers: Pairs) -> CloudEvent:
    """Return an event with the attributes that ``ce-`` headers repeat from a document in an unknown
    format."""
    read: list[tuple[str, str]] = []
    for header, value in headers:
        name = _NAMES[header] if header[:3] == b"ce-" else ""
        text = _header_text(header, value, percent_decode, False) if name else None
        if isinstance(text, str):
            read.append((name, text))
    return mirrored_event(read)


def _unjoined(headers: Pairs) -> Pairs:
    """Return the headers as they were sent, before an intermediary joined repeated headers into lists (RFC
    9110 5.3).

    A version is never a list, so ``1.0, 1.0`` shows that the headers were joined.
    """
    joined = [count_joined(value) for name, value in headers if name in _VERSION_HEADERS]
    times = max(joined, default=1)
    if times == 1:
        return headers
    return [
        (name, part)
        for name, value in headers
        for part in (split_joined(value, times) if name[:3] == b"ce-" else (value,))
    ]


def _older_version(headers: Pairs) -> str | None:
    if _NEWEST_VERSION in headers:
        return None  # the usual answer, at little cost
    named = {header.lower(): value for header, value in headers}

    def said(attribute: str) -> str | None:
        try:
            return percent_decode(named.get(b"ce-" + attribute.lower().encode(), b""))
        except UnicodeDecodeError:
            return None

    return older_version(said, _locate_older)


def _read_older(
    name: str, headers: Pairs, wire: WireType | None, data: bytes | None, strict: bool
) -> CloudEvent:
    """Return the event of an older version. Headers of 0.1 and 0.2 hold JSON values, those of 0.3 plain text."""
    decode_value = percent_decode_once if VERSIONS[name].quoted else percent_decode
    pairs: list[tuple[str, str]] = []
    faults = _unreadable_type(wire)
    spelled: dict[str, str] = {}  # attribute names that differ only in case are one
    for header, value in headers:
        if header[:3].lower() != b"ce-":
            continue
        text = _header_text(header, value, decode_value, strict)
        if isinstance(text, Fault):
            faults.append(text)
        else:
            own = header[3:].decode("latin-1")
            pairs.append((spelled.setdefault(own.lower(), own), text))
    if faults:
        raise InvalidEvent(faults)
    return read_older(name, pairs, wire.text if wire else None, data, _locate_older)


def _locate_older(name: str) -> str:
    return f"header ce-{clip(name.lower())[1:-1]}"


def _read_newest(headers: Pairs, wire: WireType | None, strict: bool) -> dict[str, str]:
    read: list[tuple[str, str]] = []
    faults = _unreadable_type(wire)
    for header, value in headers:
        if header[:3] != b"ce-":
            continue
        text = _read_header(header, value, wire, strict)
        if isinstance(text, Fault):
            faults.append(text)
        elif text is not None:
            read.append((_NAMES[header], text))
    attributes, repeats = collapse(read, _locate)
    if wire is not None and wire.is_utf8:
        attributes[_TYPED] = wire.text  # the content type is never percent-encoded
    faults = merge(faults + repeats, faults_of(attributes, _locate))
    if faults:
        raise _refusal(faults)
    return attributes


def _unreadable_type(wire: WireType | None) -> list[Fault]:
    return [] if wire is None or wire.is_utf8 else [not_utf8(_locate(_TYPED), "H8")]


def _read_header(
    header: bytes, value: bytes, wire: WireType | None, strict: bool
) -> str | Fault | None:
    """Return the text of one ``ce-`` header, its fault, or None if the header is ignored."""
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
    at = f"header {clip(header.decode('latin-1').lower())[1:-1]}"
    return Fault(code, f"{at} {detail}.", at, rule)


def _second_content_type(value: bytes, wire: WireType | None) -> Fault | None:
    """Return the fault of a header ``ce-datacontenttype``, which must not be sent.

    A value that equals Content-Type is harmless and ignored. With any other value it would be unclear which
    of the two is right.
    """
    if wire is not None and value.strip(b" \t") == wire.text.encode("utf-8", "surrogateescape"):
        return None
    detail = "must not be sent: the content type of the data is the header Content-Type"
    return _header_fault(b"ce-datacontenttype", "unexpected-datacontenttype", detail, "H8")


def _refusal(faults: list[Fault]) -> InvalidEvent | NotACloudEvent:
    """Return NotACloudEvent if every required attribute is missing, otherwise InvalidEvent."""
    missing = sum(fault.code == "missing-attribute" for fault in faults)
    if missing < sum(rule.required for rule in VERSIONS[NEWEST].rules.values()):
        return InvalidEvent(faults)
    return NotACloudEvent(
        "Not a CloudEvent: no ce- headers, and the content type is none of the family", faults
    )


def _locate(name: str) -> str:
    return "header content-type" if name == _TYPED else f"header ce-{shorten(name)}"
