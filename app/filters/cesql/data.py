"""``DATA`` and ``HAS_DATA``, the extension functions of Skybridge that read JSON data.

CESQL does not define access to data (CESQL 1) and permits additional functions (3.5). The data is parsed
during the call, and only those levels that the pointer passes.
"""

from __future__ import annotations

import re
from collections.abc import Callable

import msgspec

from app.event.json_pointer import compile_lookup
from app.event.value import CloudEvent
from app.filters.cesql.decimals import DIGITS, EXPONENT, read
from app.filters.cesql.values import LEAST, MOST, Failure, Value

_TEXT = msgspec.json.Decoder(str)
_INTEGER = re.compile(rb"-?[0-9]{1,10}")
_WORDS: dict[bytes, bool] = {b"true": True, b"false": False}


def compile_data(pointer: str) -> Callable[[CloudEvent], Value]:
    """Return the function ``DATA`` for a JSON Pointer. The function returns the value in the data to which
    the pointer leads.

    The value is a String, a Boolean, an Integer or a Decimal. A number is an Integer if it is written as a
    32-bit integer.

    All other values cause a functionEvaluation error: a missing value, null, an object, and an array. So do a
    number that no Decimal holds, and a text with an unpaired surrogate.
    """
    find = compile_lookup(pointer)

    def data(event: CloudEvent) -> Value:
        found = find(event)
        if found is None:
            raise Failure("functionEvaluation", f"the data has nothing at {pointer!r}")
        return _value(found, pointer)

    return data


def compile_existence(pointer: str) -> Callable[[CloudEvent], bool]:
    """Return the function ``HAS_DATA`` for a JSON Pointer. It returns True if the pointer leads to a value in
    the data, even if this value is null."""
    find = compile_lookup(pointer)
    return lambda event: find(event) is not None


def _value(found: bytes, pointer: str) -> Value:
    if found.startswith(b'"'):
        return _text(found, pointer)
    if found in _WORDS:
        return _WORDS[found]
    if found.startswith((b"{", b"[", b"n")):
        raise Failure(
            "functionEvaluation", f"the data at {pointer!r} is no text, number or boolean"
        )
    if _INTEGER.fullmatch(found) and LEAST <= int(found) <= MOST:
        return int(found)
    number = read(found.decode("ascii"))
    if number is None:
        message = f"the number at {pointer!r} is beyond {DIGITS} digits, or exponents of {EXPONENT}"
        raise Failure("functionEvaluation", message)
    return number


def _text(found: bytes, pointer: str) -> str:
    try:
        return _TEXT.decode(found)
    except msgspec.DecodeError:  # the value is JSON, so this is the only possible fault of a string
        message = f"the text at {pointer!r} has an unpaired surrogate"
    except UnicodeError:
        message = f"the text at {pointer!r} is not UTF-8"
    raise Failure("functionEvaluation", message)
