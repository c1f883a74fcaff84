"""Moves between modes, formats and versions, with the body untouched wherever a clause allows it."""

from __future__ import annotations

from typing import Literal

import msgspec
from msgspec.structs import replace

from app.bindings.documents import FormatName, write_document
from app.bindings.modes import is_of_family
from app.bindings.record import ContentMode, Decoded
from app.event.convert import as_version

__all__ = ["PLAIN", "FormatName", "Mode", "Writing", "as_document", "in_version", "is_binary"]

Mode = Literal["binary", "structured", "as_received"]

_BINARY = ContentMode.BINARY


class Writing(msgspec.Struct, frozen=True, kw_only=True):
    """How an event is to be written: the choices of a route or subscription, one set for all bindings.

    ``mode``        as_received: what arrived as a document, alone or in a batch, goes on as that document.
    ``format``      of documents; as_received keeps the one that came, JSON where none did.
    ``version``     a name in ``event.versions.VERSIONS``, or as_received.
    ``empty_body``  what an event without data becomes in binary mode: no value, or an empty one; None
                    for what the binding says: no value on Kafka (K13), an empty payload on Pulsar.
                    RabbitMQ and HTTP know empty bodies only.
    ``names``, ``strings``  of the Pulsar binding: see there.
    """

    mode: Mode = "binary"
    format: FormatName = "as_received"
    version: str = "as_received"
    empty_body: Literal["null", "empty"] | None = None
    names: Literal["CE-", "ce_"] = "CE-"
    strings: Literal["bare", "json"] = "bare"


PLAIN = Writing()


def in_version(decoded: Decoded, version: str) -> Decoded:
    """``decoded`` in the version of that name, or as_received. Its document is of another version, and
    left behind; its format stays. What nobody here reads cannot be moved, and stays as it is.
    """
    if version == "as_received" or version == decoded.event.version or decoded.opaque:  # noqa: PLR1714 - hot
        return decoded
    event = as_version(decoded.event, version)
    return replace(decoded, event=event, document=None)


def is_binary(decoded: Decoded, mode: Mode) -> bool:
    """Whether the event leaves in binary mode. An opaque document never does (spec.md 4.7), and neither
    does an event whose data is itself an event: by its content type it would be taken for that one.
    """
    if mode == "structured" or (mode == "as_received" and decoded.mode is not _BINARY):
        return False
    content_type = decoded.event.attributes.get("datacontenttype")
    return not decoded.opaque and (content_type is None or not is_of_family(content_type))


def as_document(decoded: Decoded, writing: Writing) -> tuple[bytes, str]:
    """The document that goes out, and its content type.

    Raises NotRepresentable (422) for what a format cannot hold, and SenderError (415) where one
    format is asked for and the document is in another that nobody here reads (4.7).
    """
    unpromised = decoded.opaque and writing.mode == "binary"
    return write_document(decoded, "as_received" if unpromised else writing.format)
