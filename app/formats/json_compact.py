"""The fast path for one document. All attributes are strings, and JSON data comes last or is absent.

Most senders write such documents, with or without white space between the members. Any other document is read
by the general reader. A property test proves that both readers agree.
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
_DATA = re.compile(rb',[ \t\r\n]*"data"[ \t\r\n]*:')  # its quotes cannot be inside a string
_BACKSLASH, _DELETE = b"\\\x7f"  # as numbers: a search for bytes in bytes costs five times as much
_QUOTES = 4  # quotes of a member whose value is text


def read_compact(text: bytes) -> CloudEvent | None:
    """Return the event of a document. Return None if the document has another form or any fault; the general
    reader must then read it."""
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
    """Return valid attributes with unique names. None means that the slower general reader must decode the
    document.

    If no text has an escape, every quote is punctuation. Four quotes per member then prove that no name is
    repeated.
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
