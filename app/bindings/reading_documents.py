"""Read structured and batched mode for all bindings, including documents without a media type or in an unknown
format.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from app.bindings.modes import WireType, written_as
from app.bindings.record import ContentMode, Decoded
from app.bindings.run import EventColumns
from app.errors import Fault, InvalidEvent, SenderError
from app.event import json_text
from app.event.media_types import declares_json
from app.event.media_types import parse as parse_media_type
from app.event.types import forbidden_character, is_name
from app.event.validate import clip
from app.event.value import CloudEvent
from app.formats import json
from app.formats.json_columns import BatchColumns
from app.formats.registry import BATCH_FORMATS, FORMATS

BOM = b"\xef\xbb\xbf"
JSON = frozenset({json.MEDIA_TYPE, json.BATCH_MEDIA_TYPE})
NOTHING_MIRRORED = CloudEvent(
    {}
)  # no attributes in headers next to a document in an unknown format

_AT = "header content-type"
_STRUCTURED = ContentMode.STRUCTURED
_BATCH = ContentMode.BATCH
_OPENING = {json.MEDIA_TYPE: b"{", json.BATCH_MEDIA_TYPE: b"["}


def is_readable(wire: WireType, body: bytes) -> bool:
    """Return True if Skybridge reads the document's format.

    A CloudEvents media type without a format counts as JSON if the body begins like JSON. Raises SenderError
    (415) for XML, which is refused even if the settings forward unknown formats.
    """
    if wire.essence:
        return wire.named or not body or _begins_like_json(wire, body)
    if wire.text.partition(";")[0].strip().lower().endswith("+xml"):
        raise unsupported_format(wire, "XML is not read, because it may load external entities")
    return False


def _begins_like_json(wire: WireType, body: bytes) -> bool:
    if wire.media_type is not None and wire.media_type.charset not in (None, "utf-8"):
        return True  # a type with a charset is text
    text = body.removeprefix(BOM).lstrip(b" \t\r\n")
    return text.startswith(_OPENING[wire.essence])


def no_document(rule: str) -> InvalidEvent:
    """Return the error for an empty body whose content type promises a document."""
    detail = "A structured event needs a document as its body, even without data."
    return InvalidEvent([Fault("no-document", detail, rule=rule)])


def read_document(wire: WireType, body: bytes, at: str = _AT) -> Decoded:
    """Return the event of a structured document.

    Args:
        wire: The content type, in a format that Skybridge reads.
        body: The document.
        at: The place of the content type, for faults.

    Raises:
        InvalidEvent: The event has faults, all of which are listed.
        SenderError: The charset is unknown, or the library of the format is missing (415).
    """
    event = FORMATS[wire.essence].read_event(text_of(wire, body, at))
    return Decoded(event, _STRUCTURED, body, wire.text)


def read_batch(wire: WireType, body: bytes, limit: int | None = None) -> Sequence[Decoded]:
    """Return the events of a batch. Each event keeps its slice of the batch, which is a document of its own.

    Raises:
        InvalidEvent: An event has faults, all of which are listed.
        SenderError: The batch has more than ``limit`` events (413), or its charset or format is not supported
            (415).
    """
    found = BATCH_FORMATS[wire.essence].read_batch(text_of(wire, body), limit)
    media_type = written_as(wire.essence.replace("-batch", "", 1))
    if isinstance(found, BatchColumns):
        return EventColumns(found, media_type)
    return [Decoded(event, _BATCH, slice_, media_type) for event, slice_ in found]


def named_in(wire: WireType | None, body: bytes) -> Mapping[str, str]:
    """Return the attributes of a document that may be no valid event. Attributes that cannot be read are left
    out.

    A document without a known media type is read as JSON.
    """
    format_ = FORMATS.get(wire.essence if wire else "", FORMATS[json.MEDIA_TYPE])
    try:
        found = format_.peek(body)
    except (SenderError, ValueError, RecursionError):
        return {}
    return {
        name: value.encode("utf-8", "replace").decode()
        for name, value in found.items()
        if isinstance(value, str)
    }


def read_unnamed_document(body: bytes) -> Decoded:
    """Return the event of a JSON document whose producer did not declare it as an event."""
    return Decoded(json.read_event(body), _STRUCTURED, body)


def mirrored_event(given: Iterable[tuple[str, str]]) -> CloudEvent:
    """Return an event with the attributes that headers repeat from a document in an unknown format.

    Only attributes that can be written again are kept. If a header is repeated, its first value counts.
    """
    attributes: dict[str, str] = {}
    for name, text in given:
        writable = is_name(name) and name != "datacontenttype" and forbidden_character(text) is None
        if writable:
            attributes.setdefault(name, text)
    return CloudEvent(attributes)


def opaque_document(
    wire: WireType, body: bytes | None, event: CloudEvent = NOTHING_MIRRORED, at: str = _AT
) -> Decoded:
    """Return the event of a document in an unknown format, which is forwarded byte for byte.

    Args:
        wire: The content type of the document.
        body: The document.
        event: The attributes that headers gave next to the document.
        at: The place of the content type, for faults.

    Raises:
        InvalidEvent: The content type is malformed, so that the receiver would refuse the document.
    """
    if parse_media_type(wire.text) is None:
        raise InvalidEvent([_malformed(wire, at)])
    return Decoded(event, wire.mode, body or b"", wire.text, opaque=True)


def _malformed(wire: WireType, at: str) -> Fault:
    return Fault(
        "bad-media-type", f"The content type {clip(wire.text)} is malformed.", at, "RFC 2046"
    )


def text_of(wire: WireType, body: bytes, at: str = _AT) -> bytes:
    """Return a JSON document in UTF-8, converted from its declared charset. Other documents are returned
    unchanged.

    Raises:
        SenderError: The charset is unknown (415).
        InvalidEvent: The bytes are not in the declared charset.
    """
    media_type = wire.media_type
    if media_type is None:
        raise InvalidEvent([_malformed(wire, at)])
    charset = media_type.charset
    if charset is None or charset == "utf-8" or wire.essence not in JSON:
        return body
    if media_type.codec is None:
        title = f"The charset {clip(charset)} is not supported: send UTF-8"
        raise SenderError(title, status=415, code="unsupported-charset")
    try:
        return media_type.decode(body).encode()
    except UnicodeError as error:
        detail = f"The document is not in its charset {clip(charset)}: {error}."
        raise InvalidEvent([Fault("bad-charset", detail, rule="J4")]) from None


def unsupported_format(wire: WireType, why: str = "") -> SenderError:
    """Return the error for a document in a format that Skybridge does not read."""
    readable = ", ".join([*FORMATS, *BATCH_FORMATS])
    because = f" ({why})" if why else ""
    return SenderError(
        f"The event format {clip(wire.text)} is not supported{because}: send {readable}, or binary mode",
        status=415,
        code="unsupported-format",
    )


class _Required(msgspec.Struct):
    """The members of a JSON object that show it to be an event of version 0.2 or later."""

    specversion: str
    id: str
    source: str
    type: str


class _Required01(msgspec.Struct, rename="camel"):
    """The members of a JSON object that show it to be an event of version 0.1."""

    cloud_events_version: str
    event_id: str = msgspec.field(name="eventID")
    source: str
    event_type: str


_DECODERS = (msgspec.json.Decoder(_Required), msgspec.json.Decoder(_Required01))


def holds_event(content_type: str | None, body: bytes | None) -> bool:
    """Return True if a body is a JSON object with the required attributes of an event. Its content type must
    be JSON or absent.

    Some producers give a document the content type of its data, or no content type.
    """
    if not body or not declares_json(content_type):
        return False
    return any(_holds(decoder, body) for decoder in _DECODERS)


def _holds(
    decoder: msgspec.json.Decoder[_Required] | msgspec.json.Decoder[_Required01], body: bytes
) -> bool:
    try:
        decoder.decode(body)
    except msgspec.ValidationError:
        return False
    except (
        msgspec.DecodeError
    ):  # no JSON, or JSON with unpaired surrogates, which the other parser reads
        return _holds_texts(decoder.type, body)
    except (UnicodeDecodeError, RecursionError):
        return False
    return True


def _holds_texts(kind: type[msgspec.Struct], body: bytes) -> bool:
    try:
        members = json_text.members(body)
    except json_text.NOT_JSON:
        return False
    needed = [bytes(members.get(name, b"")) for name in kind.__struct_encode_fields__]
    return all(each.startswith(b'"') for each in needed)
