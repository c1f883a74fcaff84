"""Nothing of a lake is changed before the lock is held: another archive may run."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest

from app.errors import SetupError
from app.pipeline import redrive as redriving
from app.pipeline import tables
from app.pipeline.archive import run, typed_tables
from app.pipeline.archive.follow import follow
from app.pipeline.archive.job import ArchivePlan
from app.pipeline.archive.lock import holding_lock, is_held
from app.pipeline.settings import Lake
from app.spark.settings import KafkaPlace, LakeCatalog

SPARK: Any = None


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return Lake(LakeCatalog("jdbc", f"jdbc:sqlite:{tmp_path}/catalog.db", tmp_path.as_uri()))


@pytest.mark.parametrize("verb", ["redrive", "once", "follow"])
def test_the_columns_of_typed_tables_are_changed_with_the_lock_alone(
    lake: Lake, verb: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An archive that runs writes the columns that it found when it began."""
    changed: list[str] = []
    monkeypatch.setattr(typed_tables, "make", lambda *_: changed.append(verb))
    monkeypatch.setattr(tables, "check", lambda *_: None)
    monkeypatch.setattr(tables, "make", lambda *_: None)
    plan = ArchivePlan(place=KafkaPlace("main", "none:1"), topics=("t",))
    verbs = {
        "redrive": lambda: redriving.redrive(SPARK, lake, redriving.RedriveRequest()),
        "once": lambda: run.once(SPARK, lake, plan),
        "follow": lambda: follow(SPARK, lake, plan, stop=threading.Event()),
    }
    with holding_lock(SPARK, lake), pytest.raises(SetupError, match="is being written by"):
        verbs[verb]()
    assert not changed


def test_a_look_at_a_lock_does_not_take_it(lake: Lake) -> None:
    """Nor does a look hold up a process that takes the lock meanwhile."""
    assert not is_held(SPARK, lake, "archive")
    with holding_lock(SPARK, lake):
        assert is_held(SPARK, lake, "archive")
        assert not is_held(SPARK, lake, "upkeep")
    ended = threading.Event()

    def look() -> None:
        while not ended.wait(0.005):
            is_held(SPARK, lake, "archive")

    thread = threading.Thread(target=look)
    thread.start()
    try:
        for _ in range(20):
            with holding_lock(SPARK, lake) as held:
                assert held.seconds_left() > 0
    finally:
        ended.set()
        thread.join()
