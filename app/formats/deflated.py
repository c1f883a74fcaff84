"""Out of gzip and deflate, under a bound on what the data may grow to."""

from __future__ import annotations

import zlib

GZIP = zlib.MAX_WBITS | 16  # for ``wbits``, as zlib has them
ZLIB = zlib.MAX_WBITS
RAW = -zlib.MAX_WBITS
_PIECE = 4096
_MEMBERS = 1000  # of gzip, at most: each costs, also when it is empty


class TooLarge(Exception):
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
                raise TooLarge
            at += len(piece) - len(stream.unused_data)
        if not stream.eof or (at < len(data) and wbits != GZIP):
            raise zlib.error("an incomplete stream, or data after its end")
    return content
