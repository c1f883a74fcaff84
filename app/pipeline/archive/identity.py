"""What ``events`` knows an event by, and its bucket: as Spark and Iceberg compute both."""

from __future__ import annotations

from typing import Final

import mmh3
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
    """Iceberg's ``bucket[count]`` of each: Murmur3 of its eight octets."""
    octets = identities.astype("<i8").tobytes()
    hashed = (mmh3.hash(octets[at : at + 8]) for at in range(0, len(octets), 8))
    return (np.fromiter(hashed, np.int64, len(identities)) & 0x7FFFFFFF) % count
