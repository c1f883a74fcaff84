"""Hide values in the data of events from readers who may see only part of it.

A mask is a list of JSON Pointers. A step ``*`` matches every item of an array and every member of an object.
All other bytes stay unchanged.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence

import msgspec

from app.event.json_pointer import is_json, steps_of
from app.event.json_text import NOT_JSON, encode_value, items, members, single_value
from app.event.value import CloudEvent

EVERY = "*"
"""The step of a mask that matches every item of an array and every member of an object."""
HIDDEN = msgspec.Raw(b'"***"')
"""The JSON value that replaces a hidden value."""

Mask = Callable[[CloudEvent], CloudEvent | None]
"""A function that returns the event with hidden values, or None if its data cannot be shown in part."""

_FORM = re.compile(r"(/([^~/]|~[01])*)+")
_SPACE = b" \t\r\n"

Tree = Mapping[str, "Tree"]
"""The steps of several pointers as a tree, by their first step. A pointer ends at an empty tree."""


def is_mask(pointer: str) -> bool:
    """Return True for a JSON Pointer (RFC 6901) that may be part of a mask. The empty pointer may not,
    because it would hide all data."""
    return bool(_FORM.fullmatch(pointer))


def compile_mask(pointers: Sequence[str]) -> Mask:
    """Return the function that hides the values at these pointers. With no pointers the function shows no data
    at all.
    """
    tree: dict[str, Tree] = {}
    for steps in sorted(map(steps_of, pointers), key=len, reverse=True):
        _put(tree, steps)

    def mask(event: CloudEvent) -> CloudEvent | None:
        if event.data is None:
            return event
        if not tree or not is_json(event):
            return None
        try:
            data = _whole(event.data, tree)
        except NOT_JSON:
            return None
        return None if data is None else msgspec.structs.replace(event, data=data)

    return mask


def _put(tree: dict[str, Tree], steps: Sequence[str]) -> None:
    """Add the steps of a pointer to the tree. The caller adds shorter pointers last, because they hide
    everything below them."""
    step, *rest = steps
    if not rest:
        tree[step] = {}
        return
    inner = tree.setdefault(step, {})
    if isinstance(inner, dict):
        _put(inner, rest)


def _whole(data: bytes, tree: Tree) -> bytes | None:
    """Return the data with hidden values. Return None if the data is a single text or number, which has no
    parts."""
    data.decode()
    value = single_value(data)
    return bytes(_masked(msgspec.Raw(value), tree)) if value[:1] in b"{[" else None


def _masked(value: msgspec.Raw, tree: Tree) -> msgspec.Raw:
    """Return the value with its hidden values replaced. If an object repeats a name, only the last member of
    that name is shown."""
    if not tree:
        return HIDDEN
    match bytes(value).lstrip(_SPACE)[:1]:
        case b"{":
            inner = {name: _inner(each, name, tree) for name, each in members(value).items()}
            return msgspec.Raw(b"{%b}" % b",".join(map(_member, inner.items())))
        case b"[":
            each_of = [_inner(each, str(n), tree) for n, each in enumerate(items(value))]
            return msgspec.Raw(b"[%b]" % b",".join(each_of))
    return value


def _inner(value: msgspec.Raw, step: str, tree: Tree) -> msgspec.Raw:
    for each in {step, EVERY} & tree.keys():
        value = _masked(value, tree[each])
    return value


def _member(member: tuple[str, msgspec.Raw]) -> bytes:
    name, value = member
    return b"%b:%b" % (encode_value(name), value)
