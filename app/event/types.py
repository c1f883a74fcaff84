"""The attribute types of core 1.3, each as a question about its canonical string.

Nothing is converted: a value that passes is forwarded as the very text it came with, so nanoseconds,
offsets, leap seconds and the case of ``t`` and ``z`` survive.
"""

from __future__ import annotations

import binascii
import re

from app.event.memo import Memo

INTEGER_MIN = -(2**31)
INTEGER_MAX = 2**31 - 1

# core 1.3: C0 and C1 controls, the 66 noncharacters of Unicode, unpaired surrogates
_FORBIDDEN = re.compile(
    "[\x00-\x1f\x7f-\x9f\ud800-\udfff\ufdd0-\ufdef"
    + "".join(f"{chr(plane << 16 | 0xFFFE)}-{chr(plane << 16 | 0xFFFF)}" for plane in range(17))
    + "]"
)
_NAMES = re.compile("[a-z0-9]+")
_TIMESTAMP = re.compile(  # RFC 3339 5.6: seconds and offset are mandatory, :60 is a leap second
    r"[0-9]{4}-(?:0[1-9]|1[0-2])-(?:0[1-9]|[12][0-9]|3[01])"
    r"[Tt](?:[01][0-9]|2[0-3]):[0-5][0-9]:(?:[0-5][0-9]|60)(?:\.[0-9]+)?"
    r"(?:[Zz]|[+-](?:[01][0-9]|2[0-3]):[0-5][0-9])"
)
_INTEGER = re.compile("-?(?:0|[1-9][0-9]*)")  # RFC 8259 6 without fraction and exponent
_DAYS = (0, 31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)

# RFC 3986. A colon in the first segment of a relative path is let pass: the grammar refuses it only
# to keep it apart from a scheme, and real senders name sources "12:34".
_PCHAR = r"A-Za-z0-9\-._~!$&'()*+,;=:@"
_CODED = "%[0-9A-Fa-f]{2}"
_TAIL = (
    rf"(?://(?:[{_PCHAR}]++|{_CODED}|\[[0-9A-Fa-fv:.]++\])*+)?"
    rf"(?:[{_PCHAR}/]++|{_CODED})*+"
    rf"(?:\?(?:[{_PCHAR}/?]++|{_CODED})*+)?(?:#(?:[{_PCHAR}/?]++|{_CODED})*+)?"
)
_SCHEME = r"[A-Za-z][A-Za-z0-9+.\-]*+:"
_URI = re.compile(_SCHEME + _TAIL)
_URI_REFERENCE = re.compile(f"(?=.)(?:{_SCHEME})?{_TAIL}")


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


def is_timestamp(text: str) -> bool:
    """RFC 3339 with a day that the calendar has."""
    if _TIMESTAMP.fullmatch(text) is None:
        return False
    return text[8:10] <= "28" or int(text[8:10]) <= _days(int(text[:4]), int(text[5:7]))


def _days(year: int, month: int) -> int:
    leap = month == 2 and year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)  # noqa: PLR2004
    return _DAYS[month] + leap


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
