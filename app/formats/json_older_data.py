"""The member ``data`` before version 1.0. Binary data is a base64 string. Only the content type shows that
such a string is not text. Version 0.3 may declare base64 with ``datacontentencoding``.
"""

from __future__ import annotations

from binascii import b2a_base64

import msgspec
from msgspec import Raw

from app.errors import Fault
from app.event import json_text
from app.event.media_types import MediaType, parse
from app.event.types import binary
from app.event.validate import clip
from app.event.value import CloudEvent, DataForm
from app.formats.json_data import Data, json_value

# Subtypes of text, outside the type text/*.
_TEXTUAL = ("html", "javascript", "yaml", "csv", "x-www-form-urlencoded")


def read_older_data(raw: Raw | None, content_type: str | None, *, coded: bool) -> Data:
    """Return the payload from the raw value of ``data``, with its form and faults.

    Args:
        raw: The value of ``data``.
        content_type: The declared content type.
        coded: True if the document declares the data as base64.
    """
    if raw is None:
        return None, DataForm.OPAQUE, []
    if coded:
        return _coded(bytes(raw))
    if content_type is None:
        return bytes(raw), DataForm.JSON, []
    media_type = parse(content_type)
    if media_type is None:  # already a fault of the attribute
        return None, DataForm.OPAQUE, []
    if media_type.is_json:
        return bytes(raw), DataForm.JSON, []  # a string is the JSON value, as in 1.0
    return _from_string(bytes(raw), media_type)


def _coded(raw: bytes) -> Data:
    data = None
    try:
        data = binary(json_text.string(raw))
    except msgspec.ValidationError:
        return _refused("wrong-type", "data is declared as base64, but it is not a string.")
    if data is None:
        return _refused("bad-base64", "data is not base64 (RFC 4648 section 4, padded).")
    return data, DataForm.OPAQUE, []


def _from_string(raw: bytes, media_type: MediaType) -> Data:
    try:
        text = json_text.string(raw)
    except msgspec.ValidationError:
        detail = f"data is not a string, but {clip(media_type.essence)} is not JSON."
        return _refused("data-not-text", detail)
    data = None if is_known_text(media_type) else binary(text)
    if data is not None:
        return data, DataForm.OPAQUE, []
    try:
        return media_type.encode(text), DataForm.TEXT, []
    except UnicodeError:
        detail = f"data cannot be encoded in the charset {clip(media_type.charset or 'utf-8')}."
        return _refused("data-not-encodable", detail)


def _refused(code: str, detail: str) -> Data:
    return None, DataForm.OPAQUE, [Fault(code, detail, "/data", "V5")]


def is_known_text(media_type: MediaType) -> bool:
    """Return True if the media type is known to be text. No specification lists text types, so all other
    types count as binary.
    """
    if media_type.is_text or media_type.charset is not None:
        return True
    subtype = media_type.essence.partition("/")[2]
    return any(word in subtype for word in _TEXTUAL)


def write_older_data(event: CloudEvent, encoding: str) -> bytes | None:
    """Return the text of the member ``data``, preceded by the member ``encoding`` if it is needed. Return
    ``b""`` for an event without data.

    Return None if no document of this version gives a reader the same data.
    """
    if event.data is None:
        return b""
    value = json_value(event)
    if value is not None:
        return b'"data":' + value
    media_type = parse(event.datacontenttype) if event.datacontenttype is not None else None
    text = _text_of(event, media_type)
    if text is not None:
        return b'"data":' + msgspec.json.encode(text)
    coded = b'"data":"' + b2a_base64(event.data, newline=False) + b'"'
    if encoding:
        return b'"%b":"base64",%b' % (encoding.encode(), coded)
    if media_type is None or media_type.is_json or is_known_text(media_type):
        return None
    return coded


def _text_of(event: CloudEvent, media_type: MediaType | None) -> str | None:
    """Return the data as a text that a reader converts to the same bytes. Return None if there is no such
    text."""
    if media_type is None or media_type.is_json or event.data is None:
        return None
    known = is_known_text(media_type)
    if not known and event.data_form is not DataForm.TEXT:
        return None
    try:
        text = media_type.decode(event.data)
        same = media_type.encode(text) == event.data
    except UnicodeError:
        return None
    return text if same and (known or binary(text) is None) else None
