"""docs/recovery.md: a lake that is lost is made again from the log, but for what the log has dropped (issue 9, 8)."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient

from app.pipeline.archive import run
from app.pipeline.settings import Lake
from lake_events import make_topic, produce
from lake_folders import lake_in, plan_for, session_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.kafka, pytest.mark.nightly]

COUNT, DROPPED = 400, 30
RAW = ("topic", "partition", "offset", "key", "value", "record_time")
EVENT = ("source", "id", "type", "specversion", "subject", "data")


def archived(session: SparkSession, lake: Lake, servers: str, topic: str) -> run.ArchiveResult:
    return run.once(session, lake, plan_for(lake, servers, topic))


def rows(session: SparkSession, lake: Lake, table: str, columns: tuple[str, ...]) -> set[Any]:
    found = session.table(lake.table(table)).select(*columns).collect()
    kept = {tuple(_plain(value) for value in row) for row in found}
    assert len(kept) == len(found)
    return kept


def _plain(value: Any) -> Any:
    return bytes(value) if isinstance(value, bytearray) else value


@pytest.mark.usefixtures("spark")
def test_a_lost_lake_is_made_again_but_for_what_the_log_has_dropped(
    kafka: str, tmp_path: Path
) -> None:
    """Catalog, tables and checkpoint are gone; retention took the first records of one partition meanwhile."""
    first, again = lake_in(tmp_path / "first"), lake_in(tmp_path / "again")
    session = session_of(first)
    topic = f"lost-{uuid4().hex[:8]}"
    make_topic(kafka, topic)
    produce(kafka, topic, COUNT)
    archived(session, first, kafka, topic)
    raw, events = rows(session, first, "events_raw", RAW), rows(session, first, "events", EVENT)
    client = AdminClient({"bootstrap.servers": kafka})
    (kept,) = client.delete_records([TopicPartition(topic, 0, DROPPED)]).values()
    assert kept.result(60).low_watermark == DROPPED
    session = session_of(again)
    outcome = archived(session, again, kafka, topic)
    lost = {row for row in raw if row[1] == 0 and row[2] < DROPPED}
    assert len(lost) == DROPPED
    assert rows(session, again, "events_raw", RAW) == raw - lost
    assert outcome.copied == COUNT - DROPPED
    remade = rows(session, again, "events", EVENT)
    assert remade <= events, "nothing that was not there"
    assert len(events - remade) <= DROPPED, "no event but those whose records are gone"
    assert events - remade
