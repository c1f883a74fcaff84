"""What a message is in line with, as bytes that the store keeps: the same in every process and release.

One character for the kind, then what tells lanes of that kind apart. Topics and numbers come before
the key, the topic with its length, so that no two lanes share a text::

    k<number>:<bytes of topic>:<topic>:<key>     the record key, within its partition
    a<value>                                     the value of ``order_by``, wherever it comes from
    p<number>:<bytes of topic>:<topic>:<bytes of producer>:<producer>:<key>
                                                 the record key of one producer
    q<bytes of producer>:<producer>:<value>      the value of ``order_by`` of one producer
    o<number>:<bytes of topic>:<topic>:<position>  no order: a lane of its own
    d<digest>                                    of one of these that is longer than an index takes
"""

from __future__ import annotations

from functools import lru_cache
from hashlib import sha256

from app.model.message import Partition

LONGEST = 1_000  # bytes; PostgreSQL has no index over more than 2,700, its other columns included


def lane_id(
    key: bytes | None,
    attribute: str | None,
    partition: Partition,
    position: str,
    producer: bytes | None = None,
) -> bytes:
    """Rule 3 of delivery. ``attribute``: the value, of an attribute or in the data, that the subscription orders by, which then is all
    that counts; ``key``: of the record. With neither, each message stands alone: by its position, which no other message has; offsets of
    RabbitMQ begin again in each channel. An empty key is a key. ``producer``: where each producer has lanes of its own, its name; empty
    where it is not known."""
    owner = None if producer is None else b"%d:%b:" % (len(producer), producer)
    if attribute is not None:
        value = attribute.encode("utf-8", "surrogatepass")
        return _bounded(b"a" + value if owner is None else b"q" + owner + value)
    if key is not None:
        place = _place(partition)
        return _bounded(b"k" + place + key if owner is None else b"p" + place + owner + key)
    return _bounded(b"o" + _place(partition) + position.encode())


def _bounded(lane: bytes) -> bytes:
    return lane if len(lane) <= LONGEST else b"d" + sha256(lane).digest()


@lru_cache(maxsize=4096)
def _place(partition: Partition) -> bytes:
    topic = partition.topic.encode("utf-8", "surrogatepass")
    return b"%d:%d:%s:" % (partition.number, len(topic), topic)
