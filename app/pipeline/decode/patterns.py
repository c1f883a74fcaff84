"""What a record must look like to be clear, as regular expressions of Java. Pure.

They are at least as strict as ``app.event.types`` and ``app.event.media_types``: what they accept is
accepted there (``tests/unit/pipeline/decode``), and what they do not is in doubt, not wrong. None of them
can match a line break, so that they may stand in a text of lines; nor, but for ``PRINTABLE`` and the texts of
attributes, a double quote or a backslash, so that they may stand inside of a JSON string. Repetition is possessive: no text is looked through twice, and none exhausts the stack.

Classes name each of their characters: Java looks such a class up in a table, and asks of ranges one by one.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Final

from app.event.versions import Rule


def _each(ranges: str) -> str:
    """A class of ASCII characters, written as ranges, by their names."""
    wanted = re.compile(f"[{ranges}]")
    return "".join(re.escape(char) for char in map(chr, range(0x20, 0x7F)) if wanted.match(char))


_BEYOND = (  # of ASCII: no C1 control, surrogate, noncharacter; not U+FFFD, which bad UTF-8 becomes
    r"\u00a0-\ud7ff\ue000-\ufdcf\ufdf0-\ufffc"
    + "".join(rf"\x{{{plane:x}0000}}-\x{{{plane:x}fffd}}" for plane in range(1, 17))
)
_BARE = _each(r" !#-\[\]-~")
ANY: Final = rf"(?:[{_BARE}]+|[{_BEYOND}]+)"
"""Characters of an attribute. Of runs: Java follows a run in a tight loop, and a choice slowly."""

_PRINTABLE = rf"(?:[ -~]+|[{_BEYOND}]+)"
PRINTABLE: Final = f"{_PRINTABLE}*+"
"""The same, and the double quote and the backslash."""

INTEGER: Final = "(?:0|-?+(?:1[0-9]{9}|20[0-9]{8}|[1-9][0-9]{0,8}+))"
"""Surely of 32 bits."""

_PCHAR = _each(r"A-Za-z0-9\-._~!$&'()*+,;=:@")
_ALNUM = _each("A-Za-z0-9")
NAME: Final = f"[{_ALNUM}]++"
_CODED = "%[0-9A-Fa-f]{2}"
_HOST = rf"//[{_ALNUM}\-._~]*+(?::[0-9]*+)?+(?![^/?#\"\n])"
_PATH = rf"(?:[{_PCHAR}/]+|{_CODED})*+(?:\?(?:[{_PCHAR}/?]+|{_CODED})*+)?+(?:#(?:[{_PCHAR}/?]+|{_CODED})*+)?+"
_SCHEME = r"[A-Za-z][A-Za-z0-9+.\-]*+:"
URI: Final = f"(?:{_SCHEME}(?:{_HOST}|(?!//)){_PATH})"
URI_REFERENCE: Final = (
    f'(?:(?:{_SCHEME}(?:{_HOST}|(?!//))|{_HOST}|(?!//)(?=[^"\\n])(?![^/?#:"\\n]*+:)){_PATH})'
)
_LEAP_YEAR = "(?:[0-9]{2}(?:0[48]|[2468][048]|[13579][26])|(?:[02468][048]|[13579][26])00)"
TIMESTAMP: Final = (
    "(?:(?:[0-9]{4}-(?:(?:0[1-9]|1[0-2])-(?:0[1-9]|1[0-9]|2[0-8])"
    f"|(?:0[13-9]|1[0-2])-(?:29|30)|(?:0[13578]|1[02])-31)|{_LEAP_YEAR}-02-29)"
    r"[Tt](?:[01][0-9]|2[0-3]):[0-5][0-9]:(?:[0-5][0-9]|60)(?:\.[0-9]++)?+"
    "(?:[Zz]|[+-](?:[01][0-9]|2[0-3]):[0-5][0-9]))"
)
_TCHAR = _each("!#$%&'*+.^_`|~0-9A-Za-z-")  # RFC 9110 5.6.2
_TOKEN = f"[{_TCHAR}]++"
MEDIA_TYPE: Final = f"(?:{_TOKEN}/{_TOKEN}(?:; ?+{_TOKEN}={_TOKEN})*+)"
JSON_TYPE: Final = "[^;]*+(?<=[/+](?i:json))(?:;.*+)?+"
"""A media type that is JSON (J6), or goes on to be one of the family."""

TEXT_TYPE: Final = "(?i:text/.*+|[^;]*+(?<=[/+]xml)(?:;.*+)?+)"
"""A media type whose data is text also before 1.0."""

JSON_DOCUMENT: Final = (
    '(?:application/cloudevents(?:\\+json)?+(?i:; ?+charset=(?:utf-8|"utf-8"))?+)'
)
"""The content type of a document in JSON, in UTF-8, as senders spell it."""

_SEXTET = f"[{_each('A-Za-z0-9+/')}]"
BASE64: Final = f"(?:{_SEXTET}{{4}})*+(?:{_SEXTET}[AQgw]==|{_SEXTET}{{2}}[AEIMQUYcgkosw048]=)?+"

_BY_CODE: Mapping[str, str] = {
    "bad-value": f"{_PRINTABLE}++",
    "bad-uri-reference": URI_REFERENCE,
    "bad-uri": URI,
    "bad-media-type": MEDIA_TYPE,
    "bad-timestamp": TIMESTAMP,
    "unsupported-encoding": "(?i:base64)",
}


def value_pattern(rule: Rule) -> str:
    """What a core attribute must be to be clear, by the fault that its rule tells of another."""
    return _BY_CODE[rule.code]


def any_of(texts: Iterable[str]) -> str:
    """One of these texts, letters and digits all."""
    return f"(?:{'|'.join(sorted(texts))})"
