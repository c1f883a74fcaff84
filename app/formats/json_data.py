"""The members ``data`` and ``data_base64`` of the JSON format, whose JSON text is kept unchanged."""

from __future__ import annotations

from binascii import b2a_base64

import msgspec
from msgspec import Raw

from app.errors import Fault
from app.event import json_text
from app.event.media_types import MediaType, declares_json, parse
from app.event.types import binary
from app.event.validate import clip
from app.event.value import CloudEvent, DataForm

_BASE64 = msgspec.json.Decoder(str | None)

Data = tuple[bytes | None, DataForm, list[Fault]]
"""The payload, its form, and its faults."""


def read_data(raw: Raw | None, encoded: Raw | None, datacontenttype: str | None) -> Data:
    """Return the payload from the raw values of ``data`` and ``data_base64``, with its form and its faults."""
    if encoded is not None and bytes(encoded) != b"null":
        return _from_base64(raw, bytes(encoded))
    if raw is None:
        return None, DataForm.OPAQUE, []
    if datacontenttype is None:
        return bytes(raw), DataForm.JSON, []  # no content type means JSON, and null is a payload
    media_type = parse(datacontenttype)
    if media_type is None:  # already a fault of the attribute
        return None, DataForm.OPAQUE, []
    if media_type.is_json:
        return bytes(raw), DataForm.JSON, []  # a string keeps its quotes
    return _from_string(bytes(raw), media_type)


def _from_base64(raw: Raw | None, encoded: bytes) -> Data:
    if raw is not None:
        detail = "data and data_base64 exclude each other."
        return _refused("data-and-data-base64", detail, "/data_base64", "J8")
    try:
        data = binary(_BASE64.decode(encoded) or "")
    except msgspec.ValidationError:
        return _refused("wrong-type", "data_base64 is not a string.", "/data_base64", "J10")
    except msgspec.DecodeError:  # a string with an unpaired surrogate
        data = None
    if data is None:
        detail = "data_base64 is not base64 (RFC 4648 section 4, padded)."
        return _refused("bad-base64", detail, "/data_base64", "J10")
    return data, DataForm.OPAQUE, []


def _from_string(raw: bytes, media_type: MediaType) -> Data:
    """Return the payload of a string member under a content type that is not JSON. It is the text of the
    string, encoded in the charset of the content type.
    """
    try:
        return media_type.encode(json_text.string(raw)), DataForm.TEXT, []
    except msgspec.ValidationError:
        detail = f"data is not a string, but {clip(media_type.essence)} is not JSON."
        return _refused("data-not-text", detail, "/data", "J12")
    except UnicodeError:
        detail = f"data cannot be encoded in the charset {clip(media_type.charset or 'utf-8')}."
        return _refused("data-not-encodable", detail, "/data", "J7")


def _refused(code: str, detail: str, at: str, rule: str) -> Data:
    return None, DataForm.OPAQUE, [Fault(code, detail, at, rule)]


def write_data(event: CloudEvent) -> bytes | None:
    """Return the member that carries the payload, or None if there is no payload."""
    if event.data is None:
        return None
    value = json_value(event)
    if value is not None:
        return b'"data":' + value
    text = _text_of(event.data, event.data_form, event.datacontenttype)
    if text is not None:
        return b'"data":' + msgspec.json.encode(text)
    return b'"data_base64":"' + b2a_base64(event.data, newline=False) + b'"'


def json_value(event: CloudEvent) -> bytes | None:
    """Return the payload as the raw value of ``data``, or None if it is not exactly one JSON value.

    White space around the value is dropped, because it does not belong to the value (RFC 8259 2).
    """
    if event.data is None or event.data_form is DataForm.JSON:
        return event.data
    return _one_value(event.data, event.datacontenttype)


def _one_value(data: bytes, datacontenttype: str | None) -> bytes | None:
    if datacontenttype is None or not declares_json(datacontenttype):
        return None
    try:
        data.decode()
        return json_text.single_value(data)
    except json_text.NOT_JSON:
        return None


def _text_of(data: bytes, form: DataForm, datacontenttype: str | None) -> str | None:
    """Return the payload as text. Return None if only base64 represents the bytes exactly.

    Text is exact if decoding and encoding in the declared charset give the same bytes.
    """
    media_type = parse(datacontenttype) if datacontenttype is not None else None
    if media_type is None or not (form is DataForm.TEXT or media_type.is_text):
        return None
    try:
        text = media_type.decode(data)
        return text if media_type.encode(text) == data else None
    except UnicodeError:
        return None
