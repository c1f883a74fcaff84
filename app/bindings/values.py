"""Values of headers: plain text, JSON text as in the Pulsar binding, and typed values as in AMQP."""

from __future__ import annotations

from binascii import b2a_base64
from datetime import UTC, datetime
from typing import TypeAlias

import msgspec

from app.bindings.record import Native
from app.errors import Fault
from app.event import json_text
from app.event.types import INTEGER_MAX, INTEGER_MIN, is_integer
from app.event.value import AttributeType

Value: TypeAlias = bytes | Native
"""A header value that is not null: bytes are the text of a string, a bytearray is a binary value."""

Text = tuple[str | None, AttributeType]
"""The canonical text and the type of an attribute. The text is None if the value unsets the attribute."""

_SCALAR = msgspec.json.Decoder(str | int | bool | None)
_STRING = msgspec.json.Decoder(str)


def quote(text: str) -> str:
    """Return the text as a JSON string, in quotes."""
    return msgspec.json.encode(text).decode()


def is_quoted(text: str) -> bool:
    return text.startswith('"')


def unquote(text: str) -> str:
    """Return the content of a JSON string. Any other text is returned as it is."""
    if not is_quoted(text):
        return text
    try:
        return _STRING.decode(text)
    except (msgspec.DecodeError, UnicodeEncodeError):  # a content type may be of any bytes
        return text


def unquote_any(text: str) -> str:
    """Return the content of a JSON string. An unpaired surrogate is accepted here, because the validation of
    attributes then refuses it.

    Any other text is returned as it is.
    """
    found = unquote(text)
    if found is not text or not is_quoted(text):
        return found
    try:
        return json_text.string(text.encode())
    except json_text.NOT_JSON:
        return text


def read_string(text: str, at: str) -> Text:  # noqa: ARG001 - one signature with read_json
    """Return the content of a JSON string, or any other text as it is, with the type String."""
    return unquote_any(text), AttributeType.STRING


def read_json(text: str, at: str) -> Text | Fault:
    """Return canonical text and type of a header value that is JSON. Null gives None, which unsets the
    attribute.

    A value that is no JSON is bare text. JSON that no attribute can hold, such as a list, gives a Fault.
    """
    refusal = Fault("wrong-type", f"{at} is not a string, boolean or integer of 32 bits.", at, "J1")
    try:
        value = _SCALAR.decode(text)
    except (msgspec.ValidationError, RecursionError):
        return refusal
    except msgspec.DecodeError:
        return read_string(text, at)
    if isinstance(value, str | None):
        return value, AttributeType.STRING
    if isinstance(value, bool):
        return text.strip(), AttributeType.BOOLEAN
    number = text.strip()
    return (number, AttributeType.INTEGER) if is_integer(number) else refusal


def native_text(value: Native) -> str | None:
    """Return the canonical text of a typed value (CloudEvents core 1.3).

    Return None for a value that no attribute can have: a table, an array, a float, a decimal, or an integer
    beyond 32 bits.
    """
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value) if INTEGER_MIN <= value <= INTEGER_MAX else None
    if isinstance(value, bytes | bytearray):
        return _text_of_bytes(bytes(value))
    if isinstance(value, datetime):
        return _timestamp(value)
    return None


def _text_of_bytes(value: bytes) -> str:
    try:
        return value.decode()
    except UnicodeDecodeError:
        return b2a_base64(value, newline=False).decode()


def _timestamp(value: datetime) -> str:
    """Return the RFC 3339 text of a time in UTC, in whole seconds as AMQP has them. A time without offset is in
    UTC.
    """
    moment = value.astimezone(UTC) if value.tzinfo else value
    return moment.replace(tzinfo=None).isoformat(timespec="seconds") + "Z"


def native_type(value: Native) -> AttributeType:
    """Return the attribute type of a typed header value: Boolean, Integer or String."""
    if isinstance(value, bool):
        return AttributeType.BOOLEAN
    return AttributeType.INTEGER if isinstance(value, int) else AttributeType.STRING
