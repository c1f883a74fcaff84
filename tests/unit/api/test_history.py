"""Points of the history: rates by the clock, quantiles of buckets, and what stands elsewhere, asked with care."""

from __future__ import annotations

import asyncio
import itertools
import os
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any
from unittest.mock import AsyncMock

import pytest

from app.api.status import recorder as recording_of
from app.api.status import subscription_history
from app.api.status.history import Point
from app.api.status.recorder import CachedNumber, Recorder, counts_of, quantile, rates
from app.api.status.subscription_history import SubscriptionHistories
from app.errors import StoreUnavailable
from app.model.metadata import GroupLag, Lags
from app.telemetry import Counters
from topics_service import FakeTopicsService
from virtual_clock import VirtualClock
from waiting import until


def test_rates_are_of_the_time_between() -> None:
    """By what the counters have, whatever their labels; nothing is counted twice."""
    counters = Counters()
    counters.add("events_received", "binary", by=5)
    before = counts_of(counters, 100.0)
    counters.add("events_received", "binary", by=20)
    counters.add("events_received", "structured", by=10)
    counters.add("events_published", "all", "log", by=29)
    counters.add("events_refused", "bad-event")
    for outcome, by in (("delivered", 40), ("dead-lettered", 3), ("filtered", 9)):
        counters.add("deliveries", "hook", outcome, by=by)
    for label, by in (("2xx", 40), ("5xx", 6), ("timeout", 1)):
        counters.add("attempts", "hook", label, by=by)
    counters.add("attempts", "pulled", "handed-out", by=50)  # to a consumer: no failure
    assert rates(counts_of(counters, 110.0), before) == {
        "received": 3.0, "published": 2.9, "refused": 0.1, "delivered": 4.0, "failed": 0.7,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("seconds", "half", "most"),
    [
        ([], None, None),
        ([0.003], 3.75, 4.975),  # half way, and nearly all the way, from 2.5 to 5 ms
        ([0.003] * 50 + [0.2] * 50, 5.0, 247.0),
        ([60.0], 30_000.0, 30_000.0),  # beyond the last bound
    ],
)
def test_quantiles_are_of_what_was_added(
    seconds: Sequence[float], half: float | None, most: float | None
) -> None:
    """Old values do not hide new ones; all brokers together."""
    counters = Counters()
    publishes = counters.histogram("publish_seconds")
    publishes["log",].add(10.0)
    before = counts_of(counters, 0.0)
    for number, each in enumerate(seconds):
        publishes[("log", "kafka")[number % 2],].add(each)
    now = counts_of(counters, 1.0)
    assert quantile(0.5, now, before) == half
    assert quantile(0.99, now, before) == most


def test_the_first_publish_has_its_time() -> None:
    """There was no histogram before it."""
    counters = Counters()
    before = counts_of(counters, 0.0)
    counters.histogram("publish_seconds")["log",].add(0.003)
    assert quantile(0.5, counts_of(counters, 1.0), before) == 3.75


async def test_what_is_dear_is_asked_for_rarely() -> None:
    """A count of a million rows must not keep the store busy for a chart."""
    clock, asked = VirtualClock(), []

    async def slow() -> int:
        asked.append(clock.monotonic())
        await clock.advance(0.2)
        return len(asked)

    standing = CachedNumber(slow, clock.monotonic)
    while clock.monotonic() < asked[0] + 61 if asked else True:
        await standing.value()
        await clock.advance(1)
    gaps = [later - earlier for earlier, later in itertools.pairwise(asked)]
    assert gaps
    assert min(gaps) >= 0.2 * recording_of.SPARED
    assert await standing.value() == len(asked)


async def test_a_process_at_rest_asks_once_a_minute_unless_somebody_looks() -> None:
    """With a hundred groups of Kafka the lag alone is two hundred requests. What was asked for while the last
    work was under way is asked for once more."""
    clock, asked = VirtualClock(), []

    async def quick() -> int:
        asked.append(clock.monotonic())
        return len(asked)

    standing = CachedNumber(quick, clock.monotonic)
    for _ in range(12):
        await standing.value((1, 0))
        await clock.advance(10)
    assert [each - asked[0] for each in asked] == [0, 10, 70]
    assert await standing.value((2, 0)) == 4  # it worked
    await clock.advance(10)
    assert await standing.value((2, 0)) == 5
    await clock.advance(10)
    assert await standing.value((2, 0)) == 5
    assert await standing.value(None) == 6


async def test_what_nobody_can_say_is_null() -> None:
    clock = VirtualClock()

    async def away() -> int:
        raise StoreUnavailable("it is away")

    assert await CachedNumber(away, clock.monotonic).value() is None


