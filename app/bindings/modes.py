"""Content mode and event format of a message. The content type alone decides both, in every binding."""

from __future__ import annotations

import msgspec

from app.bindings.record import ContentMode
from app.event.media_types import MediaType
from app.event.media_types import parse as parse_media_type
from app.event.memo import Memo
from app.formats import json
from app.formats.registry import BATCH_FORMATS, FORMATS

# In lower case: the JavaScript SDK compares it to the letter (docs/opinions.md).
UTF_8 = "; charset=utf-8"
JSON_DOCUMENT = json.MEDIA_TYPE + UTF_8  # the content type of structured mode in every binding

_FAMILY = "application/cloudevents"
_BATCH = "application/cloudevents-batch"
_BARE = {
    _FAMILY: json.MEDIA_TYPE,
    _BATCH: json.BATCH_MEDIA_TYPE,
}  # media types that name no format: they are read as JSON


class WireType(msgspec.Struct, frozen=True):
    """A parsed content type, as far as it decides mode and format.

    Attributes:
        mode: The content mode. BINARY for every media type outside the CloudEvents family.
        text: The content type as it arrived, which is forwarded with its parameters.
        essence: The key of the document's format in ``formats.registry``, or "" if Skybridge has no such
            format.
        named: False for a media type of the family that names no format, so that JSON is assumed.
        media_type: The parsed media type of a document in a known format. None if it cannot be parsed.
        is_utf8: True if the header is UTF-8. If not, ``text`` contains lone surrogates.
    """

    mode: ContentMode
    text: str
    essence: str = ""
    named: bool = True
    media_type: MediaType | None = None
    is_utf8: bool = True


def _wire_type(content_type: bytes) -> WireType:
    """Return the mode and format that a content type means. The batch prefix is tested first, in any case."""
    text = content_type.decode("utf-8", "surrogateescape")
    essence = text.partition(";")[0].strip().lower()
    if not essence.startswith(_FAMILY):
        return WireType(ContentMode.BINARY, text, is_utf8=_is_utf8(text))
    mode = ContentMode.BATCH if essence.startswith(_BATCH) else ContentMode.STRUCTURED
    known = _BARE.get(essence, essence)
    if known not in FORMATS and known not in BATCH_FORMATS:
        return WireType(mode, text)
    return WireType(mode, text, known, essence not in _BARE, parse_media_type(text))


def _is_utf8(text: str) -> bool:
    return text.isascii() or not any("\udc80" <= character <= "\udcff" for character in text)


wire_type = Memo(_wire_type).__getitem__
"""The mode and format of a content type, cached by its bytes."""


def _is_of_family(media_type: str) -> bool:
    wire = wire_type(media_type.encode("utf-8", "surrogateescape"))
    return wire.mode is not ContentMode.BINARY


is_of_family = Memo(_is_of_family).__getitem__
"""True if a media type makes the message a structured or batched document, whatever its headers are. Cached."""


def written_as(essence: str) -> str:
    """Return the content type under which a document of a format is written. JSON alone gets a charset."""
    return JSON_DOCUMENT if essence == json.MEDIA_TYPE else essence
