"""Structured mode, which all bindings have in common: a document, and its media type."""

from __future__ import annotations

from app.bindings.modes import WireType, document_text, unsupported_format
from app.bindings.record import ContentMode, Decoded
from app.errors import Fault, InvalidEvent
from app.formats import json

JSON_DOCUMENT = f"{json.MEDIA_TYPE}; charset=UTF-8"  # H11, K16, R10

_STRUCTURED = ContentMode.STRUCTURED


def write_document(decoded: Decoded) -> tuple[bytes, str]:
    """The document and its media type; what arrived as a document goes on untouched."""
    if decoded.document is None:
        return json.write_event(decoded.event), JSON_DOCUMENT
    return decoded.document, decoded.media_type or JSON_DOCUMENT


def read_document(wire: WireType, body: bytes | None) -> Decoded:
    """The event of a document. Raises InvalidEvent, and SenderError (415) for batches and for formats
    and charsets that are not ours to read.
    """
    if wire.mode is not _STRUCTURED:  # no broker binding has batches
        raise unsupported_format(wire)
    if not body:
        detail = "A structured event has a document as its body, also without data."
        raise InvalidEvent([Fault("no-document", detail, rule="J4")])
    return Decoded(json.read_event(document_text(wire, body)), _STRUCTURED, body, wire.text)


def read_unnamed_document(body: bytes) -> Decoded:
    """The event of a document whose producer did not name it as one."""
    return Decoded(json.read_event(body), _STRUCTURED, body)
