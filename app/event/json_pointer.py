"""Look up a JSON Pointer (RFC 6901) in the data of an event.

The result is None if the pointer names no value or the data is not JSON. Only the levels of the data on the
pointer's path are parsed. If an object repeats a name, the last member of that name counts.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from msgspec import Raw

from app.event.json_text import NOT_JSON, items, members, single_value
from app.event.media_types import declares_json
from app.event.value import CloudEvent, DataForm

_INDEX = re.compile(r"0|[1-9][0-9]{0,9}")  # RFC 6901 4: no leading zero, and "-" names no element


def compile_lookup(pointer: str) -> Callable[[CloudEvent], bytes | None]:
    """Return a function that finds the JSON text at ``pointer`` in the data of an event. The text is returned
    unchanged, or None if there is none.

    Args:
        pointer: Empty for all of the data, or a path that begins with a slash.
    """
    steps = steps_of(pointer)

    def find(event: CloudEvent) -> bytes | None:
        if not event.data or not is_json(event):
            return None
        try:
            return descend(single_value(event.data), steps)
        except NOT_JSON:
            return None

    return find


def steps_of(pointer: str) -> tuple[str, ...]:
    """Return the steps (reference tokens) of a JSON Pointer, without escapes."""
    return tuple(
        step.replace("~1", "/").replace("~0", "~") for step in pointer.split("/")[1:]
    )  # RFC 6901 4: ~1 first


def is_json(event: CloudEvent) -> bool:
    """Return True if the event declares its data as JSON."""
    if event.data_form is DataForm.OPAQUE:
        return declares_json(event.datacontenttype)
    return event.data_form is DataForm.JSON


def descend(value: bytes, steps: Sequence[str]) -> bytes | None:
    """Return the JSON text at the steps of a pointer into a JSON value, or None if there is none. Raises NOT_JSON."""
    for step in steps:
        inner = child_of(value, step)
        if inner is None:
            return None
        value = bytes(inner).strip()
    return value


def child_of(value: bytes, step: str) -> Raw | None:
    """Return the member or element of a JSON value to which one step of a pointer leads. Return None if there
    is none."""
    if value.startswith(b"{"):
        return members(value).get(step)
    if value.startswith(b"[") and _INDEX.fullmatch(step):
        found = items(value)
        return found[int(step)] if int(step) < len(found) else None
    return None
