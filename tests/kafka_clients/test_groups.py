"""Groups: members that were not written here share partitions, take over, and commit."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, TopicPartition
from confluent_kafka.admin import AdminClient

from kafka_foreign import PATIENCE, franz_go, java, kcat, lines_of, produce, settings_of
from waiting import wait_until

MEMBER = {"enable.auto.commit": False, "session.timeout.ms": 60_000, "heartbeat.interval.ms": 500}
"""A stall of this machine is no member's end."""


@contextmanager
def member(servers: str, group: str, topic: str) -> Iterator[Consumer]:
    consumer = Consumer(settings_of(servers, group, MEMBER))
    consumer.subscribe([topic])
    try:
        yield consumer
    finally:
        consumer.close()


def values(consumer: Consumer, count: int) -> list[bytes | None]:
    found = consumer.consume(count, PATIENCE)
    assert [message.error() for message in found if message.error()] == []
    return [message.value() for message in found]


def numbered(count: int, start: int = 0):
    return [(None, b"%d" % n, []) for n in range(start, start + count)]


@pytest.mark.parametrize("strategy", ["range", "roundrobin", "cooperative-sticky"])
def test_two_members_share_the_partitions_and_one_takes_over(servers, wide_topic, strategy):
    """When one leaves, the other has all of them."""
    group = f"g-{wide_topic}"
    settings = settings_of(servers, group, {**MEMBER, "partition.assignment.strategy": strategy})
    first, second = Consumer(settings), Consumer(settings)

    def shares() -> list[int]:
        for each in (first, second):
            each.poll(0.05)
        return [len(each.assignment()) for each in (first, second)]

    try:
        first.subscribe([wide_topic])
        second.subscribe([wide_topic])
        wait_until(lambda: shares() == [2, 2], "two partitions each", PATIENCE)
        places = {each.partition for one in (first, second) for each in one.assignment()}
        assert places == {0, 1, 2, 3}
        second.close()

        def all_of_them() -> bool:
            first.poll(0.05)
            return len(first.assignment()) == 4

        wait_until(all_of_them, "all partitions", PATIENCE)
    finally:
        first.close()


def test_a_group_goes_on_where_it_committed(servers, topic):
    """With the metadata of the commit."""
    produce(servers, topic, numbered(10))
    group = f"g-{topic}"
    with member(servers, group, topic) as consumer:
        assert values(consumer, 4) == [b"0", b"1", b"2", b"3"]
        place = TopicPartition(topic, 0, 4, "noted")
        (done,) = consumer.commit(offsets=[place], asynchronous=False)
        assert done.error is None
    with member(servers, group, topic) as consumer:
        assert values(consumer, 6) == [b"%d" % n for n in range(4, 10)]
        (kept,) = consumer.committed([TopicPartition(topic, 0)], PATIENCE)
        assert (kept.offset, kept.metadata) == (4, "noted")


@pytest.mark.fault
@pytest.mark.nightly
def test_commits_survive_a_kill_and_members_come_back(own_serving, topic):
    """One member lives through the SIGKILL: nothing it committed comes again, to it or to others."""
    servers, group = own_serving.servers, f"g-{topic}"
    produce(servers, topic, numbered(10))
    with member(servers, group, topic) as consumer:
        assert values(consumer, 10) == [b"%d" % n for n in range(10)]
        consumer.commit(asynchronous=False)
        own_serving.kill()
        own_serving.start()
        produce(servers, topic, numbered(5, start=10))
        assert values(consumer, 5) == [b"%d" % n for n in range(10, 15)]
    with member(servers, group, topic) as consumer:
        (kept,) = consumer.committed([TopicPartition(topic, 0)], PATIENCE)
        assert kept.offset == 10
        assert values(consumer, 5) == [b"%d" % n for n in range(10, 15)]


CHILD = """
import sys
from confluent_kafka import Consumer
servers, group, topic = sys.argv[1:]
consumer = Consumer({"bootstrap.servers": servers, "group.id": group, "session.timeout.ms": 6000,
                     "heartbeat.interval.ms": 500, "auto.offset.reset": "earliest",
                     "enable.auto.commit": False})
consumer.subscribe([topic])
while True:
    consumer.poll(0.1)
    print(len(consumer.assignment()), flush=True)
"""


