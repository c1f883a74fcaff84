"""The hot path of reading: a document of text attributes with JSON data, or none, at its end.

That is what most senders write, with or without white space between the members. It is an
optimisation only: where it does not fit, the ordinary reader decides, and the two never disagree (a
property test holds them to it).
"""

from __future__ import annotations

import re

import msgspec

from app.event.media_types import declares_json
from app.event.validate import is_plainly_valid
from app.event.value import CloudEvent, DataForm
from app.formats.json_members import MEMBERS

_TEXT_MEMBERS = msgspec.json.Decoder(dict[str, str])
_VALUE = msgspec.json.Decoder(msgspec.Raw)
_DATA = re.compile(rb',[ \t\r\n]*"data"[ \t\r\n]*:')  # its quotes cannot stand inside a string
_BACKSLASH, _DELETE = b"\\\x7f"  # as numbers: bytes are looked for in bytes at five times the cost
_QUOTES = 4  # of a member whose value is text


def read_compact(text: bytes) -> CloudEvent | None:
    """The event; None when the document is of another shape, or has any fault."""
    data_member = _DATA.search(text)
    if data_member is None:
        return None if b'"data' in text else _without_data(text)
    if text[-1:] != b"}":
        return None
    attributes = _attributes(text[: data_member.start()] + b"}")
    if attributes is None or not declares_json(attributes.get("datacontenttype")):
        return None
    try:
        data = _VALUE.decode(text[data_member.end() : -1])
    except (msgspec.DecodeError, RecursionError):
        return None
    return CloudEvent(attributes, bytes(data), DataForm.JSON)


def _without_data(text: bytes) -> CloudEvent | None:
    attributes = _attributes(text)
    return None if attributes is None else CloudEvent(attributes)


def _attributes(head: bytes) -> dict[str, str] | None:
    """Valid attributes, each named once. Where no text holds an escape every quote is punctuation, so
    that four a member prove that no name is repeated.
    """
    if not head.isascii() or _BACKSLASH in head or _DELETE in head:
        return None
    try:
        attributes = _TEXT_MEMBERS.decode(head)
    except msgspec.DecodeError:
        return None
    count = len(attributes)
    if head.count(b'"') != _QUOTES * count or count >= MEMBERS:
        return None
    return attributes if is_plainly_valid(attributes, printable=True) else None