async def test_only_a_known_lag_becomes_a_sample(monkeypatch: pytest.MonkeyPatch) -> None:
    """An earlier or partial lag would be drawn as the present one."""
    service: Any = Busy()
    stopped = asyncio.Event()
    recorder = Recorder(service, service.store, service.counters, service.clock, stopped)
    known = GroupLag("h", "events", 0, "1", 5)
    unknown = GroupLag("g", "events", 1, "1", None)
    lags = Lags([*(await service.lag()).partitions, unknown, known])
    monkeypatch.setattr(service, "lag", AsyncMock(return_value=lags))
    assert await recorder._lag() is None
    assert recorder._lags == {"h": 5}
    monkeypatch.setattr(service, "lag", AsyncMock(return_value=Lags([known], ["away"])))
    assert await recorder._lag() is None
    assert recorder._lags == {"h": 5}
    monkeypatch.setattr(service, "lag", AsyncMock(return_value=Lags([known])))
    assert await recorder._lag() == 5
    failing = AsyncMock(side_effect=StoreUnavailable("slow"))
    monkeypatch.setattr(service.store.pulled, "count_all", failing)
    with pytest.raises(StoreUnavailable):
        await recorder._lag()
    assert recorder._lags == {}


class Busy(FakeTopicsService):
    """A made-up service that has something to tell."""

    installation, roles = "shop", ("gateway", "worker")

    async def lag(self) -> Lags:
        lags = [(0, 7), (2, 3)]
        return Lags([GroupLag("g", "events", number, "1", each) for number, each in lags])


class OwnTime:
    """Real, and counted from 0."""

    def __init__(self) -> None:
        self.loop = asyncio.get_running_loop()

    def now(self) -> float:
        return self.loop.time()

    monotonic = now


@asynccontextmanager
async def recording(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[tuple[Busy, Recorder]]:
    """A hundred times as fast."""
    monkeypatch.setattr(recording_of, "LIVE", 0.01)
    monkeypatch.setattr(recording_of, "EVERY", 0.1)
    service: Any = Busy()
    service.clock = OwnTime()
    stopped = asyncio.Event()
    recorder = Recorder(service, service.store, service.counters, service.clock, stopped)
    task = asyncio.create_task(recorder.run())
    yield service, recorder
    stopped.set()
    await task


async def test_the_ring_holds_its_points_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each has every member that its description names."""
    monkeypatch.setattr(recording_of, "POINTS", 3)
    async with recording(monkeypatch) as (_, recorder):
        await until(lambda: len(recorder.points) == 3)
        first = recorder.points[0]
        await until(lambda: recorder.points[0] is not first)
        assert len(recorder.points) == 3
        times = [each["at"] for each in recorder.points]
    assert times == sorted(times)
    point = Point.model_validate(first, strict=True)
    assert first.keys() == Point.model_fields.keys()
    assert (point.lag, point.parked, point.dead_letters) == (10, 0, 0)
    assert point.rss_bytes is not None
    assert point.rss_bytes > os.sysconf("SC_PAGE_SIZE") * 1000


def test_a_subscription_has_a_history_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """Within the bounds of a subscription and of all."""
    monkeypatch.setattr(subscription_history, "POINTS", 3)
    monkeypatch.setattr(subscription_history, "MOST", 4)
    kept, counters = SubscriptionHistories(), Counters()
    for second in range(4):
        counters.add("deliveries", "billing", "delivered", by=5)
        counters.add("deliveries", "billing", "dead-lettered")
        counters.add("answers", "billing", "204", by=5)
        kept.add(float(second), counters, {"group": second})
    last = kept.of("billing")[-1]
    assert (last.at, last.delivered, last.answers) == (3.0, 20, {"204": 20})
    assert [each.at for each in kept.of("billing")] == [1.0, 2.0, 3.0]
    assert kept.lags_of("group")[-1] == (3.0, 3)
    counters.add("answers", "audit", "503")
    kept.add(4.0, counters, {})
    assert [each.at for each in kept.of("billing")] == [3.0, 4.0]
    assert kept.of("unknown") == kept.lags_of("unknown") == ()


async def test_who_follows_gets_each_point_until_the_stop(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two watch; one leaves; without watchers nothing is computed each second."""
    async with recording(monkeypatch) as (service, recorder):
        mine, others = recorder.follow(), recorder.follow()
        first = await anext(mine)
        assert first["received"] == 0.0
        await anext(others)
        await others.aclose()
        service.counters.add("events_received", "binary", by=10)
        seen = 0.0
        while not seen:
            seen = float(str((await anext(mine))["received"]))
        assert seen > 0
        assert recorder._watchers == 1
        ending = asyncio.create_task(_rest(mine))
        recorder._stopped.set()
        await asyncio.wait_for(ending, 60)
    assert recorder._watchers == 0


async def _rest(points: Any) -> None:
    async for _ in points:
        pass
