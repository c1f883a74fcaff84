"""Topics whose offsets have gaps (transactions, compaction), and records of many megabytes."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import uuid4

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, TopicPartition

import kafka_librdkafka
from app.pipeline.archive import run
from lake_folders import lake_in, plan_for, read_table, session_of
from waiting import wait_until

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.kafka, pytest.mark.nightly]

Headers = list[tuple[str, str | bytes | None]]


def headers(name: str) -> Headers:
    return [("ce_specversion", b"1.0"), ("ce_id", name.encode()), ("ce_source", b"/s"), ("ce_type", b"t")]  # fmt: skip


class Topic:
    """A topic of one partition, and a lake that it is archived into."""

    def __init__(self, servers: str, folder: Path, **settings: str) -> None:
        self.servers, self.name, self.folder = servers, f"k-{uuid4().hex[:8]}", folder
        kafka_librdkafka.make_topic(servers, self.name, 1, **settings)
        self.lake = lake_in(folder)
        self.session: SparkSession = session_of(self.lake)

    def archived(self) -> run.ArchiveResult:
        return run.once(
            self.session, self.lake, plan_for(self.lake, self.servers, self.name, most=100)
        )

    def ids(self) -> list[str]:
        """Return the ids in ``events``, sorted."""
        found: list[str] = read_table(self.folder, "events", ("id",))["id"].to_pylist()
        return sorted(found)

    def offsets(self) -> list[int]:
        """Return the offsets in ``events_raw``, sorted."""
        found: list[int] = read_table(self.folder, "events_raw", ("offset",))["offset"].to_pylist()
        return sorted(found)

    def produce(self, producer: Producer, names: Iterable[str], key: bytes | None = None) -> None:
        for name in names:
            producer.produce(
                self.name, key=key or name.encode(), value=b"{}", headers=headers(name)
            )
        assert producer.flush(60) == 0


@pytest.mark.usefixtures("spark")
def test_only_what_transactions_committed_is_archived(kafka: str, tmp_path: Path) -> None:
    """An open transaction is waited for, and an aborted one leaves nothing."""
    topic = Topic(kafka, tmp_path)
    producer = Producer({"bootstrap.servers": kafka, "transactional.id": uuid4().hex})
    producer.init_transactions(60)

    def write(name: str, count: int) -> list[str]:
        names = [f"{name}-{n}" for n in range(count)]
        producer.begin_transaction()
        topic.produce(producer, names)
        return names

    sent = write("first", 70)
    producer.commit_transaction(60)
    write("aborted", 150)
    producer.abort_transaction(60)
    assert topic.archived().events == 70
    assert topic.archived() == run.ArchiveResult(0, 0, 0, 0), "the end is an abort marker"
    late = write("open", 40)
    assert topic.archived().copied == 0
    producer.commit_transaction(60)
    assert topic.archived().events == 40
    assert topic.ids() == sorted([*sent, *late])
    write("aborted again", 5)
    producer.abort_transaction(60)
    plain = Producer({"bootstrap.servers": kafka})
    topic.produce(plain, ["last"])
    assert topic.archived().events == 1
    assert topic.ids() == sorted([*sent, *late, "last"])


@pytest.mark.usefixtures("spark")
def test_a_compacted_topic_is_archived_as_it_is(kafka: str, tmp_path: Path) -> None:
    """Offsets that compaction removed before they were read are no fault."""
    topic = Topic(
        kafka, tmp_path, **{"cleanup.policy": "compact", "segment.ms": "100", "min.cleanable.dirty.ratio": "0.01"}
    )  # fmt: skip
    producer = Producer({"bootstrap.servers": kafka})
    topic.produce(producer, [f"a{n}" for n in range(50)], key=b"same")
    assert topic.archived().copied == 50
    topic.produce(producer, [f"b{n}" for n in range(200)], key=b"same")

    def compacted() -> bool:
        topic.produce(producer, [f"c{uuid4().hex}"], key=b"other")  # closes the segment
        return len(there(topic)) < 150

    wait_until(compacted, "the cleaner of the broker", 240, turn=1)
    before = there(topic)
    topic.archived()
    found = topic.offsets()
    assert len(found) == len(set(found))
    assert {*range(50), *there(topic)} <= set(found) <= {*range(50), *before}
    assert topic.archived() == run.ArchiveResult(0, 0, 0, 0)


def there(topic: Topic) -> list[int]:
    """Return the offsets that the topic still has."""
    consumer = Consumer({"bootstrap.servers": topic.servers, "group.id": "x", "enable.partition.eof": True})  # fmt: skip
    consumer.assign([TopicPartition(topic.name, 0, OFFSET_BEGINNING)])
    found: list[int] = []
    while (message := consumer.poll(60)) is not None and message.error() is None:
        found.append(message.offset() or 0)
    consumer.close()
    return found


@pytest.mark.usefixtures("spark")
def test_records_of_twenty_megabytes_are_archived(kafka: str, tmp_path: Path) -> None:
    """They are more than the memory of the driver has room for at once."""
    largest = 25_000_000
    topic = Topic(kafka, tmp_path, **{"max.message.bytes": str(largest)})
    producer = Producer({"bootstrap.servers": kafka, "message.max.bytes": largest})
    text = json.dumps({"n": 1, "pad": uuid4().hex * 625_000}).encode()
    count = 40
    for n in range(count):
        producer.produce(topic.name, value=text, headers=headers(f"large-{n}"))
        assert producer.flush(120) == 0
    assert topic.archived().events == count
    rows = read_table(tmp_path, "events", ("id", "data"))
    assert rows.num_rows == count
    assert {len(each) for each in rows["data"].to_pylist()} == {len(text)}
