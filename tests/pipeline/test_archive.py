"""A log in the lake: every record as it was, every event once, what is no event with its reason."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest import mock
from uuid import uuid4

import msgspec
import pyarrow.compute as pc
import pytest
from confluent_kafka import Consumer, Producer

from app.errors import SetupError
from app.pipeline import erase, history, maintain, tables
from app.pipeline.archive import progress, ranges, raw, run
from app.pipeline.archive.lock import holding_lock
from app.pipeline.settings import Lake
from lake_events import Produced, make_topic, produce
from lake_folders import holding, lake_in, plan_for, read_table, session_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.kafka]

COUNT = 2_000


@dataclass
class Filled:
    folder: Path
    session: SparkSession
    lake: Lake
    servers: str
    topic: str
    sent: Produced
    outcome: run.ArchiveResult

    def table(self, name: str) -> Any:
        return self.session.table(self.lake.table(name))

    def call(self, procedure: str, words: str, name: str = "events_raw") -> None:
        """One of Iceberg's."""
        table = f"table => '{self.lake.namespace}.{name}'"
        self.session.sql(f"CALL lake.system.{procedure}({table}, {words})")

    def again(self) -> run.ArchiveResult:
        return run.once(self.session, self.lake, plan_for(self.lake, self.servers, self.topic))


