"""Is this body an event, where no content type says so? Producers exist that give a document the
content type of its data, or none (K16 and P3 as they are broken).
"""

from __future__ import annotations

import msgspec

from app.event.media_types import declares_json


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
    """Whether a body of plain JSON type, or of none, is an object with the required attributes."""
    if not body or not declares_json(content_type):
        return False
    return any(_holds(decoder, body) for decoder in _DECODERS)


def _holds(
    decoder: msgspec.json.Decoder[_Required] | msgspec.json.Decoder[_Required01], body: bytes
) -> bool:
    try:
        decoder.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return False
    return True
