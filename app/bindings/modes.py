"""Which mode, and which document: decided by the content type alone (H4, K4, spec trap 2)."""

from __future__ import annotations

import msgspec

from app.bindings.record import ContentMode
from app.errors import Fault, InvalidEvent, SenderError
from app.event.media_types import MediaType
from app.event.media_types import parse as parse_media_type
from app.event.memo import Memo
from app.event.validate import clip

_FAMILY = "application/cloudevents"
_BATCH = "application/cloudevents-batch"
_JSON_DOCUMENTS = {  # bare names, without a format, are tried as JSON
    _FAMILY: ContentMode.STRUCTURED,
    f"{_FAMILY}+json": ContentMode.STRUCTURED,
    _BATCH: ContentMode.BATCH,
    f"{_BATCH}+json": ContentMode.BATCH,
}


class WireType(msgspec.Struct, frozen=True):
    """A content type as it decides the mode.

    ``mode``      BINARY for everything outside the CloudEvents family.
    ``readable``  False for a document in a format that is not ours to read (H6, K5).
    ``text``      the content type as it is, forwarded with its parameters.
    ``media_type``  of a readable document; None where it cannot be parsed.
    """

    mode: ContentMode
    readable: bool
    text: str
    media_type: MediaType | None = None


def _wire_type(content_type: bytes) -> WireType:
    """The mode that a content type asks for: batch prefix first, any case."""
    text = content_type.decode("utf-8", "surrogateescape")
    essence = text.partition(";")[0].strip().lower()
    if not essence.startswith(_FAMILY):
        return WireType(ContentMode.BINARY, readable=True, text=text)
    if essence not in _JSON_DOCUMENTS:
        mode = ContentMode.BATCH if essence.startswith(_BATCH) else ContentMode.STRUCTURED
        return WireType(mode, readable=False, text=text)
    media_type = parse_media_type(text)
    return WireType(_JSON_DOCUMENTS[essence], readable=True, text=text, media_type=media_type)


wire_type = Memo(_wire_type).__getitem__


def document_text(wire: WireType, body: bytes) -> bytes:
    """The JSON document in UTF-8, from whatever charset the content type declares.

    Raises SenderError (415) for a format or charset that we do not read, InvalidEvent for bytes that
    are not of the charset.
    """
    if not wire.readable:
        raise unsupported_format(wire)
    media_type = wire.media_type
    if media_type is None:
        detail = f"The content type {clip(wire.text)} is malformed."
        raise InvalidEvent([Fault("bad-media-type", detail, "header content-type", "RFC 2046")])
    if media_type.charset is None or media_type.charset == "utf-8":
        return body
    return _transcoded(media_type, media_type.charset, body)


def _transcoded(media_type: MediaType, charset: str, body: bytes) -> bytes:
    if media_type.codec is None:
        raise SenderError(
            f"The charset {clip(charset)} is not supported: send UTF-8",
            status=415,
            code="unsupported-charset",
        )
    try:
        return media_type.decode(body).encode()
    except UnicodeError as error:
        detail = f"The document is not in its charset {clip(charset)}: {error}."
        raise InvalidEvent([Fault("bad-charset", detail, rule="J4")]) from None


def unsupported_format(wire: WireType) -> SenderError:
    """The refusal of a document in a format, or of a batch where a binding has none."""
    readable = ", ".join(kind for kind in _JSON_DOCUMENTS if kind.endswith("json"))
    return SenderError(
        f"The event format {clip(wire.text)} is not supported: send {readable}, or binary mode",
        status=415,
        code="unsupported-format",
    )