def filled(folder: Path, servers: str, count: int) -> Filled:
    lake = lake_in(folder)
    session = session_of(lake)
    topic = f"a-{uuid4().hex[:8]}"
    make_topic(servers, topic)
    sent = produce(servers, topic, count)
    outcome = run.once(session, lake, plan_for(lake, servers, topic, most=COUNT * 3 // 4))
    return Filled(folder, session, lake, servers, topic, sent, outcome)


@pytest.fixture(scope="module")
def archived(spark: SparkSession, kafka: str, tmp_path_factory: pytest.TempPathFactory) -> Filled:
    """In two ranges."""
    return filled(tmp_path_factory.mktemp("lake"), kafka, COUNT)


def wire(servers: str, topic: str, count: int) -> dict[tuple[int, int], Any]:
    """Every record as a client that was not written here reads it."""
    settings = {"bootstrap.servers": servers, "group.id": "x", "auto.offset.reset": "earliest"}
    consumer = Consumer(settings)
    consumer.subscribe([topic])
    found: dict[tuple[int, int], Any] = {}
    while len(found) < count:
        for message in consumer.consume(min(1000, count - len(found)), 0.5):
            assert message.error() is None
            found[message.partition(), message.offset()] = (
                message.key(),
                message.value(),
                message.headers() or [],
                message.timestamp()[1],
            )
    consumer.close()
    return found


@pytest.mark.usefixtures("spark")
def test_every_record_is_kept_as_it_was_on_the_wire(archived: Filled) -> None:
    """Key, value, headers in order and the broker's time: by PyIceberg, on the same SQLite."""
    rows = read_table(archived.folder, "events_raw").to_pylist()
    kept = {
        (row["partition"], row["offset"]): (
            row["key"],
            row["value"],
            [(header["key"], header["value"]) for header in row["headers"] or []],
            round(row["record_time"].timestamp() * 1000),
        )
        for row in rows
    }
    assert len(rows) == archived.sent.records
    assert kept == wire(archived.servers, archived.topic, archived.sent.records)


@pytest.mark.usefixtures("spark")
def test_every_event_is_there_once_and_what_is_none_is_in_quarantine(archived: Filled) -> None:
    """One row a (source, id), the one stored first; a broken record stops nothing (pipeline 5)."""
    events = archived.table("events").toArrow()
    names = list(zip(events["source"].to_pylist(), events["id"].to_pylist(), strict=True))
    assert len(names) == len(set(names))
    assert set(names) == archived.sent.events
    assert archived.table("quarantine").count() == archived.sent.invalid
    assert archived.table("quarantine").where("rule IS NULL OR detail IS NULL").count() == 0
    sent = archived.sent
    assert archived.outcome == run.ArchiveResult(
        copied=sent.records,
        events=len(sent.events),
        duplicates=sent.records - len(sent.events) - sent.invalid,
        quarantined=sent.invalid,
    )
    assert pc.sum(pc.equal(events["specversion"], "1.0")).as_py() == len(names)


@pytest.mark.usefixtures("spark")
def test_a_second_run_finds_nothing_to_do(archived: Filled) -> None:
    assert archived.again() == run.ArchiveResult(0, 0, 0, 0)


@pytest.mark.usefixtures("spark")
def test_offsets_without_a_record_are_an_empty_range(archived: Filled) -> None:
    """Aborted transactions and compaction leave such offsets."""
    end = ranges.pending(archived.session, archived.lake).end

    def after(more: int) -> dict[str, dict[str, dict[int, int]]]:
        return {
            broker: {
                topic: {n: at + more for n, at in each.items()} for topic, each in named.items()
            }
            for broker, named in end.items()
        }

    found = raw.records(archived.session, archived.lake, after(COUNT), after(COUNT + 9))
    assert found.frame.count() == 0


@pytest.mark.usefixtures("spark")
def test_a_second_archive_of_a_lake_is_refused_by_name(archived: Filled) -> None:
    with (
        holding_lock(archived.session, archived.lake),
        pytest.raises(SetupError, match=r"is being written by process \d+ on"),
    ):
        archived.again()


@pytest.mark.usefixtures("spark")
def test_upkeep_and_erasure_refuse_each_other(archived: Filled) -> None:
    """Erasure removes every file that no snapshot names: a compaction's too, before it commits."""
    session, lake, now = archived.session, archived.lake, datetime.now(UTC)
    with holding_lock(session, lake, "upkeep"):
        with pytest.raises(SetupError, match="is being written by"):
            list(maintain.maintain(session, lake, maintain.LakeRetention(), now=now))
        with pytest.raises(SetupError, match="is being written by"):
            erase.erase(session, lake, "subject", "1")


@pytest.mark.usefixtures("spark")
def test_a_lake_of_another_format_is_refused_with_the_cure(tmp_path: Path) -> None:
    lake = lake_in(tmp_path)
    session = session_of(lake)
    tables.make(session, lake)
    table = lake.table("events")
    session.sql(f"ALTER TABLE {table} SET TBLPROPERTIES ('{tables.FORMAT_PROPERTY}' = '99')")
    with pytest.raises(SetupError, match="has format 99, but this Skybridge supports 1") as refused:
        tables.make(session, lake)
    assert "use the Skybridge that wrote it" in refused.value.cure


@pytest.mark.nightly
@pytest.mark.usefixtures("spark")
def test_other_topics_cost_nothing(kafka: str, tmp_path: Path) -> None:
    """No record is read twice and none is left out, also of a topic that is left out for a time."""
    house = filled(tmp_path, kafka, 200)
    more = f"b-{uuid4().hex[:8]}"
    make_topic(kafka, more)
    other = produce(kafka, more, 100, seed=2)
    plan = plan_for(house.lake, kafka, house.topic)

    def once(*names: str) -> int:
        chosen = msgspec.structs.replace(plan, topics=names)
        return run.once(house.session, house.lake, chosen).copied

    assert once(more) == other.records
    again = produce(kafka, house.topic, 100, seed=3)
    assert once(house.topic, more) == again.records
    raw = house.table("events_raw").select("topic", "partition", "offset")
    assert raw.count() == raw.distinct().count() == 200 + 100 + 100


@pytest.mark.nightly
@pytest.mark.parametrize("lost", ["snapshots", "rows"])
@pytest.mark.usefixtures("spark")
def test_the_position_is_that_of_the_rows(kafka: str, tmp_path: Path, lost: str) -> None:
    """Another program has expired the snapshots that state the position, or rolled the lake back."""
    house = filled(tmp_path, kafka, 200)
    before = history.newest_snapshot(house.session, house.lake.table("events_raw"))
    assert before is not None
    sent = produce(kafka, house.topic, 100, seed=4)
    house.again()
    if lost == "snapshots":
        house.call("rewrite_data_files", "options => map('rewrite-all', 'true')")
        house.call("expire_snapshots", "older_than => TIMESTAMP '2100-01-01', retain_last => 1")
        assert progress.stored(house.session, house.lake.table("events_raw")) is None
    else:
        house.call("rollback_to_snapshot", f"snapshot_id => {before.id}")
        for name in ("events", "quarantine"):
            older = list(history.snapshots(house.session, house.lake.table(name)))[1]
            house.call("rollback_to_snapshot", f"snapshot_id => {older.id}", name)
    assert house.again().copied == (0 if lost == "snapshots" else sent.records)
    raw = house.table("events_raw").select("topic", "partition", "offset")
    assert raw.count() == raw.distinct().count() == 200 + sent.records


@pytest.mark.nightly
@pytest.mark.usefixtures("spark")
def test_erased_records_that_were_not_decoded_stay_away(kafka: str, tmp_path: Path) -> None:
    """They were the last ones of their partitions, so the rows that are left do not state the position."""
    house = filled(tmp_path, kafka, 100)
    producer = Producer({"bootstrap.servers": kafka})
    event = [("ce_specversion", "1.0"), ("ce_type", "t"), ("ce_source", "/erased")]
    for n in range(20):
        producer.produce(house.topic, value=b"{}", headers=[*event, ("ce_id", f"s{n}")])
    assert producer.flush(120) == 0

    def die(moment: str) -> None:
        if moment == "records copied":
            raise KeyboardInterrupt

    plan = plan_for(house.lake, kafka, house.topic)
    with pytest.raises(KeyboardInterrupt):
        run.once(house.session, house.lake, plan, observe=die)
    erase.erase(house.session, house.lake, "source", "/erased")
    assert run.once(house.session, house.lake, plan).copied == 0


@pytest.mark.nightly  # the small form: tests/pipeline/test_verbs.py
@pytest.mark.usefixtures("spark")
def test_upkeep_and_erasure_leave_an_archive_that_goes_on(
    kafka: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of one subject nothing is left in any file; what the archive looks back for is."""
    house = filled(tmp_path, kafka, 400)
    secret = f"customer-{uuid4().hex}"
    producer = Producer({"bootstrap.servers": kafka})
    for n in range(20):
        headers = [("ce_specversion", "1.0"), ("ce_id", f"s{n}"), ("ce_source", "/s")]
        whole = [*headers, ("ce_type", "t"), ("ce_subject", secret)]
        structured = {"specversion": "1.0", "id": f"j{n}", "source": "/s", "type": "t"}
        producer.produce(house.topic, value=b"{}", headers=whole)
        producer.produce(
            house.topic,
            value=json.dumps({**structured, "subject": secret}).encode(),
            headers=[("content-type", "application/cloudevents+json")],
        )
        producer.produce(house.topic, value=b"{}", headers=[*headers, ("ce_subject", secret)])
    assert producer.flush(120) == 0
    assert house.again().copied == 60

    now = datetime.now(UTC)
    kept = maintain.LakeRetention(snapshots=timedelta(0), orphans=timedelta(days=1))
    looked = list(maintain.maintain(house.session, house.lake, kept, now=now, dry_run=True))
    assert [each.table for each in looked] == ["events_raw", "events", "quarantine"]
    done = list(maintain.maintain(house.session, house.lake, kept, now=now))
    assert all(each.made < each.rewritten for each in done if each.rewritten)
    assert house.again() == run.ArchiveResult(0, 0, 0, 0), "compaction looks like nothing new"

    kinds = {path.suffix for path in holding(tmp_path, secret)}
    assert kinds == {".parquet", ".avro"}, "or the search would prove nothing"
    counts = erase.find(house.session, house.lake, "subject", secret)
    assert {each.table: each.rows for each in counts} == {
        "events_raw": 60, "events": 40, "quarantine": 20,
    }  # fmt: skip
    with monkeypatch.context() as patch, pytest.raises(erase.ErasureIncomplete) as stopped:
        patch.setattr(erase, "_remove_old_files", mock.Mock(side_effect=OSError("no answer")))
        erase.erase(house.session, house.lake, "subject", secret)
    assert "no answer; old files are left in events_raw, quarantine, events" in str(stopped.value)
    counts = erase.find(house.session, house.lake, "subject", secret)
    assert {each.rows for each in counts} == {0}, "rows of all tables go before the first file"
    erase.erase(house.session, house.lake, "subject", secret)
    assert holding(tmp_path, secret) == []
    assert house.again() == run.ArchiveResult(0, 0, 0, 0), "and nothing of it comes back"
    assert produce(kafka, house.topic, 50, seed=9).records == house.again().copied
    assert history.newest_snapshot(house.session, house.lake.table("events")) is not None
