"""Undo the content codings gzip and deflate (RFC 9110 8.4) of requests and messages, with a size limit."""

from __future__ import annotations

import zlib

GZIP = zlib.MAX_WBITS | 16  # values of ``wbits`` in zlib
ZLIB = zlib.MAX_WBITS
RAW = -zlib.MAX_WBITS
_PIECE = 4096
_MEMBERS = 1000  # the most gzip members: each costs time, even an empty one
_SUPPORTED = frozenset({b"gzip", b"x-gzip", b"deflate"})


class UnknownCoding(ValueError):
    """The error for a content coding other than gzip and deflate, or for several codings."""


def coding_of(value: bytes) -> bytes:
    """Return the coding that must be undone, or ``b""`` if there is none. Raises UnknownCoding for any other
    coding, and for several."""
    codings = [part.strip() for part in value.lower().split(b",")]
    codings = [coding for coding in codings if coding not in (b"", b"identity")]
    if not codings:
        return b""
    if len(codings) > 1 or codings[0] not in _SUPPORTED:
        raise UnknownCoding
    return codings[0]


def undo(coding: bytes, body: bytes, bound: int) -> bytes:
    """Return ``body`` without its coding.

    Raises:
        DecodedTooLarge: The result has more than ``bound`` bytes.
        zlib.error: The body is not in this coding.
    """
    wbits = GZIP if coding != b"deflate" else _deflate_form(body)
    return bytes(inflate(body, bound, wbits))


def _deflate_form(body: bytes) -> int:
    """Return the parameter ``wbits`` of zlib for a deflate body. The body has the zlib wrapper (RFC 9110
    8.4.1.2), or is raw, because some senders omit the wrapper.
    """
    is_zlib = len(body) > 1 and body[0] & 15 == 8 and int.from_bytes(body[:2], "big") % 31 == 0  # noqa: PLR2004 - RFC 1950 2.2
    return ZLIB if is_zlib else RAW


class DecodedTooLarge(Exception):
    """The decoded content exceeds the limit."""


def inflate(data: bytes, bound: int, wbits: int = GZIP) -> bytearray:
    """Return the decompressed data. A gzip body may have several members, which are joined (RFC 1952 2.2).
    Other forms have one stream.

    The input is passed in pieces, because zlib copies the input that it has not read.

    Raises:
        DecodedTooLarge: The result has more than ``bound`` bytes.
        zlib.error: The data is not in this form.
    """
    content = bytearray()
    view, at, members = memoryview(data), 0, 0
    while at < len(data):
        members += 1
        if members > _MEMBERS:
            raise zlib.error(f"it has more than {_MEMBERS} gzip members")
        stream = zlib.decompressobj(wbits)
        while not stream.eof and at < len(data):
            piece = view[at : at + _PIECE]
            content += stream.decompress(piece, bound + 1 - len(content))
            if len(content) > bound:
                raise DecodedTooLarge
            at += len(piece) - len(stream.unused_data)
        if not stream.eof or (at < len(data) and wbits != GZIP):
            raise zlib.error("an incomplete stream, or data after its end")
    return content
