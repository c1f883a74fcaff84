"""Write structured and batched mode for all bindings."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from app.bindings.modes import JSON_DOCUMENT, UTF_8, WireType, wire_type, written_as
from app.bindings.reading_documents import BOM, JSON, text_of, unsupported_format
from app.bindings.record import Decoded
from app.errors import Fault, InvalidEvent, SenderError
from app.event.value import CloudEvent, DataForm
from app.formats import json
from app.formats.registry import BATCH_FORMATS, FORMATS

FormatName = Literal["as_received", "json", "protobuf", "avro"]


def content_type_of(event: CloudEvent) -> str | None:
    """Return the attribute ``datacontenttype`` of an event. Return ``application/json`` if the event came in
    the JSON format without this attribute, which implies JSON."""
    implied = "application/json" if event.data_form is DataForm.JSON else None
    return event.attributes.get("datacontenttype", implied)


def write_document(decoded: Decoded, name: FormatName = "as_received") -> tuple[bytes, str]:
    """Return the structured document of an event and its media type.

    A document that arrived in this format is returned unchanged.

    Raises:
        NotRepresentable: The format cannot hold the event (422).
        SenderError: The library of the format is missing, or a document in an unknown format cannot be converted (415).
    """
    if decoded.opaque:
        return _unread_document(decoded, name)
    arrived = _format_of(decoded)
    wanted = arrived if name == "as_received" else f"application/cloudevents+{name}"
    if decoded.document is not None and wanted == arrived:
        return decoded.document, decoded.media_type or JSON_DOCUMENT
    return FORMATS[wanted].write_event(decoded.event), written_as(wanted)


def _unread_document(decoded: Decoded, name: str) -> tuple[bytes, str]:
    media_type = decoded.media_type or ""
    if name != "as_received":
        raise unsupported_format(_wire(media_type), f"it cannot be converted into {name}")
    return decoded.document or b"", media_type


def write_batch(batch: Sequence[Decoded], name: FormatName = "json") -> tuple[bytes, str]:
    """Return one document of all events, and its media type. An event that arrived in this format keeps its
    bytes.

    Raises:
        InvalidEvent: The events have different versions, which a batch may not mix.
        SenderError: The format has no batch, or a document has an unknown format (415).
    """
    mixed = _mixed_versions(batch)
    if mixed:
        raise InvalidEvent(mixed)
    return join_elements([element_of(decoded, name) for decoded in batch], name)


def join_elements(elements: Sequence[bytes], name: FormatName = "json") -> tuple[bytes, str]:
    """Return one batch document that contains these elements, and its media type. All elements must have one
    version."""
    name = "json" if name == "as_received" else name
    essence = f"application/cloudevents-batch+{name}"
    if essence not in BATCH_FORMATS:
        title = f"The {name} event format has no batch"
        raise SenderError(title, status=415, code="unsupported-format")
    written = BATCH_FORMATS[essence].write_batch(elements)
    return written, essence + UTF_8 if essence in JSON else essence  # a JSON batch has a charset


def element_of(decoded: Decoded, name: FormatName = "json") -> bytes:
    """Return the document of an event as an element of a batch: in UTF-8 and without a byte order mark.

    A batch has one charset, so an event that arrived in another charset is converted. Errors are those of
    ``write_document``.
    """
    document, media_type = write_document(decoded, "json" if name == "as_received" else name)
    wire = _wire(media_type)
    text = text_of(wire, document)
    return text.removeprefix(BOM) if wire.essence in JSON else text


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
    """Return the media type of the format in which the event arrived. Return that of JSON if the event did
    not arrive as a document."""
    if decoded.media_type is None or decoded.media_type is JSON_DOCUMENT:
        return json.MEDIA_TYPE
    return _wire(decoded.media_type).essence or json.MEDIA_TYPE


def _wire(media_type: str) -> WireType:
    return wire_type(media_type.encode("utf-8", "surrogateescape"))
