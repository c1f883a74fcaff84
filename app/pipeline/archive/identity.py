"""What ``events`` knows an event by, and its bucket: as Spark and Iceberg compute both."""

from __future__ import annotations

from typing import Final

import numpy as np
import pyarrow as pa
from xxhash import xxh64_intdigest

from app.pipeline.decode.buffers import Numbers

_SEED: Final = 42
"""Of Spark's ``xxhash64(source, id)``."""


def identities(sources: pa.Array, ids: pa.Array) -> Numbers:
    """``xxhash64(source, id)`` of each row, int64. No text may be null."""
    pairs = zip(_octets(sources), _octets(ids), strict=True)
    found = (xxh64_intdigest(name, xxh64_intdigest(source, _SEED)) for source, name in pairs)
    return np.fromiter(found, np.uint64, len(ids)).view(np.int64)


def _octets(texts: pa.Array) -> list[bytes]:
    octets: list[bytes] = texts.cast(pa.binary()).to_pylist()
    return octets


def buckets(identities: Numbers, count: int) -> Numbers:
    """Iceberg's ``bucket[count]``: Murmur3 of 32 bits, of the eight octets of each number."""
    halves = np.ascontiguousarray(identities, "<i8").view("<u4").reshape(-1, 2)
    hashed = np.zeros(len(halves), np.uint32)
    for half in (halves[:, 0], halves[:, 1]):
        mixed = _rotated(half * np.uint32(0xCC9E2D51), 15) * np.uint32(0x1B873593)
        hashed = _rotated(hashed ^ mixed, 13) * np.uint32(5) + np.uint32(0xE6546B64)
    hashed ^= np.uint32(8)  # octets
    for shift, factor in ((16, 0x85EBCA6B), (13, 0xC2B2AE35)):
        hashed = (hashed ^ (hashed >> np.uint32(shift))) * np.uint32(factor)
    hashed ^= hashed >> np.uint32(16)
    return (hashed & np.uint32(0x7FFFFFFF)).astype(np.int64) % count


def _rotated(numbers: Numbers, by: int) -> Numbers:
    return (numbers << np.uint32(by)) | (numbers >> np.uint32(32 - by))