@pytest.mark.fault
@pytest.mark.nightly
def test_a_killed_member_is_replaced_within_its_session(servers, wide_topic, tmp_path):
    """It says no goodbye; its partitions are read by the other one after session.timeout.ms."""
    group, said = f"g-{wide_topic}", tmp_path / "said"
    with said.open("wb") as out, member(servers, group, wide_topic) as consumer:
        command = [sys.executable, "-c", CHILD, servers, group, wide_topic]
        other = subprocess.Popen(command, stdout=out)
        try:

            def halves() -> bool:
                consumer.poll(0.05)
                return len(consumer.assignment()) == 2 and said.read_bytes().endswith(b"2\n")

            wait_until(halves, "two partitions each", PATIENCE)
        finally:
            os.kill(other.pid, signal.SIGKILL)
            other.wait()

        def all_of_them() -> bool:
            consumer.poll(0.05)
            return len(consumer.assignment()) == 4

        wait_until(all_of_them, "all partitions after the session", PATIENCE)


def test_groups_are_listed_described_and_deleted(servers, topic):
    """By librdkafka's admin: with members while there are some, empty afterwards, then gone."""
    group = f"g-{topic}"
    admin = AdminClient({"bootstrap.servers": servers})
    produce(servers, topic, numbered(3))
    with member(servers, group, topic) as consumer:
        values(consumer, 3)
        consumer.commit(asynchronous=False)
        described = admin.describe_consumer_groups([group])[group].result(PATIENCE)
        (one,) = described.members
        assert described.state.name == "STABLE"
        assert [(each.topic, each.partition) for each in one.assignment.topic_partitions] == [
            (topic, 0)
        ]
    found = {each.group_id: each.state.name for each in listed(admin)}
    assert found[group] == "EMPTY"
    asked = admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)])
    (kept,) = asked[group].result(PATIENCE).topic_partitions
    assert (kept.topic, kept.partition, kept.offset) == (topic, 0, 3)
    admin.delete_consumer_groups([group])[group].result(PATIENCE)
    assert group not in {each.group_id for each in listed(admin)}


def listed(admin: AdminClient):
    result = admin.list_consumer_groups().result(PATIENCE)
    assert result.errors == []
    return result.valid


def test_kcat_reads_as_a_member(servers, topic, with_kcat):
    """Its balanced consumer, until the end; the next one finds nothing left."""
    produce(servers, topic, numbered(20))
    words = ["-G", f"g-{topic}", "-X", "auto.offset.reset=earliest", "-e", "-q", topic]
    assert kcat(servers, *words).split() == [b"%d" % n for n in range(20)]
    assert kcat(servers, *words) == b""


def test_franz_go_reads_as_a_member(servers, topic, with_go):
    produce(servers, topic, numbered(20))
    group = f"g-{topic}"
    found = franz_go("group", servers, topic, "12", group) + franz_go(
        "group", servers, topic, "8", group
    )
    assert [each["offset"] for each in found] == list(range(20))


def test_javas_console_consumer_and_group_command(servers, topic, with_java):
    """A member of Java's commits; the command shows its offset and lag, and resets it."""
    produce(servers, topic, numbered(10))
    group = f"g-{topic}"
    words = ["--topic", topic, "--group", group, "--from-beginning", "--max-messages", "7"]
    text = java("consumer.ConsoleConsumer", servers, *words)
    assert lines_of(text) == [str(n) for n in range(7)]
    command = "consumer.group.ConsumerGroupCommand"
    assert group in lines_of(java(command, servers, "--list"))
    assert shown(java(command, servers, "--describe", "--group", group)) == ["7", "10", "3"]
    words = ["--reset-offsets", "--to-earliest", "--execute", "--group", group, "--topic", topic]
    java(command, servers, *words)
    assert shown(java(command, servers, "--describe", "--group", group)) == ["0", "10", "10"]


def shown(text: str) -> list[str]:
    """Current offset, end offset and lag of the one partition."""
    (row,) = [line.split() for line in lines_of(text) if line.startswith("g-")]
    return row[3:6]
