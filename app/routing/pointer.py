"""A JSON Pointer into the data of an event, as a record key.

A string gives its text; a number or a boolean the very characters that it was written with (``1.10``
stays ``1.10``). Object, array, null, nothing there, and data that is not JSON give no key.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from app.event.json_pointer import compile_lookup
from app.event.value import CloudEvent

_TEXT = msgspec.json.Decoder(str)


def compile_pointer(pointer: str) -> Callable[[CloudEvent], bytes | None]:
    """``pointer`` is empty (the whole of the data) or begins with a slash."""
    lookup = compile_lookup(pointer)

    def find(event: CloudEvent) -> bytes | None:
        found = lookup(event)
        return None if found is None else _key(found)

    return find


def _key(value: bytes) -> bytes | None:
    if not value.startswith(b'"'):
        return None if value[:1] in {b"{", b"[", b"n"} else value
    try:
        return _TEXT.decode(value).encode()
    except (msgspec.DecodeError, UnicodeError):
        return None
