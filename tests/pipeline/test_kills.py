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
from typing import TYPE_CHECKING
from uuid import uuid4

import pytest

from app.pipeline import maintain, tables
from app.pipeline.archive import run
from app.pipeline.archive.job import ArchivePlan
from lake_events import Produced, make_topic, produce
from lake_folders import lake_in, plan_for, read_table, session_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [
    pytest.mark.nightly,
    pytest.mark.kafka,
    pytest.mark.fault,
    pytest.mark.usefixtures("spark"),
]

SCRIPT = Path(__file__).parents[1] / "support" / "archive_process.py"
Kill = tuple[str, int]

AFTER_COMMIT: Kill = ("raw committed", 1)
BETWEEN: Kill = ("events committed", 1)
LONG: Sequence[Kill] = (
    ("prepared", 1),
    ("raw files written", 3),
    ("raw committed", 2),
    ("raw files written", 20),
    ("records copied", 1),
    ("range begun", 2),
    ("duplicates found", 1),
    ("events committed", 2),
    ("quarantine committed", 1),
    ("at random", 7),
)


class Killed(BaseException):
    pass


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
    kept = maintain.LakeRetention(snapshots=timedelta(0), orphans=timedelta(days=1))
    while process.poll() is None:
        if times and all(session.catalog.tableExists(lake.table(name)) for name in tables.COLUMNS):
            list(maintain.maintain(session, lake, kept, now=datetime.now(UTC)))
            times -= 1
        time.sleep(0.5)


def verify(folder: Path, sent: Produced) -> None:
    places = ("topic", "partition", "offset")
    raw = read_table(folder, "events_raw", places)
    assert raw.num_rows == sent.records
    assert raw.group_by(list(places)).aggregate([]).num_rows == sent.records
    events = read_table(folder, "events", ("source", "id"))
    names = set(zip(events["source"].to_pylist(), events["id"].to_pylist(), strict=True))
    assert events.num_rows == len(names)
    assert names == sent.events
    refused = read_table(folder, "quarantine", places)
    assert refused.num_rows == sent.invalid
    assert refused.group_by(list(places)).aggregate([]).num_rows == sent.invalid


class House:
    """A topic with ``count`` records, and a lake that is filled ``most`` records a range, by processes that die."""

    def __init__(self, servers: str, folder: Path, count: int, most: int) -> None:
        self.servers, self.folder, self.most = servers, folder / "lake", most
        self.topic = f"k-{uuid4().hex[:8]}"
        make_topic(servers, self.topic)
        self.sent = produce(servers, self.topic, count)
        self.lake = lake_in(self.folder)
        self.session = session_of(self.lake)

    def kill(self, kill: Kill, upkeeps: int) -> None:
        """``upkeeps``: of each process's life."""
        process = begin(self.folder, self.servers, self.topic, self.most, kill)
        try:
            upkeep(self.session, self.folder, process, upkeeps)
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait(120)
        assert process.returncode == -signal.SIGKILL, f"it was not killed {kill}: {self._said()}"

    def break_off(self, kill: Kill) -> None:
        """In the Spark of the run, at a moment where nothing is under way in it: as no ``finally`` there writes,
        what an exception leaves is what a kill leaves.
        """

        def die(moment: str) -> None:
            if moment == kill[0]:
                raise Killed

        with pytest.raises(Killed):
            run.once(self.session, self.lake, self._plan(), observe=die)

    def finish(self) -> run.ArchiveResult:
        return run.once(self.session, self.lake, self._plan())

    def finish_apart(self, upkeeps: int) -> None:
        last = begin(self.folder, self.servers, self.topic, self.most, ("none", 0))
        upkeep(self.session, self.folder, last, upkeeps)
        assert last.returncode == 0, self._said()

    def verify(self) -> None:
        verify(self.folder, self.sent)

    def _plan(self) -> ArchivePlan:
        return plan_for(self.lake, self.servers, self.topic, most=self.most)

    def _said(self) -> str:
        return (self.folder.parent / "lake.log").read_text()[-3000:]


def test_two_kills_neither_lose_nor_double(kafka: str, tmp_path: Path) -> None:
    """After the commit and before the checkpoint, and between the commits of a range."""
    house = House(kafka, tmp_path, 1_000, 600)
    house.kill(AFTER_COMMIT, upkeeps=1)
    house.break_off(BETWEEN)
    assert house.finish().copied == 0, "the copy had ended, the range had not"
    house.verify()


@pytest.mark.nightly
def test_two_kills_of_processes_neither_lose_nor_double(kafka: str, tmp_path: Path) -> None:
    prove(House(kafka, tmp_path, 3_000, 1_500), (AFTER_COMMIT, BETWEEN), upkeeps=1)


def prove(house: House, kills: Sequence[Kill], upkeeps: int) -> None:
    for kill in kills:
        house.kill(kill, upkeeps)
    house.finish_apart(upkeeps)
    house.verify()


@pytest.mark.nightly
@pytest.mark.timeout(0)
def test_ten_kills_of_half_a_million_events(kafka: str, tmp_path: Path) -> None:
    """``SKYBRIDGE_KILLS_EVENTS`` sets another count, such as 2,000,000."""
    count = int(os.environ.get("SKYBRIDGE_KILLS_EVENTS", "500000"))
    prove(House(kafka, tmp_path, count, max(10_000, count // 10)), LONG, upkeeps=1_000)
