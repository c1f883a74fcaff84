"""The content coding of a message: a header of that name, which stands for RabbitMQ's property too.

No binding defines one, so an event is read from the content. A coding that is not undone makes the message
foreign, and stays beside it: bytes that have one are never passed on as if they had none.
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
"""Bytes that a body may grow to where no configuration says it: the default of ``limits.body``."""

_CHARSETS = frozenset(
    {b"utf-8", b"utf8"}
)  # what clients of AMQP write there of text that is not coded


def coding_in(record: Record) -> bytes:
    """Return what a message says of its coding; ``b""`` where it has none."""
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
    """Return the message with its content as the body. Raises SenderError with the coding named, for one that
    is not undone, for content beyond ``bound`` bytes, and for what is not coded so."""
    named = coding_in(record)
    if not named:
        return record
    words = f"content coding {clip(named.decode('utf-8', 'replace'))}"
    try:
        body = undo(coding_of(named), record.body, bound) if record.body else record.body
    except UnknownCoding:
        detail = f"Its {words} is not undone: only gzip and deflate are."
        raise SenderError(detail, status=415, code="unsupported-content-encoding") from None
    except DecodedTooLarge:
        detail = f"Without its {words} it has more than {bound} bytes, which is limits.body."
        raise SenderError(detail, status=413, code="body-too-large") from None
    except zlib.error as error:
        detail = f"Its body is not what its {words} says: {error}."
        raise SenderError(detail, code="broken-content-encoding") from None
    return replace(record, headers=uncoded(record.headers), body=body)


def uncoded(headers: Iterable[Header]) -> tuple[Header, ...]:
    """Return the headers that say nothing of a coding."""
    return tuple(header for header in headers if not _is_coding(header[0]))


def coded(headers: Iterable[Header], coding: str | None) -> tuple[Header, ...]:
    """Return the headers of a message whose own property names a coding."""
    if not coding:
        return tuple(headers)
    return (*uncoded(headers), (HEADER, coding.encode("utf-8", "surrogateescape")))


def _is_coding(name: str) -> bool:
    return len(name) == len(HEADER) and name.lower() == HEADER


_NO_CODING = _CHARSETS | {b"", b"identity"}
