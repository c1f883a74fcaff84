"""Values of Pulsar properties: bare text, or the JSON representation to the letter (P6)."""

from __future__ import annotations

import msgspec

from app.errors import Fault
from app.event.types import is_integer
from app.event.value import AttributeType

_SCALAR = msgspec.json.Decoder(str | int | bool | None)
_STRING = msgspec.json.Decoder(str)


def write_text(text: str, kind: AttributeType | None, *, as_json: bool) -> bytes:
    """Integers and booleans are the same in both forms; strings are quoted in JSON."""
    if as_json and kind in (None, AttributeType.STRING):
        return msgspec.json.encode(text)
    return text.encode()


def is_quoted(text: str) -> bool:
    return text.startswith('"')


def unquote(text: str) -> str:
    """The string that a JSON string holds; any other text as it is."""
    if not is_quoted(text):
        return text
    try:
        return _STRING.decode(text)
    except msgspec.DecodeError:
        return text


def read_json(text: str, at: str) -> tuple[str | None, AttributeType] | Fault:
    """Canonical text and type of a JSON value, None for null, which is unset (J2). What is no JSON is
    taken as bare text; JSON that no attribute can be is a fault (J1).
    """
    refusal = Fault("wrong-type", f"{at} is no string, boolean or integer of 32 bits.", at, "J1")
    try:
        value = _SCALAR.decode(text)
    except (msgspec.ValidationError, RecursionError):
        return refusal
    except msgspec.DecodeError:
        return text, AttributeType.STRING
    if isinstance(value, str | None):
        return value, AttributeType.STRING
    if isinstance(value, bool):
        return text.strip(), AttributeType.BOOLEAN
    number = text.strip()
    return (number, AttributeType.INTEGER) if is_integer(number) else refusal
