"""A topic of many partitions with few records each costs few tasks and few files."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from uuid import uuid4

import pytest

from app.pipeline import tables
from app.pipeline.archive import progress, run
from lake_events import make_topic, produce
from lake_folders import lake_in, plan_for, read_table, session_of

pytestmark = [
    pytest.mark.kafka,
    pytest.mark.nightly,
    pytest.mark.usefixtures("spark"),
]


@pytest.mark.parametrize(("partitions", "count"), [(40, 400), (300, 39_000)])
def test_the_records_of_a_batch_are_in_few_files(
    kafka: str, tmp_path: Path, partitions: int, count: int
) -> None:
    topic = f"p-{uuid4().hex[:8]}"
    make_topic(kafka, topic, partitions)
    sent = produce(kafka, topic, count)
    lake = lake_in(tmp_path)
    session = session_of(lake)
    done = run.once(session, lake, plan_for(lake, kafka, topic, most=200_000))
    assert (done.copied, done.events) == (sent.records, len(sent.events))
    rows = read_table(tmp_path, "events_raw", ("partition", "offset"))
    places = Counter(zip(rows["partition"].to_pylist(), rows["offset"].to_pylist(), strict=True))
    assert len(places) == places.total() == sent.records
    table = session.table(f"{lake.table('events_raw')}.files")
    days = table.select("partition").distinct().count()  # two if the day changed meanwhile
    assert table.count() <= partitions // 32 * days


def test_a_condition_of_a_thousand_partitions(tmp_path: Path) -> None:
    """A chain of so many is too deep for Spark: a typed table could not be added, and nothing replayed."""
    lake = lake_in(tmp_path)
    session = session_of(lake)
    tables.make(session, lake)
    end = {"main": {"t": dict.fromkeys(range(1000), 10)}}
    stored = session.table(lake.table(tables.RAW_TABLE))
    assert stored.where(progress.between({}, end)).count() == 0
