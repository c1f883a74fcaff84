"""Attributes in headers: names under a prefix, values in percent code, and what to do with repeats.

Only HTTP percent-codes header values; brokers carry plain UTF-8 (trap 1 of the specification family).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from urllib.parse import quote, unquote_to_bytes

from app.errors import Fault, SenderError
from app.event.memo import Memo
from app.event.types import PRINTABLE_ASCII, is_name
from app.event.validate import clip, shorten

_PLAIN = bytes(set(PRINTABLE_ASCII) - set(b' "%'))  # what encodes and decodes to itself
_JSON_PLAIN = bytes(set(PRINTABLE_ASCII) - set(b"%"))
PRINTABLE = PRINTABLE_ASCII + b"\n"
"""What values as they are consist of, with a line break between any two."""
PLAIN = _PLAIN + b"\n"
"""Likewise of values that may be in percent code and quotes, but are not."""
_QUOTED_STRING = re.compile(rb'"((?:[^"\\]|\\.)*+)"', re.DOTALL)
_QUOTED_PAIR = re.compile(rb"\\(.)", re.DOTALL)
_MALFORMED = re.compile(b"%(?![0-9A-Fa-f]{2})")
_SEPARATOR = b", "  # what an intermediary puts between the values that it joins (RFC 9110 5.3)


def _field_name(name: bytes) -> bytes:
    """0.1 spells the names of extensions (``CE-X-MyExt``): that is all the case there is to keep."""
    lower = name.lower()
    return b"ce-" + name[3:] if lower.startswith(b"ce-x-") else lower


FIELD_NAMES = Memo(_field_name)
"""A header name of HTTP to what the binding wants: in lower case, but for what follows ``ce-`` in a name
that 0.1 may have spelled. One object a name, so that its hash is computed once for all who ask.
"""


class NotACloudEvent(SenderError):
    """Nothing says that this is a CloudEvent: no media type of the family, no attribute headers."""

    def __init__(self, title: str, faults: Iterable[Fault] = ()) -> None:
        super().__init__(title, code="not-a-cloudevent", faults=tuple(faults))


def not_utf8(at: str, rule: str) -> Fault:
    """What has no text cannot be an attribute (core 1.3)."""
    return Fault("bad-utf8", f"{at} is not UTF-8.", at, rule)


def attribute_names(prefix: str) -> Memo[bytes, str]:
    """Header names that start with ``prefix`` to attribute names; "" for one that names none.

    ``datacontenttype`` has a header of its own, without prefix, and counts as none here (H8).
    """

    def name_of(header: bytes) -> str:
        name = header[len(prefix) :].decode("latin-1")
        return name if is_name(name) and name != "datacontenttype" else ""

    return Memo(name_of)


def header_names(prefix: str) -> Memo[str, str]:
    """Attribute names to header names."""
    return Memo(lambda name: prefix + name)


def percent_encode(texts: list[str]) -> list[str]:
    """HTTP 3.1.3.2: space, ``"``, ``%`` and all outside U+0021-007E, as UTF-8, upper-case hex."""
    if _is_plain("".join(texts)):
        return texts
    return [text if _is_plain(text) else quote(text, safe=_PLAIN) for text in texts]


def _is_plain(text: str) -> bool:
    return not text.encode().translate(None, _PLAIN)


def percent_decode(value: bytes) -> str:
    """HTTP 3.1.3.2: a value that is one quoted string is unquoted, then one round of percent-decoding; then it
    must be UTF-8.

    A ``%`` that starts no code, and a quote anywhere else, stays as it is: senders that do not encode exist.
    Raw UTF-8 bytes are taken too. Raises UnicodeDecodeError.
    """
    value = value.strip(b" \t")  # white space around a value is none of it (RFC 9110 5.5)
    if value.startswith(b'"'):
        value = _unquoted(value)
    return (unquote_to_bytes(value) if b"%" in value else value).decode()


def percent_decode_once(value: bytes) -> str:
    """0.1 and 0.2: one round, and quotes are left to the JSON value that the text is."""
    return unquote_to_bytes(value.strip(b" \t")).decode()


def percent_encode_json(text: str) -> str:
    """0.1 and 0.2: all outside ASCII, controls and ``%``; quotes and spaces within stay as they are."""
    return quote(text, safe=_PLAIN if text != text.strip() else _JSON_PLAIN)


def times_joined(value: bytes) -> int:
    """How often an intermediary has joined one value with itself; 1 for a value on its own."""
    count = value.count(_SEPARATOR) + 1
    return count if value == _SEPARATOR.join([value.partition(_SEPARATOR)[0]] * count) else 1


def parted(value: bytes, times: int) -> list[bytes]:
    """The ``times`` values that were joined to one: the same one where its parts are equal, else the first and
    the rest, which are enough to tell that they differ, however many they are.
    """
    size, over = divmod(len(value) - (times - 1) * len(_SEPARATOR), times)
    if (
        size >= 0 and not over
    ):  # else no part is repeated so often: nothing is built to find that out
        part = value[:size]
        if value == _SEPARATOR.join([part] * times):
            return [part]
    return value.split(_SEPARATOR, 1)


def _unquoted(value: bytes) -> bytes:
    """The SDKs of Go, Java and JavaScript write ``a "quoted" word`` as it is: its quotes are text."""
    quoted = _QUOTED_STRING.fullmatch(value)
    return _QUOTED_PAIR.sub(rb"\1", quoted[1]) if quoted else value


def malformed(value: bytes) -> str | None:
    """What a strict reader refuses: a ``%`` that starts no code, a quote that belongs to no quoted string."""
    if b'"' in value and not _QUOTED_STRING.fullmatch(value):
        return "a double quote outside a quoted string"
    if _MALFORMED.search(_unquoted(value)):
        return "a % that is not followed by two hexadecimal digits"
    return None


def collapse(
    pairs: Iterable[tuple[str, str]], locate: Callable[[str], str]
) -> tuple[dict[str, str], list[Fault]]:
    """Name and value pairs as attributes. The same value twice is one; different values are a fault,
    never "the last one wins" (core 1.1: an attribute appears at most once).
    """
    attributes: dict[str, str] = {}
    faults: list[Fault] = []
    for name, text in pairs:
        first = attributes.setdefault(name, text)
        if first != text:
            detail = f"{shorten(name)} is given twice, as {clip(first)} and as {clip(text)}."
            faults.append(Fault("repeated-attribute", detail, locate(name), "core 1.1"))
    return attributes, faults
