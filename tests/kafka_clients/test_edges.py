"""Where clients and the log meet less often: both doors, refusals, members of other kinds."""

from __future__ import annotations

import http.client
import time

from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from kafka_foreign import PATIENCE, java_result, parts_of, produce, read, settings_of
from waiting import wait_until

ATTRIBUTES = [("ce_specversion", b"1.0"), ("ce_id", b"7"), ("ce_source", b"/s"), ("ce_type", b"t")]
MEMBER = {"enable.auto.commit": False, "session.timeout.ms": 60_000, "heartbeat.interval.ms": 500}
"""A stall of this machine is no member's end."""


def rejected(servers: str, topic: str, *records, **settings) -> list[int | None]:
    """The error of each record, or None."""
    producer = Producer({"bootstrap.servers": servers, **settings})
    errors: list[int | None] = []
    for key, value, headers in records:
        producer.produce(
            topic,
            key=key,
            value=value,
            headers=headers,
            on_delivery=lambda error, _: errors.append(error and error.code()),
        )
    assert producer.flush(PATIENCE) == 0
    return errors


def test_an_event_posted_over_http_is_read_by_a_kafka_client(serving):
    """The Kafka binding in binary mode: attributes as headers, the data as the value."""
    end = end_of(serving.servers, "events")
    connection = http.client.HTTPConnection("127.0.0.1", serving.events_port, timeout=PATIENCE)
    headers = {name.replace("_", "-"): value.decode() for name, value in ATTRIBUTES}
    connection.request("POST", "/events", b'{"a":1}', {**headers, "content-type": "text/json"})
    assert connection.getresponse().status < 300
    connection.close()
    (found,) = read(serving.servers, "events", 1, start=end)
    assert found.value() == b'{"a":1}'
    assert sorted(found.headers()) == sorted([*ATTRIBUTES, ("content-type", b"text/json")])


def test_a_guarded_topic_takes_cloudevents_alone(servers):
    """``validate: cloudevents``: one that is none is refused as an invalid record, and not stored."""
    event = (b"k", b"body", [*ATTRIBUTES, ("content-type", b"text/plain")])
    end = end_of(servers, "guarded")
    once = {"enable.idempotence": False}
    assert rejected(servers, "guarded", (b"k", b"no event", []), **once) == [
        KafkaError.INVALID_RECORD
    ]
    assert rejected(servers, "guarded", event, **once) == [None]
    assert end_of(servers, "guarded") == end + 1
    assert [parts_of(message) for message in read(servers, "guarded", 1, start=end)] == [event]


def end_of(servers: str, topic: str) -> int:
    """Of a topic of one partition, which is made if it is not there."""
    consumer = Consumer(settings_of(servers, "nobody", {"allow.auto.create.topics": True}))
    try:
        consumer.list_topics(topic, timeout=PATIENCE)
        return consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=PATIENCE)[1]
    finally:
        consumer.close()


def test_a_record_above_the_bound_is_refused_and_its_neighbours_are_not(servers, topic):
    """The producer hears that it is too large, at once, and goes on."""
    huge = (None, b"x" * (20 << 20), [])
    more = {"message.max.bytes": 100 << 20, "linger.ms": 0}
    assert rejected(servers, topic, huge, **more) == [KafkaError.MSG_SIZE_TOO_LARGE]
    assert produce(servers, topic, [(None, b"small", [])]) == [(0, 0)]


def test_who_waits_at_the_end_sees_a_record_at_once(servers, topic):
    """A Fetch that waits is answered by what comes, not by its time-out."""
    produce(servers, topic, [(None, b"first", [])])
    consumer = Consumer(
        settings_of(servers, "nobody", {"fetch.wait.max.ms": 50_000, "enable.auto.commit": False})
    )
    consumer.assign([TopicPartition(topic, 0, 0)])
    try:
        assert len(consumer.consume(1, PATIENCE)) == 1
        assert consumer.poll(0.5) is None
        began = time.monotonic()
        produce(servers, topic, [(None, b"second", [])])
        found = consumer.poll(PATIENCE)
        assert found is not None
        assert found.value() == b"second"
        assert time.monotonic() - began < 40.0, "below the 50 s it would wait"
    finally:
        consumer.close()


