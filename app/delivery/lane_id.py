"""Lane ids: bytes that identify the queue (lane) in which a message waits, usually that of its key. The store
keeps these ids, so their form never changes.

The first character is the kind. The topic precedes the key with its length, so that no two lanes have the same id::

    k<number>:<bytes of topic>:<topic>:<key>     the record key, within its partition.
    a<value>                                     the value of ``order_by``, from any partition.
    p<number>:<bytes of topic>:<topic>:<bytes of producer>:<producer>:<key>
                                                 the record key of one producer.
    q<bytes of producer>:<producer>:<value>      the value of ``order_by`` of one producer.
    o<number>:<bytes of topic>:<topic>:<position>  no order: a lane of its own.
    d<digest>                                    any of these that is too long for an index
"""

from __future__ import annotations

from functools import lru_cache
from hashlib import sha256

from app.model.message import Partition

KEYLESS = (b"o0", b"o:")
"""The lane ids without a key: from the first of these on, and below the second."""
LONGEST = 1_000  # bytes; an index entry of PostgreSQL has at most 2,700, other columns included


def lane_id(
    key: bytes | None,
    attribute: str | None,
    partition: Partition,
    position: str,
    producer: bytes | None = None,
) -> bytes:
    """Return the id of the queue (lane) in which a message waits. All messages of one key have the same lane.

    A message without a key and without a value of ``order_by`` has no order, and a lane of its own. Its
    position identifies the lane, because offsets of RabbitMQ are not unique.

    Args:
        key: the key of the record, or None. An empty key is a key.
        attribute: the value of ``order_by``, which has precedence over the key, or None.
        partition: the partition of the message.
        position: the position of the message.
        producer: the producer's name if each producer has lanes of its own, or empty if the producer is
            unknown. None if producers share lanes.
    """
    owner = None if producer is None else b"%d:%b:" % (len(producer), producer)
    if attribute is not None:
        value = attribute.encode("utf-8", "surrogatepass")
        return _bounded(b"a" + value if owner is None else b"q" + owner + value)
    if key is not None:
        place = _place(partition)
        return _bounded(b"k" + place + key if owner is None else b"p" + place + owner + key)
    return _bounded(b"o" + _place(partition) + position.encode())


def key_lane(key: bytes, partition: Partition) -> bytes:
    """Return the lane of a record key, as ``lane_id`` does for a key alone."""
    lane = b"k" + _place(partition) + key
    return lane if len(lane) <= LONGEST else _bounded(lane)


def has_key(lane: bytes) -> bool:
    """Return True if a lane id is that of a key or of a value of ``order_by``, not of a single message."""
    return not KEYLESS[0] <= lane < KEYLESS[1]


def order_value(lane: bytes) -> bytes | None:
    """Return the key or the value of ``order_by`` in a lane id, or None if the lane has no order or is a digest."""
    kind, rest = lane[:1], lane[1:]
    if kind in (b"k", b"p"):
        rest = _after_text(rest.partition(b":")[2])
    if kind in (b"p", b"q"):
        rest = _after_text(rest)
    return rest if kind in (b"k", b"a", b"p", b"q") else None


def _after_text(rest: bytes) -> bytes:
    """Return what follows a text that is written as its length and itself, each with a colon."""
    size, _, more = rest.partition(b":")
    return more[int(size) + 1 :]


def _bounded(lane: bytes) -> bytes:
    return lane if len(lane) <= LONGEST else b"d" + sha256(lane).digest()


@lru_cache(maxsize=4096)
def _place(partition: Partition) -> bytes:
    topic = partition.topic.encode("utf-8", "surrogatepass")
    return b"%d:%d:%s:" % (partition.number, len(topic), topic)
