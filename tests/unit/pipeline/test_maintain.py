"""What upkeep does when an archive commits beside it. The race itself: ``tests/pipeline/test_kills.py``, long."""

from __future__ import annotations

from typing import Any

import pytest

from app.pipeline.maintain import rewrite_manifests
from app.pipeline.settings import Lake
from app.spark.settings import LakeCatalog
from java_throwables import throwable, wrapped

OVERTAKEN = wrapped(throwable("org.apache.iceberg.exceptions.ValidationException"))


class Found:
    def collect(self) -> list[dict[str, int]]:
        return [{"rewritten_manifests_count": 3}]


class Session:
    """Spark, whose first answers to a procedure are errors."""

    def __init__(self, *errors: Exception) -> None:
        self.errors = list(errors)
        self.asked = 0

    def sql(self, procedure: str) -> Found:
        assert procedure == "CALL lake.system.rewrite_manifests(table => 'skybridge.events')"
        self.asked += 1
        if self.errors:
            raise self.errors.pop(0)
        return Found()


LAKE = Lake(LakeCatalog("jdbc", "jdbc:sqlite:catalog.db", "file:///lake"))


def test_manifests_that_a_commit_took_away_are_rewritten_on_the_newest_snapshot() -> None:
    session: Any = Session(OVERTAKEN, OVERTAKEN)
    assert rewrite_manifests(session, LAKE, "events") == 3
    assert session.asked == 3


def test_a_table_without_a_pause_keeps_them_until_the_next_upkeep() -> None:
    session: Any = Session(*[OVERTAKEN] * 9)
    assert rewrite_manifests(session, LAKE, "events") == 0
    assert session.asked == 5


def test_another_error_is_told() -> None:
    session: Any = Session(OSError("the disk is full: no ValidationException"))
    with pytest.raises(OSError, match="disk"):
        rewrite_manifests(session, LAKE, "events")
