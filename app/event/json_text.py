r"""Parse all JSON that the grammar permits (RFC 8259), including JSON that the fast parser ``msgspec``
refuses.

The fast parser refuses two things that are JSON. One is an unpaired surrogate escape, ``"\ud83d"``, which RFC
8259 8.2 allows. Node writes it if a text was cut inside an emoji. The other is a number that no double can
hold, where a number is required. Each function of this module calls the fast parser first, and parses by
itself only after a refusal.

After a refusal, the backslash of each unpaired escape is replaced by a byte that UTF-8 never has. The fast
parser accepts strings with such a byte, and lengths and places stay the same. Afterwards each value gets its
backslashes back.
"""

from __future__ import annotations

import json
import re
from decimal import Decimal, InvalidOperation
from math import isfinite
from typing import Any

import msgspec
from msgspec import Raw

NOT_JSON = (msgspec.DecodeError, UnicodeError, RecursionError)
"""The exceptions that the functions of this module raise for bytes that are not JSON."""

DIGITS = 4300
"""The most digits of a number that becomes a Python value. The time to convert a longer number grows with the
square of its length."""

STAND_IN = 0x100000
"""The distance in code points from an unpaired surrogate to the private-use character that replaces it."""

_VALUE = msgspec.json.Decoder(Raw)
_MEMBERS = msgspec.json.Decoder(dict[str, Raw])
_ITEMS = msgspec.json.Decoder(list[Raw])
_STRING = msgspec.json.Decoder(str)
_WHITE_SPACE = b" \t\r\n"

_HIGH, _LOW = rb"u[dD][89abAB][0-9a-fA-F]{2}", rb"u[dD][c-fC-F][0-9a-fA-F]{2}"
_UNPAIRED = re.compile(
    rb"\\(%b)(?!\\%b)|(?<!\\%b)\\(%b)" % (_HIGH, _LOW, _HIGH.replace(b"{2}", b"[0-9a-fA-F]"), _LOW)
)
_ANY = re.compile(rb"\\u[dD][89a-fA-F]")
_BAD_ESCAPE = re.compile(rb"\\u[0-9a-fA-F]{0,3}[^0-9a-fA-F]")
_HIDDEN, _MARK = (
    b"\xfe\xfe",
    b"\xff",
)  # bytes that UTF-8 never has, in place of two backslashes and of one
_MARKED = rb"\xff\1\2".replace(rb"\xff", _MARK)

_SURROGATE = re.compile("[\ud800-\udfff]")
_STOOD_IN = re.compile(f"[{chr(STAND_IN + 0xD800)}-{chr(STAND_IN + 0xDFFF)}]")
_NAME = re.compile(r'[ \t\r\n,{]*("(?:[^"\\]|\\.)*+")[ \t\r\n]*:[ \t\r\n]*')
_SCALAR = re.compile(r'"(?:[^"\\]|\\.)*+"|[^\[{",\]} \t\r\n]+')
_scan = json.JSONDecoder(parse_int=float).raw_decode

Text = bytes | Raw


def single_value(text: Text) -> bytes:
    """Return the single JSON value of the text, without surrounding white space. Raises ``NOT_JSON``."""
    try:
        return bytes(_VALUE.decode(text)).strip(_WHITE_SPACE)
    except msgspec.DecodeError as error:
        text = bytes(text)
        _VALUE.decode(_marked(text, error))
    return text.strip(_WHITE_SPACE)


def items(text: Text) -> list[Raw]:
    """Return the values of a JSON array, each as its original text. Raises ``NOT_JSON``, and ValidationError if
    it is no array.
    """
    try:
        return _ITEMS.decode(text)
    except msgspec.ValidationError:
        raise
    except msgspec.DecodeError as error:
        found = _ITEMS.decode(_marked(bytes(text), error))
    return list(map(_restored, found))


def members(text: Text) -> dict[str, Raw]:
    """Return the members of a JSON object, each value as its original text. If a name is repeated, the last
    value counts.

    Names may hold unpaired surrogates. Raises ``NOT_JSON``, and ValidationError if it is no object.
    """
    try:
        return _MEMBERS.decode(text)
    except msgspec.ValidationError:
        raise
    except msgspec.DecodeError as error:
        text = bytes(text)
        marked = _marked(text, error)
    try:
        found = _MEMBERS.decode(marked)
    except UnicodeDecodeError:  # a name of this object holds an unpaired escape
        return _walked(text, marked)
    return {name: _restored(value) for name, value in found.items()}


def string(text: Text) -> str:
    """Return the text of a JSON string, which may hold unpaired surrogates.

    Raises ``NOT_JSON``, and ValidationError if it is no string.
    """
    try:
        return _STRING.decode(text)
    except msgspec.ValidationError:
        raise
    except msgspec.DecodeError as error:
        text = bytes(text)
        _VALUE.decode(_marked(text, error))
    found: str = json.loads(text.decode())
    return found


def compact(text: Text) -> bytes:
    """Return the same JSON without white space between its tokens. Raises NOT_JSON."""
    text = bytes(text)
    try:
        return msgspec.json.format(text, indent=-1)
    except msgspec.DecodeError as error:
        return bytes(_restored(msgspec.json.format(_marked(text, error), indent=-1)))


def is_unpaired(text: Text) -> bool:
    """Return True if a string of the JSON text holds an unpaired surrogate escape."""
    text = bytes(text)
    return bool(_ANY.search(text) and _UNPAIRED.search(text.replace(rb"\\", _HIDDEN)))


