"""Content mode and event format of a message. In every binding, the content type alone decides both."""

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
    """A parsed content type, with the parts that decide content mode and format.

    Attributes:
        mode: The content mode. BINARY for every media type that does not begin as those of CloudEvents do.
        text: The content type as it arrived, which is forwarded with its parameters.
        essence: The key of the document's format in ``formats.registry``, or "" if Skybridge has no such
            format.
        named: False for a CloudEvents media type that names no format. JSON is then assumed.
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
    """Return the mode and format of a content type. The prefix of batches is tested first. Upper and lower
    case do not matter."""
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
"""Return True for a media type of a structured or batched document. Headers do not matter. The result is
cached."""


def written_as(essence: str) -> str:
    """Return the content type with which a document of a format is written. Only JSON gets a charset."""
    return JSON_DOCUMENT if essence == json.MEDIA_TYPE else essence
