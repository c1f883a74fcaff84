"""What a group does not want, told by the headers alone: most of what a busy topic holds is of other types,
and to decode it only to drop it is what many subscriptions of one topic cost.
"""

from __future__ import annotations

from collections.abc import Sequence

from app.filters.index import Types

_STRUCTURED = b"application/cloudevents"


def is_unwanted(headers: Sequence[tuple[str, bytes | None]], types: Types) -> bool:
    """Whether it is an event in binary mode (K8 to K13) of another type. False is no answer: it has to
    be read, as structured events are, those of other versions, and whatever looks odd."""
    found = dict(headers)
    kind = found.get("ce_type")
    if not kind or len(found) != len(headers) or found.get("ce_specversion") != b"1.0":
        return False
    if not (found.get("ce_id") and found.get("ce_source")):
        return False
    content_type = found.get("content-type") or b""
    if content_type.lstrip().lower().startswith(_STRUCTURED):
        return False
    try:
        return not types.holds(kind.decode())
    except UnicodeDecodeError:
        return False
