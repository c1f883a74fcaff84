"""Values of headers: bare text, JSON texts (P6), and typed values as AMQP has them (R9)."""

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
"""Of a header that has one. Bytes are the text of a string; binary values are bytearrays."""

Text = tuple[str | None, AttributeType]
"""Canonical text and type; None for a value that says that the attribute is unset."""

_SCALAR = msgspec.json.Decoder(str | int | bool | None)
_STRING = msgspec.json.Decoder(str)


def quote(text: str) -> str:
    """The JSON string of a text."""
    return msgspec.json.encode(text).decode()


def is_quoted(text: str) -> bool:
    return text.startswith('"')


def unquote(text: str) -> str:
    """The string that a JSON string holds; any other text as it is."""
    if not is_quoted(text):
        return text
    try:
        return _STRING.decode(text)
    except (msgspec.DecodeError, UnicodeEncodeError):  # a content type may be of any bytes
        return text


def unquote_closely(text: str) -> str:
    """Return what ``unquote`` does, but also the text of a JSON string with an unpaired surrogate, which the
    rules of attributes then refuse.
    """
    found = unquote(text)
    if found is not text or not is_quoted(text):
        return found
    try:
        return json_text.string(text.encode())
    except json_text.FAULTS:
        return text


def read_string(text: str, at: str) -> Text:  # noqa: ARG001 - one signature with read_json
    """The string that a JSON string holds; any other text as it is, for its type is not told."""
    return unquote_closely(text), AttributeType.STRING


def read_json(text: str, at: str) -> Text | Fault:
    """Canonical text and type of a JSON value, None for null, which is unset (J2). What is no JSON is
    taken as bare text; JSON that no attribute can be is a fault (J1).
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
    """The canonical text of a typed value (core 1.3); None for a type or a number that no attribute
    can be: tables, arrays, floats, decimals, integers beyond 32 bits.
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
    """Whole seconds in UTC, as AMQP has them; one without an offset is in UTC already."""
    moment = value.astimezone(UTC) if value.tzinfo else value
    return moment.replace(tzinfo=None).isoformat(timespec="seconds") + "Z"


def native_type(value: Native) -> AttributeType:
    """What the wire told about the type of an attribute."""
    if isinstance(value, bool):
        return AttributeType.BOOLEAN
    return AttributeType.INTEGER if isinstance(value, int) else AttributeType.STRING
