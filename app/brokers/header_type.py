"""Read the type of an event from the headers of its record, without decoding the record."""

from __future__ import annotations

from collections.abc import Sequence

_STRUCTURED = b"application/cloudevents"


def type_from_headers(headers: Sequence[tuple[str, bytes | None]]) -> str | None:
    """Return the type of a CloudEvents 1.0 event in Kafka's binary mode, from its headers alone.

    Returns:
        None if the record must be decoded to know its type: a structured event, another version of
            CloudEvents, or unusual headers.
    """
    found = dict(headers)
    kind = found.get("ce_type")
    if not kind or len(found) != len(headers) or found.get("ce_specversion") != b"1.0":
        return None
    if not (found.get("ce_id") and found.get("ce_source")):
        return None
    content_type = found.get("content-type") or b""
    if content_type.lstrip().lower().startswith(_STRUCTURED):
        return None
    try:
        return kind.decode()
    except UnicodeDecodeError:
        return None
