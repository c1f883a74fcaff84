"""Exactly once: the archive is killed at named moments while ``maintain`` runs beside it, and afterwards
the lake holds what was sent. Counted by PyIceberg and by the sender, by no code of ours.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pytest
from pyiceberg.catalog.sql import SqlCatalog

from app.pipeline import maintain, tables
from lake_events import Sent, make_topic, produce
from lake_house import lake_in, session_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SCRIPT = Path(__file__).parents[1] / "support" / "archive_process.py"
Kill = tuple[str, int]

SHORT: Sequence[Kill] = (("raw committed", 1), ("clear events committed", 1))
LONG: Sequence[Kill] = (
    ("prepared", 1),
    ("raw files written", 3),
    ("raw committed", 2),
    ("raw files written", 20),
    ("stream ended", 1),
    ("range begun", 2),
    ("clear events committed", 1),
    ("doubtful events committed", 2),
    ("quarantine committed", 1),
    ("at random", 7),
)


def begin(folder: Path, servers: str, topic: str, most: int, kill: Kill) -> subprocess.Popen[bytes]:
    words = [str(folder), servers, topic, str(most), kill[0], str(kill[1])]
    log = (folder.parent / f"{folder.name}.log").open("ab")
    with log:
        return subprocess.Popen(
            [sys.executable, str(SCRIPT), *words],
            stdout=log,
            stderr=log,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
            start_new_session=True,
        )


def upkeep(
    session: SparkSession, folder: Path, process: subprocess.Popen[bytes], times: int
) -> None:
    """While the archive lives, as soon as the tables are there."""
    lake = lake_in(folder)
    kept = maintain.Kept(snapshots=timedelta(0), orphans=timedelta(days=1))
    while process.poll() is None:
        if times and all(session.catalog.tableExists(lake.table(name)) for name in tables.COLUMNS):
            list(maintain.maintain(session, lake, kept, now=datetime.now(UTC)))
            times -= 1
        time.sleep(0.5)


def read(folder: Path, table: str, columns: tuple[str, ...]) -> Any:
    catalog = SqlCatalog("lake", uri=f"sqlite:///{folder}/catalog.db", warehouse=folder.as_uri())
    try:
        return catalog.load_table(f"skybridge.{table}").scan(selected_fields=columns).to_arrow()
    finally:
        catalog.engine.dispose()


def verify(folder: Path, sent: Sent) -> None:
    places = ("topic", "partition", "offset")
    raw = read(folder, "events_raw", places)
    assert raw.num_rows == sent.records
    assert raw.group_by(list(places)).aggregate([]).num_rows == sent.records
    events = read(folder, "events", ("source", "id"))
    names = set(zip(events["source"].to_pylist(), events["id"].to_pylist(), strict=True))
    assert events.num_rows == len(names)
    assert names == sent.events
    refused = read(folder, "quarantine", places)
    assert refused.num_rows == sent.invalid
    assert refused.group_by(list(places)).aggregate([]).num_rows == sent.invalid


def prove(
    servers: str, folder: Path, count: int, most: int, kills: Sequence[Kill], upkeeps: int
) -> None:
    """``upkeeps``: of each process's life."""
    folder = folder / "lake"
    topic = f"k-{uuid4().hex[:8]}"
    make_topic(servers, topic)
    sent = produce(servers, topic, count)
    for kill in kills:
        process = begin(folder, servers, topic, most, kill)
        try:
            upkeep(session_of(lake_in(folder)), folder, process, upkeeps)
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait(30)
        log = (folder.parent / "lake.log").read_text()
        assert process.returncode == -signal.SIGKILL, f"it was not killed {kill}: {log[-3000:]}"
    last = begin(folder, servers, topic, most, ("none", 0))
    upkeep(session_of(lake_in(folder)), folder, last, upkeeps)
    assert last.returncode == 0, (folder.parent / "lake.log").read_text()[-3000:]
    verify(folder, sent)


@pytest.mark.kafka
@pytest.mark.fault
@pytest.mark.timeout(1800)
@pytest.mark.usefixtures("spark")
def test_two_kills_neither_lose_nor_double(kafka: str, tmp_path: Path) -> None:
    """After the commit and before the checkpoint, and between the commits of a range."""
    prove(kafka, tmp_path, 3_000, 1_500, SHORT, upkeeps=1)


@pytest.mark.kafka
@pytest.mark.fault
@pytest.mark.long
@pytest.mark.timeout(0)
@pytest.mark.usefixtures("spark")
def test_ten_kills_of_two_million_events(kafka: str, tmp_path: Path) -> None:
    """``SKYBRIDGE_KILLS_EVENTS`` sets another count."""
    count = int(os.environ.get("SKYBRIDGE_KILLS_EVENTS", "2000000"))
    prove(kafka, tmp_path, count, max(10_000, count // 10), LONG, upkeeps=1_000)