def is_utf8(text: bytes) -> bool:
    """Return True if all of the text is UTF-8, as JSON demands (RFC 8259 8.1). The fast parser does not check this."""
    try:
        return text.isascii() or text.decode() is not None
    except UnicodeDecodeError:
        return False


def decode_value(text: Text) -> Any:
    """Return the JSON value as Python objects. Raises ``NOT_JSON``, and ValueError for text that is not UTF-8.

    A number that no double holds is a Decimal. A number of more than ``DIGITS`` digits becomes 10 to the
    power of ``DIGITS``, so that comparisons with other numbers have the same result. Texts may hold unpaired
    surrogates.
    """
    try:
        return msgspec.json.decode(text)
    except msgspec.DecodeError:
        return loaded(single_value(text))


def loaded(document: bytes) -> Any:
    """Return the JSON value that ``decode_value`` would return, by Python's own parser. Raises ValueError."""
    return json.loads(document.decode(), parse_int=_integer, parse_float=_number)


def with_stand_ins(text: bytes) -> bytes:
    """Return the JSON text with a private-use character in place of each unpaired surrogate.

    The code point of the character is ``STAND_IN`` higher than that of the surrogate. Libraries that refuse
    unpaired surrogates accept this character.
    """
    if not is_unpaired(text):
        return text
    return _UNPAIRED.sub(_stand_in, text.replace(rb"\\", _HIDDEN)).replace(_HIDDEN, rb"\\")


def without_stand_ins(text: str) -> str:
    """Return the text with the original escape in place of each private-use character of ``with_stand_ins``."""
    return _STOOD_IN.sub(lambda found: f"\\u{ord(found[0]) - STAND_IN:04x}", text)


def _stand_in(found: re.Match[bytes]) -> bytes:
    return chr(STAND_IN + int(found[0][-4:], 16)).encode()


def decode_lossless(text: Text, depth: int = 64) -> Any:
    """Return the JSON value as Python objects. A part that msgspec could not write again unchanged is
    returned as Raw.

    These parts are numbers that no double holds, texts with unpaired surrogates, and objects with such names.
    They are Raw also below ``depth`` levels, with all that surrounds them. Raises ``NOT_JSON``.
    """
    try:
        return msgspec.json.decode(text)
    except msgspec.DecodeError:
        whole = single_value(text)
    if depth and whole.startswith(b"["):
        return [decode_lossless(each, depth - 1) for each in items(whole)]
    if depth and whole.startswith(b"{"):
        found = members(whole)
        if not any(map(_SURROGATE.search, found)):
            return {name: decode_lossless(each, depth - 1) for name, each in found.items()}
    return Raw(whole)


def encode_value(value: object) -> bytes:
    """Return the JSON of a value. Unpaired surrogates in its texts are written as escapes."""
    try:
        return msgspec.json.encode(value)
    except UnicodeEncodeError:
        return json.dumps(value).encode()


def reason(text: bytes, error: Exception) -> str:
    """Return the reason why the parser refused ``text``. For a unicode escape that was cut off, the reason is
    clearer than the parser's own."""
    if "truncated" in str(error) and _BAD_ESCAPE.search(text.replace(rb"\\", _HIDDEN)):
        return "JSON is malformed: invalid character in unicode escape"
    return str(error)


def _marked(text: bytes, error: msgspec.DecodeError) -> bytes:
    """Return the text with a special byte in place of the backslash of each unpaired escape. Raises ``error``
    if there is no unpaired escape."""
    if not _ANY.search(text) or _MARK in text or _HIDDEN[:1] in text:
        raise error
    hidden = text.replace(
        rb"\\", _HIDDEN
    )  # two backslashes are a pair, so the characters after them are no escape
    return _UNPAIRED.sub(_MARKED, hidden).replace(_HIDDEN, rb"\\")


def _restored(value: Text) -> Raw:
    return Raw(bytes(value).replace(_MARK, b"\\"))


def _walked(text: bytes, marked: bytes) -> dict[str, Raw]:
    """Return the members of an object whose names contain unpaired surrogates."""
    _VALUE.decode(marked)  # proves that it is JSON: every token is where the patterns expect it
    latin = marked.decode("latin-1")  # one character per byte
    found: dict[str, Raw] = {}
    at = 0
    while name := _NAME.match(latin, at):
        scalar = _SCALAR.match(latin, name.end())
        at = scalar.end() if scalar else _scan(latin, name.end())[1]
        found[_name(text[name.start(1) : name.end(1)])] = Raw(text[name.end() : at])
    return found


def _name(token: bytes) -> str:
    return string(token) if b"\\" in token else token[1:-1].decode()


def _integer(token: str) -> int | Decimal:
    return int(token) if len(token) <= DIGITS else _bounded(token)


def _number(token: str) -> float | Decimal:
    found = float(token)
    return found if isfinite(found) else _bounded(token)


def _bounded(token: str) -> Decimal:
    """Return a number that no double holds, or one of thousands of digits, as a Decimal of limited size."""
    try:
        found = Decimal(token)
    except InvalidOperation:  # its exponent is beyond Python's limits
        found = Decimal("-inf" if token.startswith("-") else "inf")
    if not found.is_finite() or found.adjusted() >= DIGITS:
        return (Decimal(10) ** DIGITS).copy_sign(found)
    return found if len(token) <= DIGITS else +found
