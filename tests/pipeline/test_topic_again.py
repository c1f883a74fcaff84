"""A topic that was deleted and created again is another topic: no record is lost, and none is there twice."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import uuid4

import pytest
from confluent_kafka import KafkaException, Producer
from confluent_kafka.admin import AdminClient

from app.errors import SetupError
from app.pipeline.archive import run
from app.pipeline.archive.follow import follow
from app.pipeline.archive.topics import ArchivedTopics, renewed
from app.pipeline.tables import broker_topic
from app.spark.reroute import job as jobs
from app.spark.settings import KafkaPlace, Reroute
from lake_events import make_topic
from lake_folders import lake_in, plan_for, read_table, session_of
from waiting import wait_until

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from app.pipeline.archive.job import ArchiveProgress

pytestmark = [pytest.mark.kafka]


def send(kafka: str, topic: str, name: str, count: int) -> set[str]:
    """Send events without waiting for the archive, and return their ids."""
    producer = Producer({"bootstrap.servers": kafka, "partitioner": "consistent"})
    ids = [f"{name}-{n}" for n in range(count)]
    for each in ids:
        headers: list[tuple[str, str | bytes | None]] = [("ce_specversion", b"1.0"), ("ce_id", each.encode()), ("ce_source", b"/s"),
                   ("ce_type", b"t")]  # fmt: skip
        producer.produce(topic, key=each.encode(), value=each.encode(), headers=headers)
    assert producer.flush(60) == 0
    return set(ids)


def again(kafka: str, topic: str, name: str, count: int) -> set[str]:
    """Delete a topic, create it again, and fill it."""
    admin = AdminClient({"bootstrap.servers": kafka})
    for gone in admin.delete_topics([topic]).values():
        gone.result(60)

    def made() -> bool:
        try:
            make_topic(kafka, topic, 2)
        except KafkaException:  # the deletion has not ended
            return False
        return True

    wait_until(made, "the topic is created again")
    return send(kafka, topic, name, count)


@dataclass
class Archived:
    """A topic with 50 records, of which a lake has all."""

    kafka: str
    folder: Path
    topic: str = field(default_factory=lambda: f"again-{uuid4().hex[:8]}")
    notices: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.lake = lake_in(self.folder)
        self.session = session_of(self.lake)
        self.plan = plan_for(self.lake, self.kafka, self.topic)
        make_topic(self.kafka, self.topic, 2)
        self.sent = {self.topic: send(self.kafka, self.topic, "first", 50)}

    def tell(self, told: ArchiveProgress) -> None:
        if told.notice:
            self.notices.append(told.notice)

    def once(self) -> run.ArchiveResult:
        return run.once(self.session, self.lake, self.plan, tell=self.tell)

    def renew(self, name: str, count: int) -> None:
        stored = f"{self.topic}@{len(self.sent) + 1}"
        self.sent[stored] = again(self.kafka, self.topic, name, count)

    def check(self) -> None:
        """Each record is in the lake once, under the name of its topic."""
        rows = read_table(self.folder, "events_raw", ("topic", "key")).to_pylist()
        found = [(row["topic"], row["key"].decode()) for row in rows]
        assert sorted(found) == sorted((t, each) for t, ids in self.sent.items() for each in ids)
        events = read_table(self.folder, "events", ("id",))["id"].to_pylist()
        assert sorted(events) == sorted(each for ids in self.sent.values() for each in ids)


@pytest.mark.usefixtures("spark")
@pytest.mark.nightly
def test_a_longer_topic_of_the_same_name_is_read_from_its_earliest(
    kafka: str, tmp_path: Path
) -> None:
    """The archive would else continue at offset 50, in silence."""
    archived = Archived(kafka, tmp_path)
    assert archived.once().copied == 50
    archived.renew("second", 80)
    assert archived.once().copied == 80
    assert len(archived.notices) == 1
    assert f"{archived.topic}@2" in archived.notices[0]
    assert archived.once().copied == 0
    archived.check()


@pytest.mark.nightly
@pytest.mark.usefixtures("spark")
def test_a_batch_of_the_new_topic_is_not_committed_under_the_old_name(
    kafka: str, tmp_path: Path
) -> None:
    """The topic is created again after its records were chosen, and is longer than what was read."""
    archived = Archived(kafka, tmp_path)
    archived.once()
    archived.sent[archived.topic] |= send(kafka, archived.topic, "more", 5)
    done: list[str] = []

    def renew(moment: str) -> None:
        if moment == "prepared" and not done:
            done.append(moment)
            archived.renew("second", 80)

    run.once(archived.session, archived.lake, archived.plan, tell=archived.tell, observe=renew)
    assert len(archived.notices) == 1
    archived.sent[archived.topic] -= {f"more-{n}" for n in range(5)}  # they went with the topic
    archived.check()


@pytest.mark.nightly
def test_a_running_archive_goes_on_with_the_new_topic(
    spark: SparkSession, kafka: str, tmp_path: Path
) -> None:
    archived = Archived(kafka, tmp_path)
    stop, copied = threading.Event(), threading.Event()

    def tell(told: ArchiveProgress) -> None:
        archived.tell(told)
        if told.derived is not None:
            copied.set()

    def run_on() -> None:
        follow(archived.session, archived.lake, archived.plan, tell=tell, stop=stop)

    def has_all() -> bool:
        rows = read_table(archived.folder, "events", ("id",)).num_rows
        return rows == sum(map(len, archived.sent.values()))

    following = threading.Thread(target=run_on)
    following.start()
    try:
        assert copied.wait(120)
        archived.renew("second", 80)
        wait_until(has_all, "the records of the new topic", 240)
    finally:
        stop.set()
        following.join(120)
    assert archived.notices
    archived.check()


@pytest.mark.usefixtures("spark")
def test_a_reroute_refuses_a_topic_that_was_created_again(kafka: str, tmp_path: Path) -> None:
    """Its position is in Spark's checkpoint, which knows no ids."""
    session, topic = session_of(lake_in(tmp_path / "lake")), f"again-{uuid4().hex[:8]}"
    job = Reroute(KafkaPlace("main", kafka), [topic], [], {})
    make_topic(kafka, topic, 2)
    send(kafka, topic, "first", 5)
    tallies: list[jobs.Tally] = []

    def reroute() -> None:
        place = (tmp_path / "checkpoint").as_uri()
        query = jobs.started(session, job, checkpoint=place, once=True, progress=tallies.append)
        query.awaitTermination()

    reroute()
    reroute()
    assert sum(tallies, jobs.Tally()).read == 5
    again(kafka, topic, "second", 8)
    with pytest.raises(SetupError, match=f"created again .*{topic}"):
        reroute()


