"""Attributes in headers: names under a prefix, percent-encoded values, and repeated headers.

Only HTTP percent-encodes header values. Brokers carry plain UTF-8.
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
"""The bytes of values that need no decoding on a broker, and the line break that joins several values."""
PLAIN = _PLAIN + b"\n"
"""The bytes of HTTP values without percent-encoding and quotes, and the line break that joins several values."""
_QUOTED_STRING = re.compile(rb'"((?:[^"\\]|\\.)*+)"', re.DOTALL)
_QUOTED_PAIR = re.compile(rb"\\(.)", re.DOTALL)
_MALFORMED = re.compile(b"%(?![0-9A-Fa-f]{2})")
_SEPARATOR = (
    b", "  # the separator that an intermediary writes when it joins repeated headers (RFC 9110 5.3)
)


def _field_name(name: bytes) -> bytes:
    """Return the header name in lower case, but for the rest of a name after ``ce-x-``: version 0.1 has
    extensions such as ``CE-X-MyExt``.
    """
    lower = name.lower()
    return b"ce-" + name[3:] if lower.startswith(b"ce-x-") else lower


FIELD_NAMES = Memo(_field_name)
"""The HTTP header name as the binding reads it: lower case, but for the extension names of version 0.1.

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

    A ``%`` that starts no code and a quote elsewhere stay as they are, because some senders do not encode.
    Raw UTF-8 bytes are accepted too. Raises UnicodeDecodeError if the result is not UTF-8.
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
    """Return how many equal parts a header value consists of, if an intermediary joined repeated headers with
    commas.

    A value on its own gives 1.
    """
    count = value.count(_SEPARATOR) + 1
    return count if value == _SEPARATOR.join([value.partition(_SEPARATOR)[0]] * count) else 1


def split_joined(value: bytes, times: int) -> list[bytes]:
    """Split a header value that an intermediary joined from ``times`` values.

    Returns:
        One value if all parts are equal. Otherwise the first part and the remainder, which suffices to show
            that they differ.
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
    """Return the content of a quoted string. A value with quotes elsewhere stays as it is, as the SDKs of Go,
    Java and JavaScript write it.
    """
    quoted = _QUOTED_STRING.fullmatch(value)
    return _QUOTED_PAIR.sub(rb"\1", quoted[1]) if quoted else value


def malformed(value: bytes) -> str | None:
    """Return what strict decoding refuses in a value: a ``%`` that starts no code, or a stray quote. None if
    nothing.
    """
    if b'"' in value and not _QUOTED_STRING.fullmatch(value):
        return "a double quote outside a quoted string"
    if _MALFORMED.search(_unquoted(value)):
        return "a % that is not followed by two hexadecimal digits"
    return None


def collapse(
    pairs: Iterable[tuple[str, str]], locate: Callable[[str], str]
) -> tuple[dict[str, str], list[Fault]]:
    """Return the attributes of name and value pairs, and the faults of names with different values.

    The same value twice counts once. The last of two different values never wins, because an attribute
    appears at most once (core 1.1).
    """
    attributes: dict[str, str] = {}
    faults: list[Fault] = []
    for name, text in pairs:
        first = attributes.setdefault(name, text)
        if first != text:
            detail = f"{shorten(name)} is given twice, as {clip(first)} and as {clip(text)}."
            faults.append(Fault("repeated-attribute", detail, locate(name), "core 1.1"))
    return attributes, faults
