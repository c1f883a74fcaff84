"""The type of an event, told by its headers alone."""

from __future__ import annotations

from collections.abc import Sequence

_STRUCTURED = b"application/cloudevents"


def type_in(headers: Sequence[tuple[str, bytes | None]]) -> str | None:
    """Of an event in binary mode of version 1.0 (K8 to K13). None is no answer: it has to be read, as
    structured events are, those of other versions, and whatever looks odd."""
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