def test_ids_are_kept_in_order() -> None:
    known = ArchivedTopics(first={"a": {0: 3}, "b": {0: 4}}).with_current({"a": "x", "b": "y"})
    current = {"a": "x", "b": "z", "c": "w"}
    assert renewed(known.ids, current) == ["b"]
    after = known.with_current(current)
    assert after.ids == {"a": ("x",), "b": ("y", "z"), "c": ("w",)}
    assert after.names == {"a": "a", "b": "b@2", "c": "c"}
    assert after.first == {"a": {0: 3}}, "b begins anew"


@pytest.mark.parametrize(
    ("stored", "topic"),
    [
        ("a", "a"),
        ("a@2", "a"),
        ("persistent://public/default/a@2", "persistent://public/default/a@2"),
    ],
)
def test_the_broker_knows_a_topic_by_its_own_name(stored: str, topic: str) -> None:
    assert broker_topic(stored) == topic


def test_a_state_of_earlier_versions_is_read() -> None:
    import msgspec

    text = b'{"checkpoint":"c","topics":["a"],"starts":{"a":{"0":7}},"erased":{"a":{"0":9}}}'
    state = msgspec.json.decode(text, type=ArchivedTopics)
    assert (state.starts, state.erased, state.ids) == ({"a": {0: 7}}, {"a": {0: 9}}, {})
