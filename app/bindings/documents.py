"""Write structured and batched mode, which the bindings have in common."""

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
    """``datacontenttype``, made explicit where the JSON format had implied it (J13, I4)."""
    implied = "application/json" if event.data_form is DataForm.JSON else None
    return event.attributes.get("datacontenttype", implied)


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
    return FORMATS[wanted].write_event(decoded.event), written_as(wanted)


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
    return written, essence + UTF_8 if essence in JSON else essence  # H13


def element_of(decoded: Decoded, name: FormatName = "json") -> bytes:
    """An event as it stands in a batch. In UTF-8, whatever charset it arrived in: a batch has one
    charset, and no mark within. Raises what ``write_document`` raises.
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
    """The essence of the format that it arrived in; JSON where it was none."""
    if decoded.media_type is None or decoded.media_type is JSON_DOCUMENT:
        return json.MEDIA_TYPE
    return _wire(decoded.media_type).essence or json.MEDIA_TYPE


def _wire(media_type: str) -> WireType:
    return wire_type(media_type.encode("utf-8", "surrogateescape"))
