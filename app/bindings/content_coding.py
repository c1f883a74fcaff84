"""The content coding of a record: its header ``content-encoding``, which also carries RabbitMQ's property.

No binding defines a content coding, so an event is read from the decoded body. If Skybridge cannot undo a
coding, the message counts as foreign and keeps the header. So compressed bytes are never forwarded as plain
ones.
"""

from __future__ import annotations

import reprlib
import zlib
from collections.abc import Iterable

from msgspec.structs import replace

from app.bindings.record import Header, Record
from app.errors import SenderError
from app.event.validate import clip
from app.formats.content_coding import DecodedTooLarge, UnknownCoding, coding_of, undo

HEADER = "content-encoding"
CONTENT = 1 << 20
"""The largest decoded body in bytes if no configuration sets a limit. It is the default of
``limits.body``."""

_CHARSETS = frozenset({b"utf-8", b"utf8"})  # AMQP clients write these for plain text


def coding_in(record: Record) -> bytes:
    """Return the content codings that the header ``content-encoding`` of the record names, or ``b""``."""
    named = []
    for name, value in record.headers:
        if _is_coding(name):
            if value is not None:
                named.append(value)
            elif name in record.natives:  # a list or a table, which is no coding that can be undone
                return reprlib.repr(record.natives[name]).encode()
    if not named:
        return b""
    words = (word.strip() for word in b",".join(named).split(b","))
    return b", ".join(word for word in words if word.lower() not in _NO_CODING)


def without_coding(record: Record, bound: int = CONTENT) -> Record:
    """Return the record with its decoded body.

    Raises:
        SenderError: The coding is neither gzip nor deflate (415). The decoded body has more than ``bound``
            bytes (413). The body does not match its coding (400).
    """
    named = coding_in(record)
    if not named:
        return record
    words = f"content coding {clip(named.decode('utf-8', 'replace'))}"
    try:
        body = undo(coding_of(named), record.body, bound) if record.body else record.body
    except UnknownCoding:
        detail = f"Its {words} is not supported: only gzip and deflate are."
        raise SenderError(detail, status=415, code="unsupported-content-encoding") from None
    except DecodedTooLarge:
        detail = f"Without its {words} it has more than {bound} bytes, which is limits.body."
        raise SenderError(detail, status=413, code="body-too-large") from None
    except zlib.error as error:
        detail = f"Its body does not match its {words}: {error}."
        raise SenderError(detail, code="broken-content-encoding") from None
    return replace(record, headers=uncoded(record.headers), body=body)


def uncoded(headers: Iterable[Header]) -> tuple[Header, ...]:
    """Return the headers without ``content-encoding``."""
    return tuple(header for header in headers if not _is_coding(header[0]))


def coded(headers: Iterable[Header], coding: str | None) -> tuple[Header, ...]:
    """Return the headers with ``content-encoding`` added if the broker's message had this property."""
    if not coding:
        return tuple(headers)
    return (*uncoded(headers), (HEADER, coding.encode("utf-8", "surrogateescape")))


def _is_coding(name: str) -> bool:
    return len(name) == len(HEADER) and name.lower() == HEADER


_NO_CODING = _CHARSETS | {b"", b"identity"}
