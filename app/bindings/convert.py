"""What a binding read, as if it had come in another version."""

from __future__ import annotations

from app.bindings.record import Decoded
from app.event.convert import as_version


def in_version(decoded: Decoded, version: str) -> Decoded:
    """``decoded`` in the version of that name. Its document is of another version, and left behind."""
    if decoded.event.version == version:
        return decoded
    return Decoded(as_version(decoded.event, version), decoded.mode)
