"""The attribute types of core 1.3, each as a question about its canonical string.

Nothing is converted: a value that passes is forwarded as the very text it came with, so nanoseconds,
offsets, leap seconds and the case of ``t`` and ``z`` survive.
"""

from __future__ import annotations

import binascii
import re

from app.event.memo import Memo

PRINTABLE_ASCII = bytes(range(0x20, 0x7F))
INTEGER_MIN = -(2**31)
INTEGER_MAX = 2**31 - 1

# core 1.3: C0 and C1 controls, the 66 noncharacters of Unicode, unpaired surrogates
_FORBIDDEN = re.compile(
    "[\x00-\x1f\x7f-\x9f\ud800-\udfff\ufdd0-\ufdef"
    + "".join(f"{chr(plane << 16 | 0xFFFE)}-{chr(plane << 16 | 0xFFFF)}" for plane in range(17))
    + "]"
)
_NAMES = re.compile("[a-z0-9]+")
_LEAP_YEAR = "(?:[0-9]{2}(?:0[48]|[2468][048]|[13579][26])|(?:[02468][048]|[13579][26])00)"
_DAY = (  # that the calendar has
    "(?:[0-9]{4}-(?:(?:0[1-9]|1[0-2])-(?:0[1-9]|1[0-9]|2[0-8])"
    "|(?:0[13-9]|1[0-2])-(?:29|30)|(?:0[13578]|1[02])-31)"
    f"|{_LEAP_YEAR}-02-29)"
)
TIMESTAMP = (  # RFC 3339 5.6: seconds and offset are mandatory, :60 is a leap second
    rf"{_DAY}[Tt](?:[01][0-9]|2[0-3]):[0-5][0-9]:(?:[0-5][0-9]|60)(?:\.[0-9]+)?"
    r"(?:[Zz]|[+-](?:[01][0-9]|2[0-3]):[0-5][0-9])"
)
"""A regular expression that every dialect reads alike."""
_INTEGER = re.compile("-?(?:0|[1-9][0-9]*)")  # RFC 8259 6 without fraction and exponent

# RFC 3986. The first segment of a relative reference has no colon (4.2): "12:34" would begin with a
# scheme that is none.
_REG_NAME = r"A-Za-z0-9\-._~!$&'()*+,;="
_PCHAR = rf"{_REG_NAME}:@"
_CODED = "%[0-9A-Fa-f]{2}"
_AUTHORITY = (
    rf"(?:(?:[{_REG_NAME}:]++|{_CODED})*+@)?"
    rf"(?:\[(?:[0-9A-Fa-f:.]++|v[0-9A-Fa-f]++\.[{_REG_NAME}:]++)\]|(?:[{_REG_NAME}]++|{_CODED})*+)"
    r"(?::[0-9]*+)?(?=[/?#]|\Z)"
)
_TAIL = (
    rf"(?://{_AUTHORITY}|(?!//))(?:[{_PCHAR}/]++|{_CODED})*+"
    rf"(?:\?(?:[{_PCHAR}/?]++|{_CODED})*+)?(?:#(?:[{_PCHAR}/?]++|{_CODED})*+)?"
)
_SCHEME = r"[A-Za-z][A-Za-z0-9+.\-]*+:"
_URI = re.compile(_SCHEME + _TAIL)
_URI_REFERENCE = re.compile(f"(?=.)(?:{_SCHEME}|(?![^/?#:]*+:)){_TAIL}")


def forbidden_character(text: str) -> int | None:
    """Index of the first code point that no String may hold (core 1.3); None when all are allowed."""
    if text.isascii() and text.isprintable():
        return None
    match = _FORBIDDEN.search(text)
    return None if match is None else match.start()


def _is_name(text: str) -> bool:
    """Core 1.2: lower-case ASCII letters and digits, at least one, of any length, but not ``data``."""
    return text != "data" and _NAMES.fullmatch(text) is not None


is_name = Memo(_is_name).__getitem__


is_timestamp = re.compile(TIMESTAMP).fullmatch
"""RFC 3339, with a day that the calendar has: truthy when it is."""


def is_uri(text: str) -> bool:
    """RFC 3986 3: with a scheme. A fragment is let pass, as senders of ``dataschema`` use them."""
    return _URI.fullmatch(text) is not None


def _is_uri_reference(text: str) -> bool:
    """RFC 3986 4.1: relative references and fragments alone are legal; not empty (core 1.1)."""
    return _URI_REFERENCE.fullmatch(text) is not None


is_uri_reference = Memo(_is_uri_reference).__getitem__


def is_integer(text: str) -> bool:
    """A 32-bit integer as JSON writes it: no plus, no leading zero, no fraction, no exponent."""
    return (
        _INTEGER.fullmatch(text) is not None
        and len(text) <= len(str(INTEGER_MIN))
        and INTEGER_MIN <= int(text) <= INTEGER_MAX
    )


def binary(text: str) -> bytes | None:
    """The bytes of a canonical Binary: standard base64, padded, nothing else; None when it is not."""
    if len(text) % 4 or text.endswith("==="):  # strict mode lets padding after a whole group pass
        return None
    try:
        return binascii.a2b_base64(text, strict_mode=True)
    except ValueError:  # binascii.Error, or a character outside ASCII
        return None
