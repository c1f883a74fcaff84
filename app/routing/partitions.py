"""Compute the partition of a key with murmur2, as Kafka's Java client does, for every log.

All writers must put a key in the same partition. Tests compare this function with values of the Java client.
"""

from __future__ import annotations

from functools import lru_cache
from struct import unpack_from

_SEED = 0x9747B28C
_M = 0x5BD1E995
_MASK = 0xFFFFFFFF
CACHED_KEYS = 65_536
_SHORT = 256  # bytes of a cached key; longer keys could fill gigabytes


def murmur2(data: bytes) -> int:
    """Return the 32-bit hash, unsigned."""
    length = len(data)
    words = length >> 2
    h = _SEED ^ length
    for k in unpack_from(f"<{words}I", data):
        k = k * _M & _MASK  # noqa: PLW2901 - the algorithm's own name
        h = h * _M & _MASK ^ (k ^ k >> 24) * _M & _MASK
    tail = data[words << 2 :]
    if tail:
        h = (h ^ int.from_bytes(tail, "little")) * _M & _MASK
    h = (h ^ h >> 13) * _M & _MASK
    return h ^ h >> 15


def partition_of(key: bytes, partitions: int) -> int:
    """Return the partition of ``key`` among ``partitions``, as Kafka's Java client computes it."""
    return _remembered(key, partitions) if len(key) <= _SHORT else _computed(key, partitions)


def _computed(key: bytes, partitions: int) -> int:
    return (murmur2(key) & 0x7FFFFFFF) % partitions


_remembered = lru_cache(CACHED_KEYS)(_computed)
