"""The codecs of Kafka's batches, read with a bound on what they may grow to.

The decoders that clients use trust their broker. A broker trusts nobody: a megabyte of zeros may stand
for gigabytes, and a length in a snappy stream may point backwards.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping
from struct import Struct

import cramjam

from app.formats.content_coding import DecodedTooLarge, inflate

_XERIAL = b"\x82SNAPPY\0"
_XERIAL_HEADER = 16  # magic, version, oldest version that reads it
_LENGTH = Struct(">i")
_FIRST_GUESS = 64 << 10
Bytes = bytes | bytearray | memoryview


class Damaged(Exception):
    """It is no data of this codec."""


def expand(codec: int, data: bytes, bound: int) -> Bytes:
    """Raises TooLarge, Damaged, and KeyError for a codec that is none."""
    expander = _CODECS[codec]
    try:
        return expander(data, bound)
    except (zlib.error, cramjam.DecompressionError, ValueError) as error:
        raise Damaged(str(error)) from error


def _unsnap(data: bytes, bound: int) -> Bytes:
    """As one block, or as the stream that Java's library makes."""
    if not data.startswith(_XERIAL):
        return _unsnap_block(data, bound)
    parts: list[Bytes] = []
    at, room = _XERIAL_HEADER, bound
    while at < len(data):
        if at + _LENGTH.size > len(data):
            raise Damaged("snappy: it ends within a length")
        (length,) = _LENGTH.unpack_from(data, at)
        at += _LENGTH.size
        if not 0 < length <= len(data) - at:
            raise Damaged(f"snappy: a block of {length} bytes")
        parts.append(_unsnap_block(data[at : at + length], room))
        room -= len(parts[-1])
        at += length
    return b"".join(parts)


def _unsnap_block(data: bytes, bound: int) -> Bytes:
    if cramjam.snappy.decompress_raw_len(data) > bound:
        raise DecodedTooLarge
    return bytes(cramjam.snappy.decompress_raw(data))


def _growing(into: Callable[[bytes, bytearray], int]) -> Callable[[bytes, int], Bytes]:
    """For codecs that need not say how large it will be: tried with more and more room."""

    def expander(data: bytes, bound: int) -> Bytes:
        size = min(bound, max(_FIRST_GUESS, 4 * len(data)))
        while True:
            room = bytearray(size)
            try:
                return memoryview(room)[: into(data, room)]
            except cramjam.DecompressionError as error:
                if "whole buffer" not in str(error):
                    raise
                if size >= bound:
                    raise DecodedTooLarge from error
            size = min(bound, 4 * size)

    return expander


_CODECS: Mapping[int, Callable[[bytes, int], Bytes]] = {
    1: inflate,
    2: _unsnap,
    3: _growing(cramjam.lz4.decompress_into),
    4: _growing(cramjam.zstd.decompress_into),
}
