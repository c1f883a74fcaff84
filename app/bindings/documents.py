"""Structured and batched mode, which the bindings have in common: documents, and their media types."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Literal

from app.bindings.modes import WireType, wire_type
from app.bindings.record import ContentMode, Decoded
from app.bindings.run import Run
from app.errors import Fault, InvalidEvent, SenderError
from app.event.media_types import parse as parse_media_type
from app.event.types import forbidden_character, is_name
from app.event.validate import clip
from app.event.value import CloudEvent, DataForm
from app.formats import json
from app.formats.json_columns import Columns
from app.formats.registry import BATCH_FORMATS, FORMATS

FormatName = Literal["as_received", "json", "protobuf", "avro"]

# In lower case: the JavaScript SDK compares it to the letter (docs/opinions.md).
_UTF_8 = "; charset=utf-8"
JSON_DOCUMENT = json.MEDIA_TYPE + _UTF_8  # H11, K16, R10
NOTHING_MIRRORED = CloudEvent({})  # of an opaque document without mirrored headers

_AT = "header content-type"
_BOM = b"\xef\xbb\xbf"
_STRUCTURED = ContentMode.STRUCTURED
_BATCH = ContentMode.BATCH
_JSON = frozenset({json.MEDIA_TYPE, json.BATCH_MEDIA_TYPE})
_CONTENT_TYPES = {json.MEDIA_TYPE: JSON_DOCUMENT}  # of what is written; the others have no charset
_OPENING = {json.MEDIA_TYPE: b"{", json.BATCH_MEDIA_TYPE: b"["}


def content_type_of(event: CloudEvent) -> str | None:
    """``datacontenttype``, made explicit where the JSON format had implied it (J13, I4)."""
    implied = "application/json" if event.data_form is DataForm.JSON else None
    return event.attributes.get("datacontenttype", implied)


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
    text = body.removeprefix(_BOM).lstrip(b" \t\r\n")
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
    event = FORMATS[wire.essence].read_event(_text(wire, body, at))
    return Decoded(event, _STRUCTURED, body, wire.text)


def read_batch(wire: WireType, body: bytes, limit: int | None = None) -> Sequence[Decoded]:
    """Each event of a batch with its own slice, which is a document again (J14). Errors likewise,
    and SenderError (413) for more than ``limit`` events.
    """
    found = BATCH_FORMATS[wire.essence].read_batch(_text(wire, body), limit)
    media_type = _written_as(wire.essence.replace("-batch", "", 1))
    if isinstance(found, Columns):
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


def write_document(decoded: Decoded, name: FormatName = "as_received") -> tuple[bytes, str]:
    """The document and its media type; what arrived as a document of that format goes on untouched.

    Raises NotRepresentable (422), and SenderError (415) for a format whose library is missing, and
    where a document that nobody here reads is to be in a format (4.7).
    """
    if decoded.opaque:
        return _unread_document(decoded, name)
    arrived = _format_of(decoded)
    wanted = arrived if name == "as_received" else f"application/cloudevents+{name}"
    if decoded.document is not None and wanted == arrived:
        return decoded.document, decoded.media_type or JSON_DOCUMENT
    return FORMATS[wanted].write_event(decoded.event), _written_as(wanted)


def _unread_document(decoded: Decoded, name: str) -> tuple[bytes, str]:
    media_type = decoded.media_type or ""
    if name != "as_received":
        raise unsupported_format(_wire(media_type), f"it cannot be converted into {name}")
    return decoded.document or b"", media_type


def write_batch(batch: Sequence[Decoded], name: FormatName = "json") -> tuple[bytes, str]:
    """One document of all of them, each as it arrived where it arrived in that format (J14).

    Raises InvalidEvent for events of several versions (I6), and what ``write_document`` raises; an
    opaque document cannot be joined.
    """
    mixed = _mixed_versions(batch)
    if mixed:
        raise InvalidEvent(mixed)
    return joined([element_of(decoded, name) for decoded in batch], name)


def joined(elements: Sequence[bytes], name: FormatName = "json") -> tuple[bytes, str]:
    """One document of elements of one version (I6), and its media type."""
    name = "json" if name == "as_received" else name
    essence = f"application/cloudevents-batch+{name}"
    if essence not in BATCH_FORMATS:
        title = f"The {name} event format has no batch"
        raise SenderError(title, status=415, code="unsupported-format")
    written = BATCH_FORMATS[essence].write_batch(elements)
    return written, essence + _UTF_8 if essence in _JSON else essence  # H13


def element_of(decoded: Decoded, name: FormatName = "json") -> bytes:
    """An event as it stands in a batch. In UTF-8, whatever charset it arrived in: a batch has one
    charset, and no mark within. Raises what ``write_document`` raises.
    """
    document, media_type = write_document(decoded, "json" if name == "as_received" else name)
    wire = _wire(media_type)
    text = _text(wire, document)
    return text.removeprefix(_BOM) if wire.essence in _JSON else text


def _mixed_versions(batch: Sequence[Decoded]) -> list[Fault]:
    return [
        Fault(
            "mixed-specversions",
            f"{decoded.event.version} differs from the batch's first, {batch[0].event.version}.",
            f"/{index}",
            "I6",
            index,
        )
        for index, decoded in enumerate(batch)
        if decoded.event.version != batch[0].event.version
    ]


def _format_of(decoded: Decoded) -> str:
    """The essence of the format that it arrived in; JSON where it was none."""
    if decoded.media_type is None or decoded.media_type is JSON_DOCUMENT:
        return json.MEDIA_TYPE
    return _wire(decoded.media_type).essence or json.MEDIA_TYPE


def _wire(media_type: str) -> WireType:
    return wire_type(media_type.encode("utf-8", "surrogateescape"))


def _written_as(essence: str) -> str:
    return _CONTENT_TYPES.get(essence, essence)


def _text(wire: WireType, body: bytes, at: str = _AT) -> bytes:
    """A JSON document in UTF-8, from whatever charset the content type declares; any other as it is.

    Raises SenderError (415) for a charset that we do not know, InvalidEvent for bytes that are not
    of it.
    """
    media_type = wire.media_type
    if media_type is None:
        raise InvalidEvent([_malformed(wire, at)])
    charset = media_type.charset
    if charset is None or charset == "utf-8" or wire.essence not in _JSON:
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
