"""Attributes in headers: names under a prefix, percent-encoded values, and repeated headers.

Only the HTTP binding percent-encodes header values. Headers of brokers carry plain UTF-8.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from urllib.parse import quote, unquote_to_bytes

from app.errors import Fault, SenderError
from app.event.memo import Memo
from app.event.types import PRINTABLE_ASCII, is_name
from app.event.validate import clip, shorten

_PLAIN = bytes(
    set(PRINTABLE_ASCII) - set(b' "%')
)  # bytes that percent-encode and percent-decode to themselves
_JSON_PLAIN = bytes(set(PRINTABLE_ASCII) - set(b"%"))
PRINTABLE = PRINTABLE_ASCII + b"\n"
"""The bytes of a broker's header values that need no decoding. The line break is included, because several
values are joined with it and checked together."""
PLAIN = _PLAIN + b"\n"
"""The bytes of HTTP header values that need no decoding: no percent-encoding and no quotes. The line break is
included, because several values are joined with it and checked together."""
_QUOTED_STRING = re.compile(rb'"((?:[^"\\]|\\.)*+)"', re.DOTALL)
_QUOTED_PAIR = re.compile(rb"\\(.)", re.DOTALL)
_MALFORMED = re.compile(b"%(?![0-9A-Fa-f]{2})")
_SEPARATOR = (
    b", "  # the separator that an intermediary writes when it joins repeated headers (RFC 9110 5.3)
)


def _field_name(name: bytes) -> bytes:
    """Return the header name in lower case. After ``ce-x-`` the case is kept, because version 0.1 has
    extensions such as ``CE-X-MyExt``.
    """
    lower = name.lower()
    return b"ce-" + name[3:] if lower.startswith(b"ce-x-") else lower


FIELD_NAMES = Memo(_field_name)
"""A cached mapping from an HTTP header name to its form in the binding: lower case, except for the extension
names of version 0.1.

Each name is one cached object, so that its hash is computed once.
"""


class NotACloudEvent(SenderError):
    """The message is no CloudEvent: neither a CloudEvents media type nor attribute headers are present."""

    def __init__(self, title: str, faults: Iterable[Fault] = ()) -> None:
        super().__init__(title, code="not-a-cloudevent", faults=tuple(faults))


def not_utf8(at: str, rule: str) -> Fault:
    """Return the fault of a value that is not UTF-8, and so cannot be an attribute (core 1.3)."""
    return Fault("bad-utf8", f"{at} is not UTF-8.", at, rule)


def attribute_names(prefix: str) -> Memo[bytes, str]:
    """Return a cached mapping from header names under ``prefix`` to attribute names.

    A header that names no valid attribute maps to "". So does ``datacontenttype``, whose header has no
    prefix.
    """

    def name_of(header: bytes) -> str:
        name = header[len(prefix) :].decode("latin-1")
        return name if is_name(name) and name != "datacontenttype" else ""

    return Memo(name_of)


def header_names(prefix: str) -> Memo[str, str]:
    """Return a cached mapping from attribute names to header names under ``prefix``."""
    return Memo(lambda name: prefix + name)


def percent_encode(texts: list[str]) -> list[str]:
    """Return header values percent-encoded (HTTP binding 3.1.3.2): space, ``"``, ``%`` and all outside
    U+0021-007E.

    Characters are encoded as UTF-8, with hexadecimal digits in upper case.
    """
    if _is_plain("".join(texts)):
        return texts
    return [text if _is_plain(text) else quote(text, safe=_PLAIN) for text in texts]


def _is_plain(text: str) -> bool:
    return not text.encode().translate(None, _PLAIN)


def percent_decode(value: bytes) -> str:
    """Return the text of a header value (HTTP binding 3.1.3.2): unquote one quoted string, then percent-decode
    once.

    A ``%`` that starts no valid code stays as it is, because some senders do not encode. So does a quote in
    any other place. Raw UTF-8 bytes are accepted too. Raises UnicodeDecodeError if the result is not UTF-8.
    """
    value = value.strip(b" \t")  # white space around a value does not belong to it (RFC 9110 5.5)
    if value.startswith(b'"'):
        value = _unquoted(value)
    return (unquote_to_bytes(value) if b"%" in value else value).decode()


def percent_decode_once(value: bytes) -> str:
    """Return the text of a header value of version 0.1 or 0.2: percent-decode once and keep quotes, which are JSON."""
    return unquote_to_bytes(value.strip(b" \t")).decode()


def percent_encode_json(text: str) -> str:
    """Return a header value of version 0.1 or 0.2 with controls, ``%`` and everything outside ASCII
    percent-encoded.

    Quotes and inner spaces stay as they are.
    """
    return quote(text, safe=_PLAIN if text != text.strip() else _JSON_PLAIN)


def count_joined(value: bytes) -> int:
    """Return of how many equal parts a header value consists. An intermediary may have joined repeated
    headers with commas. The result is 1 for a value that was not joined.
    """
    count = value.count(_SEPARATOR) + 1
    return count if value == _SEPARATOR.join([value.partition(_SEPARATOR)[0]] * count) else 1


def split_joined(value: bytes, times: int) -> list[bytes]:
    """Split a header value that an intermediary may have joined from ``times`` equal values.

    Returns:
        One value if all parts are equal. Otherwise two values, the first part and the remainder, which show
        that the parts differ.
    """
    size, over = divmod(len(value) - (times - 1) * len(_SEPARATOR), times)
    if (
        size >= 0 and not over
    ):  # a length that does not divide cannot hold equal parts, so nothing is built
        part = value[:size]
        if value == _SEPARATOR.join([part] * times):
            return [part]
    return value.split(_SEPARATOR, 1)


def _unquoted(value: bytes) -> bytes:
    """Return the content of a quoted string. A value with a quote in any other place is returned as it is,
    because the SDKs of Go, Java and JavaScript send such values.
    """
    quoted = _QUOTED_STRING.fullmatch(value)
    return _QUOTED_PAIR.sub(rb"\1", quoted[1]) if quoted else value


def malformed(value: bytes) -> str | None:
    """Return the part of a header value that strict decoding refuses: a ``%`` that starts no code, or a stray
    quote. Return None if the value is well-formed.
    """
    if b'"' in value and not _QUOTED_STRING.fullmatch(value):
        return "a double quote outside a quoted string"
    if _MALFORMED.search(_unquoted(value)):
        return "a % that is not followed by two hexadecimal digits"
    return None


def collapse(
    pairs: Iterable[tuple[str, str]], locate: Callable[[str], str]
) -> tuple[dict[str, str], list[Fault]]:
    """Collect pairs of names and values as attributes. Return the attributes, and a fault for each name that
    has different values.

    A repeated equal value counts once. Two different values are always a fault, because an attribute appears
    at most once (core 1.1).
    """
    attributes: dict[str, str] = {}
    faults: list[Fault] = []
    for name, text in pairs:
        first = attributes.setdefault(name, text)
        if first != text:
            detail = f"{shorten(name)} is given twice, as {clip(first)} and as {clip(text)}."
            faults.append(Fault("repeated-attribute", detail, locate(name), "core 1.1"))
    return attributes, faults
