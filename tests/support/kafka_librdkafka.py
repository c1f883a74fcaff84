"""Kafka by librdkafka, which shares no code with our driver: topics made, what is in them, passwords set.

As Kafka's own command-line classes would, without a JVM for each question.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

from confluent_kafka import (
    OFFSET_BEGINNING,
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    TopicPartition,
)
from confluent_kafka.admin import (
    AdminClient,
    NewPartitions,
    NewTopic,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

PATIENCE = 120.0  # seconds for what takes a moment when all is well


class Stored(NamedTuple):
    """One record. ``appended_ms`` is the broker's own time where the topic says so."""

    appended_ms: int
    partition: int
    offset: int
    body: str


def make_topic(
    servers: str,
    topic: str,
    partitions: int = 1,
    replicas: Sequence[Sequence[int]] = (),
    **settings: str,
) -> None:
    """``replicas``: by partition, the nodes; the first of them leads. ``settings``: of the topic, with ``_``
    for a dot."""
    config = {name.replace("_", "."): value for name, value in settings.items()}
    placed = {"replica_assignment": replicas} if replicas else {"replication_factor": 1}
    wanted = NewTopic(topic, partitions, config=config, **placed)
    admin = _admin(servers)  # what it promises is void when it is gone
    made = admin.create_topics([wanted], operation_timeout=60, request_timeout=60)
    made[topic].result(PATIENCE)


def add_partitions(servers: str, topic: str, partitions: int) -> None:
    """Until there are so many."""
    admin = _admin(servers)
    wanted = NewPartitions(topic, partitions)
    admin.create_partitions([wanted], operation_timeout=60, request_timeout=60)[topic].result(
        PATIENCE
    )


def delete_before(servers: str, topic: str, offset: int) -> None:
    """What the topic's first partition has before ``offset``, as retention would."""
    admin = _admin(servers)
    [done] = admin.delete_records([TopicPartition(topic, 0, offset)], request_timeout=60).values()
    done.result(PATIENCE)


def set_password(servers: str, user: str, password: str) -> None:
    """For SCRAM-SHA-256."""
    how = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, 4096)
    wanted = UserScramCredentialUpsertion(user, how, password.encode())
    admin = _admin(servers)
    done = admin.alter_user_scram_credentials([wanted], request_timeout=60)
    done[user].result(PATIENCE)


def _admin(servers: str) -> AdminClient:
    return AdminClient({"bootstrap.servers": servers})


def read_back(servers: str, topic: str) -> list[Stored]:
    """Everything in the topic."""
    with _reading(servers) as consumer:
        places = _places(consumer, topic)
        count = sum(_count(consumer, place) for place in places)
        consumer.assign(places)
        return [_stored(each) for each in _taken(consumer, count)]


@contextmanager
def _reading(servers: str) -> Iterator[Consumer]:
    settings = {"bootstrap.servers": servers, "group.id": "nobody", "enable.auto.commit": False}
    consumer = Consumer(settings)
    try:
        yield consumer
    finally:
        consumer.close()


def _places(consumer: Consumer, topic: str) -> list[TopicPartition]:
    partitions = consumer.list_topics(topic, PATIENCE).topics[topic].partitions
    return [TopicPartition(topic, number, OFFSET_BEGINNING) for number in sorted(partitions)]


def _count(consumer: Consumer, place: TopicPartition) -> int:
    """A leader that is new does not say at first how far its followers are."""
    deadline = time.monotonic() + PATIENCE
    while True:
        try:
            low, high = consumer.get_watermark_offsets(place, PATIENCE)
        except KafkaException as error:
            passing = error.args[0].code() == KafkaError.OFFSET_NOT_AVAILABLE
            if not passing or time.monotonic() > deadline:
                raise
            time.sleep(0.1)
        else:
            return int(high - low)


def _taken(consumer: Consumer, count: int) -> list[Message]:
    found: list[Message] = []
    while len(found) < count:
        more = consumer.consume(min(1_000, count - len(found)), PATIENCE)
        assert more, f"{len(found)} of {count} records came in time"
        assert [each.error() for each in more if each.error()] == []
        found += more
    return found


def _stored(message: Message) -> Stored:
    _, appended_ms = message.timestamp()
    body = (message.value() or b"").decode()
    return Stored(appended_ms, message.partition(), message.offset(), body)


def in_sync(servers: str, topic: str) -> set[int]:
    """The nodes in the in-sync set of the topic's one partition."""
    found = _admin(servers).list_topics(topic, PATIENCE).topics[topic]
    return set(found.partitions[0].isrs)
