"""Convert events between modes, formats and versions, with the body unchanged where the specification allows it."""

from __future__ import annotations

from typing import Literal

import msgspec
from msgspec.structs import replace

from app.bindings.documents import FormatName, write_document
from app.bindings.modes import is_of_family
from app.bindings.record import ContentMode, Decoded
from app.event.convert import as_version
from app.event.versions import NEWEST

__all__ = ["PLAIN", "EncodeOptions", "FormatName", "Mode", "as_document", "in_version", "is_binary"]

Mode = Literal["binary", "structured", "as_received"]

_BINARY = ContentMode.BINARY
UNCHANGED = frozenset({"as_received", NEWEST})
"""The values of ``EncodeOptions.version`` that leave an event of the newest version as it is."""


class EncodeOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The encoding options of an event. They are settings of a route or subscription, and are the same for
    all bindings.

    Attributes:
        mode: The content mode. With ``as_received``, an event that arrived as a document, alone or in a
            batch, is forwarded as this document.
        format: The format of documents. ``as_received`` keeps the format that arrived, or JSON.
        version: A name in ``event.versions.VERSIONS``, or ``as_received``.
        empty_body: The body of an event without data in binary mode: no value (null) or an empty value. None
            means the default: no value on Kafka, an empty payload on Pulsar. RabbitMQ and HTTP have empty
            bodies only.
        names: The property names of the Pulsar binding.
        strings: The form of string values in the Pulsar binding: bare, or JSON in quotes.
    """

    mode: Mode = "binary"
    format: FormatName = "as_received"
    version: str = "as_received"
    empty_body: Literal["null", "empty"] | None = None
    names: Literal["CE-", "ce_"] = "CE-"
    strings: Literal["bare", "json"] = "bare"


PLAIN = EncodeOptions()


def in_version(decoded: Decoded, version: str) -> Decoded:
    """Return the event in the version of that name, or unchanged for ``as_received``.

    After a conversion the document that arrived is dropped, because it has the old version, and its format is
    kept. A document in an unknown format cannot be converted and stays as it is.
    """
    if version == "as_received" or version == decoded.event.version or decoded.opaque:  # noqa: PLR1714 - hot
        return decoded
    event = as_version(decoded.event, version)
    return replace(decoded, event=event, document=None)


def is_binary(decoded: Decoded, mode: Mode) -> bool:
    """Return True if the event is written in binary mode.

    A document in an unknown format is never written in binary mode. Neither is an event whose data has a
    CloudEvents media type, because a reader would take the data for the event.
    """
    if mode == "structured" or (mode == "as_received" and decoded.mode is not _BINARY):
        return False
    content_type = decoded.event.attributes.get("datacontenttype")
    return not decoded.opaque and (content_type is None or not is_of_family(content_type))


def stays_binary(content_type: str | None, writing: EncodeOptions) -> bool:
    """Return True if events of the newest version that arrived in binary mode are written in this mode and version.

    ``content_type`` is that of their data, if they have one.
    """
    if writing.mode == "structured" or writing.version not in UNCHANGED:
        return False
    return content_type is None or not is_of_family(content_type)


def as_document(decoded: Decoded, writing: EncodeOptions) -> tuple[bytes, str]:
    """Return the structured document of an event for the target, and its content type.

    Raises:
        NotRepresentable: The format cannot hold the event (422).
        SenderError: The options demand a format, and the document has another one that is unknown (415).
    """
    unpromised = decoded.opaque and writing.mode == "binary"
    return write_document(decoded, "as_received" if unpromised else writing.format)
