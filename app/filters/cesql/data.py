"""``DATA`` and ``HAS_DATA``: our functions that look into JSON data, where a filter asks for it.

CESQL leaves data to others (1) and wants engines to take functions of their users (3.5). The data is
parsed at the moment of the call, and only the levels on the way.
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
    """String, Boolean, Integer where it is written as one and 32 bits hold it, Decimal otherwise. What is not
    there, null, an object, an array, a number that no Decimal holds and a text with an unpaired surrogate are a
    functionEvaluation error.
    """
    find = compile_lookup(pointer)

    def data(event: CloudEvent) -> Value:
        found = find(event)
        if found is None:
            raise Failure("functionEvaluation", f"the data has nothing at {pointer!r}")
        return _value(found, pointer)

    return data


def compile_existence(pointer: str) -> Callable[[CloudEvent], bool]:
    """Whether there is anything, if only null."""
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
    except msgspec.DecodeError:  # it is JSON: this is all that can be wrong with a string
        message = f"the text at {pointer!r} has an unpaired surrogate"
    except UnicodeError:
        message = f"the text at {pointer!r} is not UTF-8"
    raise Failure("functionEvaluation", message)
