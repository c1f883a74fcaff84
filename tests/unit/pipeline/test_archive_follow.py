"""The steps of an archive that follows, without Spark: what fails is reported and tried again, and nothing is counted
as complete before it is derived."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from app.errors import BrokerUnavailable, LakeUnavailable, SetupError, TopicsMissing
from app.pipeline.archive import follow
from app.pipeline.archive.copying import CopyRange
from app.pipeline.archive.derive import Derived
from app.pipeline.archive.follow import Following
from app.pipeline.archive.job import ArchiveJob, ArchiveProgress
from app.pipeline.archive.lease import LakeHold, lock_error
from app.pipeline.archive.metrics import ArchiveMetrics

NOTHING: Any = None


class Hold(LakeHold):
    """A lock, which another process may have taken."""

    lost = has_noticed = False

    def demand_not_lost(self) -> None:
        if self.has_noticed:
            raise lock_error("another")

    def demand(self) -> None:
        if self.lost:
            raise lock_error("another")


def part(start: int, end: int, latest: int, begun: float) -> CopyRange:
    return CopyRange(
        begun=begun, start={"t": {0: start}}, end={"t": {0: end}}, latest={"t": {0: latest}}
    )


class House:
    """An archive of one topic, whose broker and lake do what a test tells them."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.held, self.stop, self.told = Hold(), threading.Event(), list[ArchiveProgress]()
        self.copied: CopyRange | Exception = part(0, 0, 0, 100.0)
        self.derived: Exception | None = None
        self.steps: list[str] = []
        self.now = 0.0
        self.metrics = ArchiveMetrics(["t"], lambda: self.now)
        self.now = 200.0
        monkeypatch.setattr(follow, "copy_next", self._copy)
        monkeypatch.setattr(follow, "derive_all", self._derive)
        monkeypatch.setattr(follow, "AGAIN", 0.0)
        plan: Any = type("Plan", (), {"trigger": 1000.0})
        job = ArchiveJob(NOTHING, NOTHING, plan, self.held, tell=self.told.append, stop=self.stop)
        self.following = Following(job, self.metrics)

    def _copy(self, *_: Any) -> tuple[CopyRange, int]:
        self.steps.append("copy")
        if isinstance(self.copied, Exception):
            raise self.copied
        return self.copied, self.copied.size

    def _derive(self, *_: Any) -> Derived:
        self.steps.append("derive")
        if self.derived is not None:
            raise self.derived
        return Derived(1, 1)

    @property
    def lag(self) -> float:
        return self.metrics.lag.seconds()["t"]

    def troubles(self) -> list[tuple[str, str]]:
        return [(each.step, each.trouble) for each in self.told if each.trouble]


@pytest.fixture
def house(monkeypatch: pytest.MonkeyPatch) -> House:
    return House(monkeypatch)


def test_a_batch_waits_for_its_trigger_unless_more_is_there(house: House) -> None:
    house.copied = part(0, 5, 9, 110.0)
    house.following.step()
    house.copied = part(5, 9, 9, 120.0)
    house.following.step()
    house.following.step()
    assert house.steps == ["copy", "derive"] * 2
    assert (house.following.copied, house.following.derived.events) == (9, 2)
    assert house.lag == 80.0


def test_a_look_without_records_derives_nothing(house: House) -> None:
    """Only the first one does: an earlier run may have left records."""
    house.following.step()
    house.following._due = 0.0
    house.copied = part(0, 0, 0, 150.0)
    house.following.step()
    assert house.steps == ["copy", "derive", "copy"]
    assert house.lag == 50.0


def test_the_copy_goes_on_while_no_record_can_be_derived(house: House) -> None:
    house.copied, house.derived = part(0, 5, 5, 110.0), ValueError("no")
    house.following.step()
    house.copied = part(5, 9, 9, 120.0)
    house.following.step()
    assert house.lag == 200.0, "nothing is complete"
    assert house.metrics.lag.records() == {"t": 9}
    house.copied, house.derived = part(9, 9, 9, 130.0), None
    house.following.step()
    assert house.troubles() == [("derive", "no")] * 2
    assert (house.following.copied, house.lag) == (9, 70.0)
    assert house.metrics.lag.records() == {"t": 0}


@pytest.mark.parametrize("make", [LakeUnavailable, BrokerUnavailable, TopicsMissing, ValueError])
def test_what_fails_is_tried_again(house: House, make: Callable[[str], Exception]) -> None:
    house.copied = part(0, 0, 1, 100.0)
    house.following.step()
    house.copied = make("does not answer")
    house.following.step()
    house.copied = part(0, 1, 1, 110.0)
    house.following.step()
    assert house.troubles() == [("copy", "does not answer")]
    assert house.following.copied == 1


def test_a_lost_lock_ends_the_archive_although_no_step_fails(house: House) -> None:
    """A process that was suspended finds no new record, because another one has copied them."""
    house.following.step()
    house.held.has_noticed = True
    with pytest.raises(SetupError, match="is being written by another"):
        house.following.step()


def test_what_failed_waits(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(follow, "AGAIN", 1000.0)
    house.copied = part(0, 0, 1, 100.0)
    house.following.step()
    house.copied = LakeUnavailable("does not answer")
    for _ in range(3):
        house.following.step()
    assert house.steps.count("copy") == 2
    assert house.following._due > time.monotonic()


@pytest.mark.parametrize("make", [LakeUnavailable, BrokerUnavailable, TopicsMissing])
def test_an_archive_that_cannot_begin_ends(house: House, make: Callable[[str], Exception]) -> None:
    house.copied = make("does not answer")
    with pytest.raises(type(house.copied)):
        house.following.step()


def test_lost_records_end_the_archive(house: House) -> None:
    """Its next start tells the same, and the cure."""
    house.following.step()
    house.following._due, house.copied = 0.0, SetupError("retention dropped records")
    with pytest.raises(SetupError, match="retention"):
        house.following.step()


def test_nothing_is_tried_again_if_another_process_has_the_lake(house: House) -> None:
    """A lease is not renewed while the catalog does not answer."""
    house.copied = part(0, 0, 1, 100.0)
    house.following.step()
    house.copied = LakeUnavailable("does not answer")
    house.following.step()
    house.held.lost = True
    with pytest.raises(SetupError, match="another"):
        house.following.step()
    assert house.steps.count("copy") == 2


def test_records_that_are_not_derived_before_the_end_are_not_complete(house: House) -> None:
    house.copied = part(0, 5, 5, 110.0)
    house.stop.set()
    house.following.step()
    assert house.lag == 200.0
