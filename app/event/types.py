"""Tests whether a canonical text is a valid value of an attribute type (CloudEvents core 1.3).

No value is converted. A valid value is forwarded as the text that arrived, so nanoseconds, offsets, leap
seconds and the case of ``t`` and ``z`` are kept.
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
_DAY = (  # only days that the calendar has
    "(?:[0-9]{4}-(?:(?:0[1-9]|1[0-2])-(?:0[1-9]|1[0-9]|2[0-8])"
    "|(?:0[13-9]|1[0-2])-(?:29|30)|(?:0[13578]|1[02])-31)"
    f"|{_LEAP_YEAR}-02-29)"
)
TIMESTAMP = (  # RFC 3339 5.6: seconds and offset are mandatory, :60 is a leap second
    rf"{_DAY}[Tt](?:[01][0-9]|2[0-3]):[0-5][0-9]:(?:[0-5][0-9]|60)(?:\.[0-9]+)?"
    r"(?:[Zz]|[+-](?:[01][0-9]|2[0-3]):[0-5][0-9])"
)
"""The pattern of a timestamp, in a form that every regular expression dialect reads the same way."""
_INTEGER = re.compile("-?(?:0|[1-9][0-9]*)")  # RFC 8259 6 without fraction and exponent

# RFC 3986. The first segment of a relative reference has no colon (4.2), because "12:34" would look like a
# scheme.
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
    """Return the index of the first code point that a String may not contain (core 1.3). Return None if all
    code points are allowed."""
    if text.isascii() and text.isprintable():
        return None
    match = _FORBIDDEN.search(text)
    return None if match is None else match.start()


def _is_name(text: str) -> bool:
    """Return True for an attribute name (core 1.2): one or more of a-z and 0-9, but not ``data``."""
    return text != "data" and _NAMES.fullmatch(text) is not None


is_name = Memo(_is_name).__getitem__
"""A cached function that returns True for a valid attribute name (core 1.2)."""


is_timestamp = re.compile(TIMESTAMP).fullmatch
"""A test for RFC 3339 timestamps. The day must exist in the calendar. The result is truthy for a valid
timestamp."""


def is_uri(text: str) -> bool:
    """Return True for an absolute URI (RFC 3986 3). A fragment is accepted, because senders of ``dataschema``
    use it.
    """
    return _URI.fullmatch(text) is not None


def _is_uri_reference(text: str) -> bool:
    """Return True for a URI reference (RFC 3986 4.1). It may be absolute, relative or only a fragment, but
    not empty.
    """
    return _URI_REFERENCE.fullmatch(text) is not None


is_uri_reference = Memo(_is_uri_reference).__getitem__
"""A cached function that returns True for a URI reference (RFC 3986 4.1) that is not empty."""


def is_integer(text: str) -> bool:
    """Return True for a 32-bit integer as JSON writes it: no plus, leading zero, fraction or exponent."""
    return (
        _INTEGER.fullmatch(text) is not None
        and len(text) <= len(str(INTEGER_MIN))
        and INTEGER_MIN <= int(text) <= INTEGER_MAX
    )


def binary(text: str) -> bytes | None:
    """Return the bytes of padded standard base64, the canonical form of Binary, or None if the text is anything
    else.
    """
    if len(text) % 4 or text.endswith("==="):  # strict mode accepts padding after a whole group
        return None
    try:
        return binascii.a2b_base64(text, strict_mode=True)
    except ValueError:  # binascii.Error, or a character outside ASCII
        return None
