"""The stream of an archive that follows, without Spark: small batches are written to one file and large ones by several
tasks, and a stream that the store or the catalog ended is started again."""

from __future__ import annotations

import contextlib
from types import SimpleNamespace
from typing import Any

import pytest

from app.errors import LakeUnavailable, SetupError
from app.pipeline.archive import follow, stream
from app.pipeline.archive.follow import FEW, MANY
from app.pipeline.archive.lag import Lag
from app.pipeline.archive.lease import LakeHold, lock_error

NOTHING: Any = None


class Query:
    """A stream that has ended some batches, each a number of records."""

    def __init__(self, few: bool) -> None:
        self.few, self.ended = few, list[int]()
        self.error: Exception | None = None

    def exception(self) -> Exception | None:
        return self.error

    def stop(self) -> None:
        self.ended = []


class Reports:
    """The reports of a stream."""

    def __init__(self, query: Query) -> None:
        self.query, self.idle = query, None

    def new_batches(self) -> list[dict[str, int]]:
        ended, self.query.ended = self.query.ended, []
        return [{"numInputRows": rows} for rows in ended]


class Hold(LakeHold):
    """A lock, which another process may have taken."""

    lost = False

    def demand(self) -> None:
        if self.lost:
            raise lock_error("another")


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
        self.held = Hold()
        self.following = follow.FollowedStream(
            NOTHING, NOTHING, NOTHING, NOTHING, self.lag, self.held
        )

    def _start(self, *_: Any, once: bool, few_files: bool) -> Query:
        assert not once
        self.streams.append(Query(few_files))
        return self.streams[-1]

    def _stop(self, seen: Reports) -> list[dict[str, int]]:
        seen.query.ended.append(7)
        return seen.new_batches()

    def fail(self) -> None:
        """Fail in a step, as the storage does not answer."""
        with contextlib.suppress(LakeUnavailable):
            self.following.new_batches()
        found = self.following.failed(LakeUnavailable("the storage does not answer"))
        assert (found.step, found.trouble) == ("copy", "the storage does not answer")

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


@pytest.fixture
def away(monkeypatch: pytest.MonkeyPatch) -> House:
    """A house whose storage does not answer any more."""
    monkeypatch.setattr(follow, "same_topics", lambda *_: contextlib.nullcontext())

    def fail(query: Query) -> None:
        assert query.error is not None
        raise query.error

    monkeypatch.setattr(follow, "raise_if_failed", fail)
    house = House(monkeypatch, 0)
    house.following.finish(SimpleNamespace(end={}, typed={}))  # type: ignore[arg-type]
    house.streams[-1].error = LakeUnavailable("the storage does not answer")
    house.fail()
    return house


def test_a_stream_that_the_storage_ended_is_started_again_later(
    away: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(follow, "AGAIN", 1_000)
    away.fail()
    for _ in range(2):
        away.following.resume()
        assert away.batch() == []
        assert not away.following.is_running
    assert len(away.streams) == 1
    monkeypatch.setattr(follow, "AGAIN", 0)
    away.fail()
    away.following.resume()
    assert away.batch(5) == [5]
    assert len(away.streams) == 2


def test_no_stream_is_started_if_another_process_has_the_lake(
    away: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A lease is not renewed while the catalog does not answer."""
    monkeypatch.setattr(follow, "AGAIN", 0)
    away.fail()
    away.held.lost = True
    with pytest.raises(SetupError, match="another"):
        away.following.resume()
    assert len(away.streams) == 1
