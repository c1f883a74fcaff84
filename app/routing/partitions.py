"""Which partition a key belongs to: murmur2 as in Kafka's Java client, on every log.

A key must land in the same partition with every writer, so this is the Java client's function to
the bit, tested against values the Java client gave.
"""

from __future__ import annotations

from functools import lru_cache
from struct import unpack_from

_SEED = 0x9747B28C
_M = 0x5BD1E995
_MASK = 0xFFFFFFFF
CACHED_KEYS = 65_536
_SHORT = (
    256  # bytes of a key that is remembered: a cache of longer ones would take gigabytes (rule 8)
)


def murmur2(data: bytes) -> int:
    """The 32-bit hash, unsigned."""
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
    """The partition of ``key`` among ``partitions``, as ``DefaultPartitioner`` of Kafka's Java client."""
    return _remembered(key, partitions) if len(key) <= _SHORT else _computed(key, partitions)


def _computed(key: bytes, partitions: int) -> int:
    return (murmur2(key) & 0x7FFFFFFF) % partitions


_remembered = lru_cache(CACHED_KEYS)(_computed)
