"""Topics: made, described, grown and deleted by the tools of others."""

from __future__ import annotations

import time

import pytest
from confluent_kafka import KafkaError, KafkaException, TopicCollection, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    ConfigResource,
    NewPartitions,
    NewTopic,
    OffsetSpec,
    ResourceType,
)

from kafka_foreign import PATIENCE, franz_go, java, lines_of, produce, read


@pytest.fixture
def admin(servers) -> AdminClient:
    return AdminClient({"bootstrap.servers": servers})


def refusal(replies, name) -> int:
    with pytest.raises(KafkaException) as refused:
        replies[name].result(PATIENCE)
    return refused.value.args[0].code()


def id_of(admin, topic) -> str:
    described = admin.describe_topics(TopicCollection([topic]))[topic].result(PATIENCE)
    return str(described.topic_id)


def partitions(admin, topic) -> list[int]:
    """Empty for one that is not there. All topics are asked for: a name alone would make it."""
    found = admin.list_topics(timeout=PATIENCE).topics
    return sorted(found[topic].partitions) if topic in found else []


def test_a_topic_is_made_grown_and_deleted(admin, topic):
    admin.create_topics([NewTopic(topic, 3)])[topic].result(PATIENCE)
    assert partitions(admin, topic) == [0, 1, 2]
    admin.create_partitions([NewPartitions(topic, 5)])[topic].result(PATIENCE)
    assert partitions(admin, topic) == [0, 1, 2, 3, 4]
    admin.delete_topics([topic])[topic].result(PATIENCE)
    assert partitions(admin, topic) == []


def test_what_cannot_be_is_refused_with_its_reason(admin, topic):
    """A topic twice, fewer partitions, more copies than nodes, a name that is none, one that is not
    there."""
    admin.create_topics([NewTopic(topic, 3)])[topic].result(PATIENCE)
    again = admin.create_topics([NewTopic(topic, 3)])
    assert refusal(again, topic) == KafkaError.TOPIC_ALREADY_EXISTS
    fewer = admin.create_partitions([NewPartitions(topic, 2)])
    assert refusal(fewer, topic) == KafkaError.INVALID_PARTITIONS
    copies = admin.create_topics([NewTopic("copies", 1, replication_factor=3)])
    assert refusal(copies, "copies") == KafkaError.INVALID_REPLICATION_FACTOR
    unnamed = admin.create_topics([NewTopic("a b", 1)])
    assert refusal(unnamed, "a b") == KafkaError.TOPIC_EXCEPTION
    unknown = admin.delete_topics(["nowhere"])
    assert refusal(unknown, "nowhere") == KafkaError.UNKNOWN_TOPIC_OR_PART


def test_asking_first_makes_nothing(admin, topic):
    """``validate_only``."""
    admin.create_topics([NewTopic(topic, 3)], validate_only=True)[topic].result(PATIENCE)
    assert partitions(admin, topic) == []


def test_a_topic_made_again_starts_at_zero(admin, servers, topic):
    """Nothing of the old one is read, and a new producer begins anew. Its id is another one."""
    admin.create_topics([NewTopic(topic, 1)])[topic].result(PATIENCE)
    first = id_of(admin, topic)
    assert produce(servers, topic, [(None, b"old", [])] * 3)[-1] == (0, 2)
    admin.delete_topics([topic])[topic].result(PATIENCE)
    admin.create_topics([NewTopic(topic, 1)])[topic].result(PATIENCE)
    assert produce(servers, topic, [(None, b"new", [])]) == [(0, 0)]
    assert [each.value() for each in read(servers, topic, 1)] == [b"new"]
    assert id_of(admin, topic) == id_of(admin, topic) != first


def test_keys_are_spread_over_partitions_as_kafkas_clients_do_it(servers, wide_topic):
    """Each partition keeps the order of its own records."""
    records = [(b"key-%d" % (n % 16), b"%d" % n, []) for n in range(200)]
    settings = {"partitioner": "murmur2_random"}
    places = produce(servers, wide_topic, records, **settings)
    assert {partition for partition, _ in places} == {0, 1, 2, 3}
    seen = {}
    for number in range(4):
        count = sum(partition == number for partition, _ in places)
        found = read(servers, wide_topic, count, partition=number)
        assert [each.offset() for each in found] == list(range(count))
        numbers = [int(each.value() or b"") for each in found]
        assert numbers == sorted(numbers)
        for each in found:
            assert seen.setdefault(each.key(), number) == number
    assert len(seen) == 16


def test_topics_the_cluster_and_offsets_are_described(admin, servers, wide_topic):
    produce(servers, wide_topic, [(b"k", b"v", [])], partitioner="murmur2")
    asked = admin.describe_topics(TopicCollection([wide_topic]))
    described = asked[wide_topic].result(PATIENCE)
    assert [each.id for each in described.partitions] == [0, 1, 2, 3]
    assert {each.leader.id for each in described.partitions} == {0}
    cluster = admin.describe_cluster().result(PATIENCE)
    assert [f"{each.host}:{each.port}" for each in cluster.nodes] == [servers]
    assert cluster.controller.id == 0
    assert cluster.cluster_id == admin.list_topics(timeout=PATIENCE).cluster_id
    places = {TopicPartition(wide_topic, n): OffsetSpec.latest() for n in range(4)}
    ends = [each.result(PATIENCE).offset for each in admin.list_offsets(places).values()]
    assert sorted(ends) == [0, 0, 0, 1]


def test_settings_of_a_topic_are_shown(admin, topic):
    """What people's programs look for, as it is here: the log's own time, no compaction."""
    admin.create_topics([NewTopic(topic, 1)])[topic].result(PATIENCE)
    resource = ConfigResource(ResourceType.TOPIC, topic)
    found = admin.describe_configs([resource])[resource].result(PATIENCE)
    assert found["cleanup.policy"].value == "delete"
    assert found["message.timestamp.type"].value == "LogAppendTime"


def test_franz_go_makes_grows_and_deletes_a_topic(servers, topic, with_go):
    said = franz_go("topics", servers, topic, "3")
    assert [each["partitions"] for each in said] == [3, 4, 0]


def test_javas_topic_command(servers, topic, with_java):
    """Made, listed, described, grown, deleted: the five things people type."""
    where = ["--topic", topic]
    create = ["--create", *where, "--partitions", "2", "--replication-factor", "1"]
    assert lines_of(java("TopicCommand", servers, *create)) == [f"Created topic {topic}."]
    java("TopicCommand", servers, "--alter", *where, "--partitions", "3")
    assert topic in lines_of(java("TopicCommand", servers, "--list"))
    head, *rows = [
        dict(each.strip().partition(": ")[::2] for each in line.split("\t") if each.strip())
        for line in lines_of(java("TopicCommand", servers, "--describe", *where))
    ]
    assert (head["Topic"], head["PartitionCount"], head["ReplicationFactor"]) == (topic, "3", "1")
    assert [row["Partition"] for row in rows] == ["0", "1", "2"]
    assert {(row["Leader"], row["Replicas"], row["Isr"]) for row in rows} == {("0", "0", "0")}
    java("TopicCommand", servers, "--delete", *where)
    assert topic not in lines_of(java("TopicCommand", servers, "--list"))


def test_times_are_the_logs_own(servers, topic):
    """Whatever time a producer says, the log keeps the one at which it stored."""
    before = int(time.time() * 1000)  # noqa: TID251 - the wall clock is what is compared with
    produce(servers, topic, [(None, b"x", [])])
    kind, stamp = read(servers, topic, 1)[0].timestamp()
    assert kind == 2, "LogAppendTime"
    assert before - 1 <= stamp <= before + 60_000
