"""Which mode, and which format: decided by the content type alone (H4, K4, R3, P3, spec trap 2)."""

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
JSON_DOCUMENT = json.MEDIA_TYPE + UTF_8  # H11, K16, R10

_FAMILY = "application/cloudevents"
_BATCH = "application/cloudevents-batch"
_BARE = {_FAMILY: json.MEDIA_TYPE, _BATCH: json.BATCH_MEDIA_TYPE}  # without a format: tried as JSON


class WireType(msgspec.Struct, frozen=True):
    """A content type as it decides the mode.

    ``mode``     BINARY for everything outside the CloudEvents family.
    ``text``     the content type as it is, forwarded with its parameters.
    ``essence``  of a document in one of our formats its key in ``formats.registry``; "" for others.
    ``named``    False for a bare name of the family, whose format is guessed to be JSON.
    ``media_type``  of a document in one of our formats; None where it cannot be parsed.
    ``is_utf8``  of one outside the family; where it is not, ``text`` has lone surrogates.
    """

    mode: ContentMode
    text: str
    essence: str = ""
    named: bool = True
    media_type: MediaType | None = None
    is_utf8: bool = True


def _wire_type(content_type: bytes) -> WireType:
    """The mode that a content type asks for: batch prefix first, any case."""
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


def _is_of_family(media_type: str) -> bool:
    wire = wire_type(media_type.encode("utf-8", "surrogateescape"))
    return wire.mode is not ContentMode.BINARY


is_of_family = Memo(_is_of_family).__getitem__
"""Whether a media type makes a message a document, whatever else is in it."""


def written_as(essence: str) -> str:
    """Return the content type under which a document of a format is written. Formats but JSON have no charset."""
    return JSON_DOCUMENT if essence == json.MEDIA_TYPE else essence
