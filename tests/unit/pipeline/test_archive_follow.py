"""An archive that follows writes small batches to one file, and large ones by several tasks: no Spark."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from app.pipeline.archive import follow, stream
from app.pipeline.archive.follow import FEW, MANY
from app.pipeline.archive.lag import Lag

NOTHING: Any = None


class Query:
    """A stream that has ended some batches, each a number of records."""

    def __init__(self, few: bool) -> None:
        self.few, self.ended = few, list[int]()

    def exception(self) -> None:
        return None


class Reports:
    """The reports of a stream."""

    def __init__(self, query: Query) -> None:
        self.query, self.idle = query, None

    def new_batches(self) -> list[dict[str, int]]:
        ended, self.query.ended = self.query.ended, []
        return [{"numInputRows": rows} for rows in ended]


class House:
    """The streams that were started, one after the other."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, waiting: int | None) -> None:
        self.streams: list[Query] = []
        self.lag = Lag(["t"])
        ready = SimpleNamespace(pending=waiting, next={"t": {0: 3}}, end={"t": {0: 8}})
        monkeypatch.setattr(follow, "pending", lambda *_: NOTHING)
        monkeypatch.setattr(follow, "prepare", lambda *_: ready)
        monkeypatch.setattr(follow, "StreamReports", Reports)
        monkeypatch.setattr(stream, "start", self._start)
        monkeypatch.setattr(follow, "stop_after_batch", self._stop)
        self.following = follow.FollowedStream(NOTHING, NOTHING, NOTHING, NOTHING, self.lag)

    def _start(self, *_: Any, once: bool, few_files: bool) -> Query:
        assert not once
        self.streams.append(Query(few_files))
        return self.streams[-1]

    def _stop(self, seen: Reports) -> list[dict[str, int]]:
        seen.query.ended.append(7)
        return seen.new_batches()

    def batch(self, *rows: int) -> list[int]:
        self.streams[-1].ended += rows
        return [each["numInputRows"] for each in self.following.new_batches()]


@pytest.mark.parametrize(
    ("waiting", "few"), [(0, True), (FEW, True), (FEW + 1, False), (None, False)]
)
def test_a_backlog_is_read_by_many_tasks(
    monkeypatch: pytest.MonkeyPatch, waiting: int | None, few: bool
) -> None:
    house = House(monkeypatch, waiting)
    assert house.streams[0].few is few
    assert house.lag.records() == {"t": 5}


def test_the_stream_is_started_again_when_batches_change(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is lost of what ended meanwhile. Between the two limits nothing changes."""
    house = House(monkeypatch, 10 * FEW)
    assert house.batch() == []
    assert house.batch(MANY, FEW + 1) == [MANY, FEW + 1]
    assert house.batch(MANY, FEW) == [MANY, FEW, 7]
    assert house.batch(FEW, MANY) == [FEW, MANY]
    assert house.batch(MANY + 1) == [MANY + 1, 7]
    assert house.batch(MANY) == [MANY]
    assert [each.few for each in house.streams] == [False, True, False]
