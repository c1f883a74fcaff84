"""A key lands where Kafka's Java client would put it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.routing.partitions import _remembered, murmur2, partition_of

# key in hex, Utils.murmur2 (signed), partition of 8: printed by kafka-clients 4.3.1
JAVA = [
    ("", 275646681, 1),
    ("00", 375494588, 4),
    ("ff", -311467685, 3),
    ("0102", -1935140722, 6),
    ("808182", -1975640061, 3),
    ("616263", 479470107, 3),
    ("61626364", -1323649548, 4),
    ("6162636465", 461995741, 5),
    ("616263646566", 1870650108, 4),
    ("61626364656667", -346467175, 1),
    ("6162636465666768", -955427363, 5),
    ("3231", -973932308, 4),
    ("666f6f626172", -790332482, 6),
    ("612d6c6974746c652d6269742d6c6f6e672d737472696e67", -985981536, 0),
    ("612d6c6974746c652d6269742d6c6f6e6765722d737472696e67", -1486304829, 3),
    (b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8".hex(), -58897971, 5),
    ("6772c3bcc39f65", 1943707148, 4),
    ("fffefdfcfb", 524068735, 7),
]


@pytest.mark.parametrize(("key", "signed", "partition"), JAVA)
def test_the_hash_is_the_java_clients(key: str, signed: int, partition: int) -> None:
    """A producer in Java and Skybridge must put one key into one partition, or order is lost; the
    rows hold every length of tail, the empty key and bytes above 127."""
    assert murmur2(bytes.fromhex(key)) == signed & 0xFFFFFFFF
    assert partition_of(bytes.fromhex(key), 8) == partition


@given(st.binary(max_size=64), st.integers(1, 1000))
def test_a_partition_is_one_of_those_there_are(key: bytes, partitions: int) -> None:
    """The sign of the hash must not leak into the number: Kafka clears it, it does not negate."""
    assert 0 <= partition_of(key, partitions) < partitions


def test_long_keys_have_their_partition_and_are_not_remembered() -> None:
    """Senders choose the keys: 65,536 of a megabyte each would fill the memory (rule 8)."""
    before = _remembered.cache_info().misses
    key = bytes(range(256)) * 2
    assert partition_of(key, 8) == (murmur2(key) & 0x7FFFFFFF) % 8
    assert _remembered.cache_info().misses == before
