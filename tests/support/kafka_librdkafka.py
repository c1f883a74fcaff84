"""Administer and read Kafka with librdkafka, which shares no code with our driver.

The functions do what Kafka's own command-line classes would, without starting a JVM each time.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple, TypeVar

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
    PartitionMetadata,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

PATIENCE = 120.0  # seconds; normally a moment suffices
_ASK_AGAIN = 0.1
_PASSING = {  # passing errors: of a new topic, a new leader, or a paused broker that lost its leadership
    KafkaError.LEADER_NOT_AVAILABLE,
    KafkaError.NOT_LEADER_FOR_PARTITION,
    KafkaError.OFFSET_NOT_AVAILABLE,
    KafkaError.UNKNOWN_TOPIC_OR_PART,
    KafkaError._UNKNOWN_PARTITION,  # the library's own error for a partition without a leader
}

T = TypeVar("T")


class Stored(NamedTuple):
    """A stored record. ``appended_ms`` is the time of the broker if the topic is configured so,
    else of the producer.
    """

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
    """Create a topic and wait until the broker knows all its partitions.

    Args:
        servers: The bootstrap servers.
        topic: The name.
        partitions: The count of partitions.
        replicas: The nodes of each partition, the leader first. By default the broker chooses one.
        settings: Settings of the topic, with ``_`` for each dot in their names.
    """
    config = {name.replace("_", "."): value for name, value in settings.items()}
    placed = {"replica_assignment": replicas} if replicas else {"replication_factor": 1}
    wanted = NewTopic(topic, partitions, config=config, **placed)
    admin = _admin(servers)  # its futures need it alive
    made = admin.create_topics([wanted], operation_timeout=60, request_timeout=60)
    made[topic].result(PATIENCE)
    _until_there_are(admin, topic, partitions)


def add_partitions(servers: str, topic: str, partitions: int) -> None:
    """Raise the count of partitions to ``partitions`` and wait until the broker knows them."""
    admin = _admin(servers)
    wanted = NewPartitions(topic, partitions)
    more = admin.create_partitions([wanted], operation_timeout=60, request_timeout=60)
    more[topic].result(PATIENCE)
    _until_there_are(admin, topic, partitions)


def delete_before(servers: str, topic: str, offset: int) -> None:
    """Delete the records of partition 0 before ``offset``, as retention would."""
    admin = _admin(servers)
    [done] = admin.delete_records([TopicPartition(topic, 0, offset)], request_timeout=60).values()
    done.result(PATIENCE)


def set_password(servers: str, user: str, password: str) -> None:
    """Set the password of a user for SCRAM-SHA-256."""
    how = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, 4096)
    wanted = UserScramCredentialUpsertion(user, how, password.encode())
    admin = _admin(servers)
    done = admin.alter_user_scram_credentials([wanted], request_timeout=60)
    done[user].result(PATIENCE)


def _admin(servers: str) -> AdminClient:
    return AdminClient({"bootstrap.servers": servers})


def read_back(servers: str, topic: str) -> list[Stored]:
    """Return all records of the topic, partition by partition."""
    return [_stored(each) for each in messages(servers, topic)]


def messages(servers: str, topic: str) -> list[Message]:
    """Return all records of the topic as librdkafka's messages, partition by partition."""
    with _reading(servers) as consumer:
        places = _places(consumer, topic)
        count = sum(_count(consumer, place) for place in places)
        consumer.assign(places)
        return sorted(_taken(consumer, count), key=Message.partition)


@contextmanager
def _reading(servers: str) -> Iterator[Consumer]:
    settings = {
        "bootstrap.servers": servers,
        "group.id": "nobody",
        "enable.auto.commit": False,
        "fetch.wait.max.ms": 10,  # all records exist already
    }
    consumer = Consumer(settings)
    try:
        yield consumer
    finally:
        consumer.close()


def _until_there_are(admin: AdminClient, topic: str, partitions: int) -> None:
    """Wait until the broker knows all partitions of a topic. A broker may learn of them after the
    controller has answered."""

    def look() -> bool | None:
        return len(_partitions(admin, topic)) == partitions or None

    _until_known(look, f"{partitions} partitions of {topic}")


def _places(consumer: Consumer, topic: str) -> list[TopicPartition]:
    """Return the start of each partition of a topic, once the broker knows the topic.

    An empty list would make a test find no records and never fail.
    """

    def look() -> list[TopicPartition] | None:
        numbers = sorted(_partitions(consumer, topic))
        return [TopicPartition(topic, number, OFFSET_BEGINNING) for number in numbers] or None

    return _until_known(look, f"the partitions of {topic}")


def _partitions(asking: Consumer | AdminClient, topic: str) -> dict[int, PartitionMetadata]:
    """Return the partitions by number, or none while the topic is unknown or a partition has no
    leader.
    """
    found = asking.list_topics(topic, PATIENCE).topics[topic]
    parts: dict[int, PartitionMetadata] = found.partitions
    return {} if any(each.error or each.leader < 0 for each in parts.values()) else parts


def _count(consumer: Consumer, place: TopicPartition) -> int:
    """Return the count of records in a partition, once a new leader knows the high watermark."""

    def look() -> int | None:
        try:
            low, high = consumer.get_watermark_offsets(place, PATIENCE)
        except KafkaException as error:
            if error.args[0].code() in _PASSING:
                return None
            raise
        return int(high - low)

    return _until_known(look, f"how much partition {place.partition} of {place.topic} holds")


def _until_known(look: Callable[[], T | None], what: str) -> T:
    """Call ``look`` until it returns a value other than None, and return that value. Raises
    AssertionError after 120 s."""
    deadline = time.monotonic() + PATIENCE
    while (found := look()) is None:
        assert time.monotonic() < deadline, f"the broker does not know {what} in time"
        time.sleep(_ASK_AGAIN)
    return found


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
    """Return the numbers of the in-sync nodes of partition 0 of the topic. Return none while the
    broker does not know the topic."""
    found = _partitions(_admin(servers), topic)
    return set(found[0].isrs) if found else set()
