"""Decompress the batches of Kafka clients, with a limit on the result.

The decompressors in Kafka clients are not safe here, because they trust their broker. A broker cannot trust
clients. A small batch may expand to gigabytes, and a length in a snappy stream may be negative.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping
from struct import Struct

import cramjam

from app.formats.content_coding import DecodedTooLarge, inflate

_XERIAL = b"\x82SNAPPY\0"
_XERIAL_HEADER = 16  # bytes of the header: magic, version, oldest compatible version
_LENGTH = Struct(">i")
_FIRST_GUESS = 64 << 10
Bytes = bytes | bytearray | memoryview


class DamagedBatch(Exception):
    """The compressed data of a Kafka batch is not in the format of its codec."""


def expand(codec: int, data: bytes, bound: int) -> Bytes:
    """Return the decompressed data.

    Args:
        codec: Kafka's number of the codec: 1 gzip, 2 snappy, 3 lz4, 4 zstd.
        data: The compressed data.
        bound: The most bytes of the result.

    Raises:
        DecodedTooLarge: The result has more than ``bound`` bytes.
        Damaged: The data is not in this codec.
        KeyError: There is no such codec.
    """
    expander = _CODECS[codec]
    try:
        return expander(data, bound)
    except (zlib.error, cramjam.DecompressionError, ValueError) as error:
        raise DamagedBatch(str(error)) from error


def _unsnap(data: bytes, bound: int) -> Bytes:
    """Return decompressed snappy data. The data is one block, or the stream of blocks that Java's library
    writes."""
    if not data.startswith(_XERIAL):
        return _unsnap_block(data, bound)
    parts: list[Bytes] = []
    at, room = _XERIAL_HEADER, bound
    while at < len(data):
        if at + _LENGTH.size > len(data):
            raise DamagedBatch("snappy: it ends within a length")
        (length,) = _LENGTH.unpack_from(data, at)
        at += _LENGTH.size
        if not 0 < length <= len(data) - at:
            raise DamagedBatch(f"snappy: a block of {length} bytes")
        parts.append(_unsnap_block(data[at : at + length], room))
        room -= len(parts[-1])
        at += length
    return b"".join(parts)


def _unsnap_block(data: bytes, bound: int) -> Bytes:
    if cramjam.snappy.decompress_raw_len(data) > bound:
        raise DecodedTooLarge
    return bytes(cramjam.snappy.decompress_raw(data))


def _growing(into: Callable[[bytes, bytearray], int]) -> Callable[[bytes, int], Bytes]:
    """Return the decompressor of a codec whose data does not declare its decompressed size. It tries buffers
    of growing size."""

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