def test_an_offset_that_is_not_there_is_said_and_reset(servers, topic):
    """With ``error`` the client is told; with ``earliest`` it begins again."""
    produce(servers, topic, [(None, b"only", [])])
    consumer = Consumer(settings_of(servers, "nobody", {"auto.offset.reset": "error"}))
    consumer.assign([TopicPartition(topic, 0, 1_000)])
    message = consumer.poll(PATIENCE)
    consumer.close()
    assert message is not None
    assert message.error().code() == KafkaError._AUTO_OFFSET_RESET
    assert [each.value() for each in read(servers, topic, 1, start=1_000)] == [b"only"]


def test_a_static_member_comes_back_to_its_partitions_without_a_rebalance(servers, wide_topic):
    """``group.instance.id``: gone and back within its session, the other never notices."""
    group = f"g-{wide_topic}"

    def joined(name: str, told: list[str]) -> Consumer:
        consumer = Consumer(settings_of(servers, group, {**MEMBER, "group.instance.id": name}))
        consumer.subscribe(
            [wide_topic],
            on_assign=lambda *_: told.append("assigned"),
            on_revoke=lambda *_: told.append("revoked"),
        )
        return consumer

    stays: list[str] = []
    first, second = joined("one", stays), joined("two", [])

    def halves() -> bool:
        first.poll(0.05)
        second.poll(0.05)
        return [len(first.assignment()), len(second.assignment())] == [2, 2]

    wait_until(halves, "two partitions each", PATIENCE)
    before = sorted(each.partition for each in second.assignment())
    second.close()
    stays.clear()
    second = joined("two", [])
    try:
        wait_until(halves, "two partitions each, again", PATIENCE)
        assert sorted(each.partition for each in second.assignment()) == before
        assert stays == []
    finally:
        first.close()
        second.close()


def test_a_pattern_finds_topics_that_come_later(servers, topic):
    """A subscription by pattern asks for all topics, and makes none."""
    settings = {**MEMBER, "topic.metadata.refresh.interval.ms": 200}
    consumer = Consumer(settings_of(servers, f"g-{topic}", settings))
    consumer.subscribe([f"^{topic}.*"])
    try:
        produce(servers, f"{topic}-a", [(None, b"a", [])])
        found = _record(consumer)
        assert found.value() == b"a"
        consumer.commit(found, asynchronous=False)
        produce(servers, f"{topic}-b", [(None, b"b", [])])
        assert _record(consumer).value() == b"b"
    finally:
        consumer.close()


def _record(consumer: Consumer) -> Message:
    """The next one. The client says of a pattern that no topic fits it yet, when it asks before there is one."""
    while True:
        (found,) = consumer.consume(1, PATIENCE)
        if found.error() is None or found.error().code() != KafkaError.UNKNOWN_TOPIC_OR_PART:
            return found


def test_a_topic_deleted_under_its_readers_is_said_and_harms_nobody(servers, topic):
    """Its reader is told; another one, of the same connection, reads on."""
    admin, other = AdminClient({"bootstrap.servers": servers}), f"{topic}-other"
    for name in (topic, other):
        admin.create_topics([NewTopic(name, 1)])[name].result(PATIENCE)
    more = {
        "allow.auto.create.topics": False,
        "topic.metadata.refresh.interval.ms": 300,
        "topic.metadata.propagation.max.ms": 100,
    }
    consumer = Consumer(settings_of(servers, "nobody", {**MEMBER, **more}))
    consumer.assign([TopicPartition(name, 0, 0) for name in (topic, other)])
    try:
        produce(servers, topic, [(None, b"x", [])])
        assert [each.value() for each in consumer.consume(1, PATIENCE)] == [b"x"]
        admin.delete_topics([topic])[topic].result(PATIENCE)
        produce(servers, other, [(None, b"y", [])])
        found, codes = [], []

        def both() -> bool:
            for each in consumer.consume(10, 0.05):
                if each.error():
                    codes.append(each.error().code())
                else:
                    found.append(each.value())
            return bool(found and codes)

        wait_until(both, "a record of the other topic, and an error of this one", PATIENCE)
        assert found == [b"y"]
        assert set(codes) <= {KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_PARTITION}
    finally:
        consumer.close()


def test_the_new_groups_of_kafka_4_are_refused_politely(servers, topic, with_java):
    """KIP-848 is not offered: Java's consumer says so, and does not wait for ever."""
    produce(servers, topic, [(None, b"x", [])])
    words = ["--topic", topic, "--command-property", "group.protocol=consumer"]
    said = java_result("consumer.ConsoleConsumer", servers, *words)
    assert said.stdout == b""
    assert b"UnsupportedVersionException" in said.stderr, said.stderr.decode()
