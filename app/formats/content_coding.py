"""Content codings (RFC 9110 8.4) of request bodies and of messages, undone under a bound on what they grow to."""

from __future__ import annotations

import zlib

GZIP = zlib.MAX_WBITS | 16  # for ``wbits``, as zlib has them
ZLIB = zlib.MAX_WBITS
RAW = -zlib.MAX_WBITS
_PIECE = 4096
_MEMBERS = 1000  # of gzip, at most: each costs, also when it is empty
_SUPPORTED = frozenset({b"gzip", b"x-gzip", b"deflate"})


class UnknownCoding(ValueError):
    """A coding that is not undone here, or several."""


def coding_of(value: bytes) -> bytes:
    """Return the one coding to undo; ``b""`` for none. Raises UnknownCoding for any other."""
    codings = [part.strip() for part in value.lower().split(b",")]
    codings = [coding for coding in codings if coding not in (b"", b"identity")]
    if not codings:
        return b""
    if len(codings) > 1 or codings[0] not in _SUPPORTED:
        raise UnknownCoding
    return codings[0]


def undo(coding: bytes, body: bytes, bound: int) -> bytes:
    """Return ``body`` without its coding. Raises TooLarge beyond ``bound`` bytes, and zlib.error for what no
    coder wrote."""
    wbits = GZIP if coding != b"deflate" else _deflate_form(body)
    return bytes(inflate(body, bound, wbits))


def _deflate_form(body: bytes) -> int:
    """``deflate`` is zlib (RFC 9110 8.4.1.2); some senders leave the wrapper out."""
    is_zlib = len(body) > 1 and body[0] & 15 == 8 and int.from_bytes(body[:2], "big") % 31 == 0  # noqa: PLR2004 - RFC 1950 2.2
    return ZLIB if is_zlib else RAW


class DecodedTooLarge(Exception):
    """It would grow beyond the bound."""


def inflate(data: bytes, bound: int, wbits: int = GZIP) -> bytearray:
    """All members of gzip (RFC 1952 2.2), the one stream of the other forms; at most ``bound`` bytes. In
    pieces: zlib copies what it leaves over. Raises TooLarge, and zlib.error for what no coder wrote.
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
