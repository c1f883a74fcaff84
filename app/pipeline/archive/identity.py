"""The identity of an event in ``events`` and its bucket, computed exactly as Spark and Iceberg
compute them.
"""

from __future__ import annotations

from typing import Final

import mmh3
import numpy as np
import pyarrow as pa
from xxhash import xxh64_intdigest

from app.pipeline.decode.buffers import Numbers

_SEED: Final = 42
"""The seed of Spark's ``xxhash64(source, id)``."""


def identities(sources: pa.Array, ids: pa.Array) -> Numbers:
    """Return ``xxhash64(source, id)`` of each row as int64. No text may be null."""
    pairs = zip(_octets(sources), _octets(ids), strict=True)
    found = (xxh64_intdigest(name, xxh64_intdigest(source, _SEED)) for source, name in pairs)
    return np.fromiter(found, np.uint64, len(ids)).view(np.int64)


def _octets(texts: pa.Array) -> list[bytes]:
    octets: list[bytes] = texts.cast(pa.binary()).to_pylist()
    return octets


def buckets(identities: Numbers, count: int) -> Numbers:
    """Return Iceberg's ``bucket[count]`` of each identity: Murmur3 of its eight bytes, modulo
    ``count``.
    """
    octets = identities.astype("<i8").tobytes()
    hashed = (mmh3.hash(octets[at : at + 8]) for at in range(0, len(octets), 8))
    return (np.fromiter(hashed, np.int64, len(identities)) & 0x7FFFFFFF) % count
