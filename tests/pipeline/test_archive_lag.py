"""What the archive tells of its lag is true of the lake: all that is older is there, in every table."""

from __future__ import annotations

import threading
from datetime import UTC, datetime
from pathlib import Path
from uuid import uuid4

import pytest

from app.pipeline import tables
from app.pipeline.archive import run
from app.pipeline.archive.follow import follow
from app.pipeline.archive.metrics import ArchiveMetrics
from lake_events import make_topic, produce
from lake_folders import lake_in, plan_for, session_of
from waiting import wait_until

pytestmark = [pytest.mark.nightly, pytest.mark.kafka]


@pytest.mark.usefixtures("spark")
@pytest.mark.parametrize("moments", [1, pytest.param(2, marks=pytest.mark.nightly)])
def test_what_is_older_than_the_lag_is_in_the_lake(
    kafka: str, tmp_path: Path, moments: int
) -> None:
    """A busy moment, and the rest after it: the lag falls below the age of what was sent, and then it is there."""
    lake = lake_in(tmp_path)
    session = session_of(lake)
    topic = f"lag-{uuid4().hex[:8]}"
    make_topic(kafka, topic)
    metrics, stop = ArchiveMetrics([topic]), threading.Event()
    plan = plan_for(lake, kafka, topic, most=500 if moments == 1 else 300)
    outcomes: list[run.ArchiveResult] = []

    def archive() -> None:
        outcomes.append(follow(session, lake, plan, metrics=metrics, stop=stop))

    thread = threading.Thread(target=archive)
    thread.start()
    try:
        for _ in range(moments):
            sent = produce(kafka, topic, 500).records
            stored = datetime.now(UTC).timestamp()

            def caught_up(stored: float = stored) -> bool:
                return datetime.now(UTC).timestamp() - metrics.lag.seconds()[topic] > stored

            wait_until(caught_up, "a lag below the age of what was sent", 600, turn=0.5)
            assert session.table(lake.table(tables.RAW_TABLE)).count() % sent == 0
            derived = (tables.EVENTS_TABLE, tables.QUARANTINE_TABLE)
            assert all(session.table(lake.table(name)).count() for name in derived)
    finally:
        stop.set()
        thread.join()
    assert outcomes[0].copied == moments * sent
