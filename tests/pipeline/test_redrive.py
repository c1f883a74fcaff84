"""Quarantined records that decode now go on, once, and leave quarantine when they are safe."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pytest

from app.bindings.record import Record
from app.cli.pipeline.redrive import _send
from app.config.load.loader import load
from app.errors import SetupError
from app.pipeline import tables
from app.pipeline.archive import commit, progress
from app.pipeline.archive.derive import write_decoded
from app.pipeline.archive.lock import holding_lock
from app.pipeline.archive.ranges import pending, split_by_offsets
from app.pipeline.archive.raw import RangeRecords
from app.pipeline.redrive import RedriveRequest, RedriveResult, RuleCount, preview_redrive, redrive
from app.pipeline.settings import Lake
from lake_folders import lake_in, session_of
from replay_records import (
    BEGIN,
    Row,
    binary_record,
    fill,
    open_topic,
    record_of_0_3,
    rows_of,
    stored_records,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.nightly]

BROKEN = Record(b"k", (("ce_specversion", b"1.0"), ("ce_id", b"x")), b"{}")


def quarantined(
    spark: SparkSession, lake: Lake, rules: list[tuple[str, Row]], known: list[Row]
) -> None:
    """Rows of which the decoder of then said that they broke ``rule``; ``known``: events that are there."""
    fill(spark, lake, known)
    ends = {"main": {"t": {0: len(known)}}}
    raw = RangeRecords(spark.table(lake.table(tables.RAW_TABLE)))
    events = write_decoded(spark, lake, raw).events
    commit.append(spark, lake.table(tables.EVENTS_TABLE), events, ends)
    rows = [
        (*row.raw(), "invalid", rule, "as it was judged then", None, BEGIN) for rule, row in rules
    ]
    frame = spark.createDataFrame(rows, tables.QUARANTINE).coalesce(1)
    told = {f"snapshot-property.{progress.PROPERTY}": progress.as_text(ends)}
    frame.writeTo(lake.table(tables.QUARANTINE_TABLE)).options(**told).append()


@pytest.fixture
def lake(spark: SparkSession, tmp_path: Path) -> tuple[SparkSession, Lake]:
    """Of six records in quarantine four decode now; one of these is an event that is there already."""
    made = lake_in(tmp_path)
    session = session_of(made)
    topic = f"q-{uuid4().hex[:8]}"
    rows = rows_of(
        [
            binary_record("1"),
            record_of_0_3("2"),
            binary_record("there"),
            binary_record("3"),
            BROKEN,
            Record(None, (), b"-"),
        ],
        topic,
    )
    rules = ["bad-time", "bad-time", "bad-time", "bad-id", "missing-attribute", "not-an-event"]
    known = [Row("t", 0, 0, 0, binary_record("there"))]
    quarantined(session, made, list(zip(rules, rows, strict=True)), known)
    return session, made


def ids(spark: SparkSession, lake: Lake) -> list[str]:
    rows = spark.table(lake.table("events")).select("id").collect()
    return sorted(row["id"] for row in rows)


def left(spark: SparkSession, lake: Lake) -> list[str]:
    rows = spark.table(lake.table("quarantine")).select("rule").collect()
    return sorted(row["rule"] for row in rows)


class Killed(BaseException):
    pass


def test_what_decodes_now_goes_on_once_although_it_is_broken_off_between(lake: Any) -> None:
    """Nothing stands in ``finally`` that a SIGKILL would leave undone but the lock, which ends with a process."""
    whole = RedriveResult(
        [RuleCount("bad-time", 3, 3), RuleCount("bad-id", 1, 1), RuleCount("missing-attribute", 1, 0),
         RuleCount("not-an-event", 1, 0)],
        taken=4,
    )  # fmt: skip
    assert preview_redrive(*lake, RedriveRequest()) == whole
    assert ids(*lake) == ["there"], "a look changes nothing"

    def die(moment: str) -> None:
        if moment == "events committed":
            raise Killed

    with pytest.raises(Killed):
        redrive(*lake, RedriveRequest(), observe=die)
    assert ids(*lake) == ["1", "2", "3", "there"]
    assert len(left(*lake)) == 6, "nothing leaves before events has it"
    again = redrive(*lake, RedriveRequest())
    assert (again.taken, again.events) == (4, 0)
    assert ids(*lake) == ["1", "2", "3", "there"]
    assert left(*lake) == ["missing-attribute", "not-an-event"]
    assert redrive(*lake, RedriveRequest()).taken == 0
    begun = pending(*lake)
    assert list(split_by_offsets(begun, 1_000)) == [], "the archive is as far as it was"


def test_a_rule_and_a_number_bound_it_and_an_archive_at_work_refuses_it(lake: Any) -> None:
    with holding_lock(*lake), pytest.raises(SetupError, match="is being written by"):
        redrive(*lake, RedriveRequest())
    found = redrive(*lake, RedriveRequest(("bad-time",), 1))
    assert (found.rules, found.taken, found.events) == ([RuleCount("bad-time", 3, 3)], 1, 1)
    assert ids(*lake) == ["1", "there"], "the oldest goes first"
    assert left(*lake).count("bad-time") == 2


@pytest.mark.kafka
def test_they_go_back_to_their_topic_as_they_came(lake: Any, kafka: str, tmp_path: Path) -> None:
    session, made = lake
    topic = session.table(made.table("quarantine")).first()["topic"]
    open_topic(kafka, topic, 1)
    file = tmp_path / "skybridge.yaml"
    file.write_text(
        f"version: 1\nbrokers:\n  main: {{kind: kafka, bootstrap_servers: '{kafka}'}}\n"
        "routes:\n  - {name: all, to: {broker: main, topic: t}}\n"
    )
    send = _send(load(file, {}).config, "topic")
    found = redrive(session, made, RedriveRequest(), send=send)
    assert (found.taken, found.events, found.refused) == (4, 3, {})
    came = [binary_record("1"), record_of_0_3("2"), binary_record("there"), binary_record("3")]
    assert [record for _, record in stored_records(kafka, topic)] == [
        Record(each.key, (*each.headers, ("skybridge-redrive", b"1")), each.body) for each in came
    ]
    with pytest.raises(SetupError, match="is not a target"):
        _send(load(file, {}).config, "elsewhere")
