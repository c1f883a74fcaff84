"""Read structured and batched mode, which the bindings have in common: documents, also those without a media type, and
those in a format that is unknown here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from app.bindings.modes import WireType, written_as
from app.bindings.record import ContentMode, Decoded
from app.bindings.run import Run
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
NOTHING_MIRRORED = CloudEvent({})  # of an opaque document without mirrored headers

_AT = "header content-type"
_STRUCTURED = ContentMode.STRUCTURED
_BATCH = ContentMode.BATCH
_OPENING = {json.MEDIA_TYPE: b"{", json.BATCH_MEDIA_TYPE: b"["}


def is_readable(wire: WireType, body: bytes) -> bool:
    """Whether a document is in a format of ours. One without a format is, when it begins like JSON
    (4.6). Raises SenderError (415) for XML, which is refused whatever becomes of unknown formats.
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
    """The refusal of an empty body where the content type promises a document."""
    detail = "A structured event needs a document as its body, even without data."
    return InvalidEvent([Fault("no-document", detail, rule=rule)])


def read_document(wire: WireType, body: bytes, at: str = _AT) -> Decoded:
    """The event of a document in a format of ours. Raises InvalidEvent, and SenderError (415) for
    charsets that we do not know and formats whose library is missing.

    ``at``  where the content type stood.
    """
    event = FORMATS[wire.essence].read_event(text_of(wire, body, at))
    return Decoded(event, _STRUCTURED, body, wire.text)


def read_batch(wire: WireType, body: bytes, limit: int | None = None) -> Sequence[Decoded]:
    """Each event of a batch with its own slice, which is a document again (J14). Errors likewise,
    and SenderError (413) for more than ``limit`` events.
    """
    found = BATCH_FORMATS[wire.essence].read_batch(text_of(wire, body), limit)
    media_type = written_as(wire.essence.replace("-batch", "", 1))
    if isinstance(found, BatchColumns):
        return Run(found, media_type)
    return [Decoded(event, _BATCH, slice_, media_type) for event, slice_ in found]


def named_in(wire: WireType | None, body: bytes) -> Mapping[str, str]:
    """Return the text attributes of a document that may be no valid event, as far as its format can be read. Without
    a media type of a format it is looked at as JSON."""
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
    """The event of a document whose producer did not name it as one."""
    return Decoded(json.read_event(body), _STRUCTURED, body)


def mirrored_event(given: Iterable[tuple[str, str]]) -> CloudEvent:
    """What headers beside an opaque document tell is known of it, and nothing is judged (4.7), but that
    it can be written again; of a repeated one the first counts.
    """
    attributes: dict[str, str] = {}
    for name, text in given:
        writable = is_name(name) and name != "datacontenttype" and forbidden_character(text) is None
        if writable:
            attributes.setdefault(name, text)
    return CloudEvent(attributes)


def unread(
    wire: WireType, body: bytes | None, event: CloudEvent = NOTHING_MIRRORED, at: str = _AT
) -> Decoded:
    """A document that nobody here reads, to be passed on byte for byte (H6, K5); ``event`` has what
    mirrored headers told.

    Raises InvalidEvent for a content type that the next reader could not take, or nobody could write.
    """
    if parse_media_type(wire.text) is None:
        raise InvalidEvent([_malformed(wire, at)])
    return Decoded(event, wire.mode, body or b"", wire.text, opaque=True)


def _malformed(wire: WireType, at: str) -> Fault:
    return Fault(
        "bad-media-type", f"The content type {clip(wire.text)} is malformed.", at, "RFC 2046"
    )


def text_of(wire: WireType, body: bytes, at: str = _AT) -> bytes:
    """A JSON document in UTF-8, from whatever charset the content type declares; any other as it is.

    Raises SenderError (415) for a charset that we do not know, InvalidEvent for bytes that are not
    of it.
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
    """The refusal of a document in a format that is not ours to read, or to keep as it is."""
    readable = ", ".join([*FORMATS, *BATCH_FORMATS])
    because = f" ({why})" if why else ""
    return SenderError(
        f"The event format {clip(wire.text)} is not supported{because}: send {readable}, or binary mode",
        status=415,
        code="unsupported-format",
    )


class _Required(msgspec.Struct):
    """What a JSON object must hold to be taken for an event."""

    specversion: str
    id: str
    source: str
    type: str


class _Required01(msgspec.Struct, rename="camel"):
    """The same in version 0.1 (spec.md 3.1, shape A)."""

    cloud_events_version: str
    event_id: str = msgspec.field(name="eventID")
    source: str
    event_type: str


_DECODERS = (msgspec.json.Decoder(_Required), msgspec.json.Decoder(_Required01))


def holds_event(content_type: str | None, body: bytes | None) -> bool:
    """Whether a body of plain JSON type, or of none, is an object with the required attributes. Producers
    exist that give a document the content type of its data, or none (K16 and P3 as they are broken).
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
    except msgspec.DecodeError:  # no JSON, or JSON that only a closer look can read
        return _holds_texts(decoder.type, body)
    except (UnicodeDecodeError, RecursionError):
        return False
    return True


def _holds_texts(kind: type[msgspec.Struct], body: bytes) -> bool:
    try:
        members = json_text.members(body)
    except json_text.FAULTS:
        return False
    needed = [bytes(members.get(name, b"")) for name in kind.__struct_encode_fields__]
    return all(each.startswith(b'"') for each in needed)
