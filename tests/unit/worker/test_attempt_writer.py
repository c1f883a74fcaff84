"""The attempt log on its way into the store: batched, bounded, and never in a delivery's way."""

from __future__ import annotations

import asyncio
from collections import deque

import pytest
from msgspec.structs import replace

from app.errors import StoreUnavailable
from app.interfaces import Attempt, EventName, HttpExchange
from app.model.message import Partition
from app.telemetry import Counters
from app.worker import attempt_writer
from app.worker.attempt_writer import AttemptWriter
from virtual_clock import VirtualClock
from waiting import until

DAY = 86_400.0


class Rows:
    """Fills ``interfaces.Attempts`` as far as a keeper asks. ``gate``: closed, nothing is answered."""

    def __init__(self):
        self.rows = []
        self.latest = {}
        self.writes = 0
        self.trims = []
        self.forgotten = []
        self.surplus = 0
        self.failures = deque()
        self.gate = asyncio.Event()
        self.gate.set()

    async def add(self, attempts, latest=()):
        await self.gate.wait()
        if self.failures:
            raise self.failures.popleft()
        self.writes += 1
        self.rows += attempts
        self.latest.update({one.subscription: one for one in latest})

    async def trim(self, *, before_ms, most):
        self.trims.append((before_ms, most))
        return self.surplus

    async def forget_exchanges(self, *, since_ms, before_ms):
        self.forgotten.append((since_ms, before_ms))


class Rig:
    def __init__(self):
        self.rows = Rows()
        self.clock = VirtualClock()
        self.counters = Counters()
        self.keeper = None

    async def begin(self, keep="failures", most=1_000_000):
        self.keeper = AttemptWriter(
            self.rows,
            self.clock,
            self.counters,
            keep=keep,
            retention=7 * DAY,
            most=most,
        )
        await self.keeper.start()
        return self.keeper

    async def advance(self, seconds):
        """In steps, as time goes: each wait of the keeper begins when the one before is over."""
        for _ in range(int(seconds / 0.25) + 1):
            await self.clock.advance(0.25)

    @property
    def numbers(self):
        return [one.number for one in self.rows.rows]

    @property
    def dropped(self):
        return self.counters.total("attempts_dropped")


@pytest.fixture
async def rig():
    rig = Rig()
    yield rig
    if rig.keeper is not None:
        rig.keeper._task.cancel()


def tried(number, outcome="retry", subscription="billing"):
    return Attempt(
        subscription=subscription,
        partition=Partition("orders", 0),
        position="1",
        event=EventName("1", "/t"),
        number=number,
        started_ms=number,
        duration_ms=1.0,
        outcome=outcome,
    )


async def test_failures_are_written_in_batches(rig):
    """A sync a batch, not a sync an attempt: the store is that of dead letters too."""
    keeper = await rig.begin()
    for number in range(300):
        keeper.note(tried(number))
    await rig.advance(1)
    assert rig.numbers == list(range(300))
    assert rig.rows.writes == 1


async def test_of_successes_only_the_last_of_each_subscription_is_kept(rig):
    """``failures``: enough to see that it works again, at the price of a row a subscription."""
    keeper = await rig.begin()
    for number in range(50):
        keeper.note(tried(number, "delivered"))
        keeper.note(tried(number, "delivered", "mail"))
    await rig.advance(attempt_writer.LATEST_EVERY * 2)
    assert rig.rows.rows == []
    assert {name: one.number for name, one in rig.rows.latest.items()} == {
        "billing": 49,
        "mail": 49,
    }
    assert rig.rows.writes == 1


async def test_a_quiet_subscription_costs_no_writes(rig):
    """What is written already is not written again."""
    keeper = await rig.begin()
    keeper.note(tried(1, "delivered"))
    await rig.advance(attempt_writer.LATEST_EVERY * 4)
    assert rig.rows.writes == 1


async def test_a_success_that_comes_while_the_one_before_is_written_is_not_lost(rig):
    """The last success is the last one, not the last but one."""
    keeper = await rig.begin()
    keeper.note(tried(1, "delivered"))
    rig.rows.gate.clear()
    await rig.advance(attempt_writer.LATEST_EVERY * 2)
    keeper.note(tried(2, "delivered"))
    rig.rows.gate.set()
    await rig.advance(attempt_writer.LATEST_EVERY * 2)
    assert rig.rows.latest["billing"].number == 2


async def test_all_keeps_successes_as_rows(rig):
    """For whoever must prove each delivery."""
    keeper = await rig.begin(keep="all")
    for number, outcome in enumerate(["delivered", "retry", "delivered"]):
        keeper.note(tried(number, outcome))
    await rig.advance(1)
    assert rig.numbers == [0, 1, 2]
    assert rig.rows.latest == {}


async def test_a_full_memory_drops_and_counts(rig):
    """Rule 8: bounded, and what is lost is counted; noting never waits."""
    rig.rows.gate.clear()
    keeper = await rig.begin()
    for number in range(attempt_writer.QUEUE + 5):
        keeper.note(tried(number))
    assert rig.dropped == 5
    rig.rows.gate.set()
    await rig.advance(30)
    assert rig.numbers == list(range(attempt_writer.QUEUE))


async def test_a_store_in_trouble_is_asked_again_and_loses_nothing(rig):
    """Away for a moment must not make holes in what is looked at afterwards."""
    rig.rows.failures.extend([StoreUnavailable("busy"), StoreUnavailable("busy")])
    keeper = await rig.begin()
    keeper.note(tried(1))
    await rig.advance(1)
    keeper.note(tried(2))
    await rig.advance(10)
    assert rig.numbers == [1, 2]
    assert rig.dropped == 0


async def test_retention_and_cap_are_kept_and_what_goes_is_counted(rig):
    """Rule 8: a bound on rows, whose drops are counted (issue 6, 1)."""
    rig.rows.surplus = 17
    await rig.begin(most=1000)
    await rig.advance(attempt_writer.TRIM_EVERY + attempt_writer.LATEST_EVERY)
    (before, most), *_ = rig.rows.trims
    assert most == 1000
    assert abs(before / 1000 - (rig.clock.now() - 7 * DAY)) < attempt_writer.TRIM_EVERY
    assert rig.counters.total("attempts_trimmed") == 17 * len(rig.rows.trims)


async def test_headers_and_bodies_are_kept_for_a_day(rig):
    """Each attempt says until when; each turn of the upkeep covers what came in since the last."""
    keeper = await rig.begin()
    exchange = HttpExchange(line="POST / HTTP/1.1", headers=(), body=b"{}", size=2)
    keeper.note(replace(tried(1), exchange=exchange))
    await rig.advance(2 * (attempt_writer.TRIM_EVERY + attempt_writer.LATEST_EVERY))
    (row,) = rig.rows.rows
    assert row.exchange.until_ms == row.started_ms + int(DAY * 1000)
    first, second, *_ = rig.rows.forgotten
    assert first[0] == 0
    assert abs(first[1] / 1000 - (rig.clock.now() - DAY)) < 3 * attempt_writer.TRIM_EVERY
    assert second[0] < first[1] < second[1], "nothing is left between them"


async def test_many_rows_are_trimmed_before_the_minute_is_over(rig):
    """A storm must not overstep the cap for a minute."""
    keeper = await rig.begin(most=1000)
    for number in range(attempt_writer.AT_ONCE * 3):
        keeper.note(tried(number))
    await rig.advance(5)
    assert rig.rows.trims


async def test_a_stop_writes_what_waits(rig):
    """The reason of a stop is often in the last attempts."""
    keeper = await rig.begin()
    keeper.note(tried(1))
    keeper.note(tried(2, "delivered"))
    await keeper.stop(5.0)
    assert rig.numbers == [1]
    assert rig.rows.latest["billing"].number == 2


async def test_a_stop_does_not_wait_for_a_store_that_is_away(rig):
    """Rule 11: a way out is bounded; what is left is counted as dropped."""
    rig.rows.gate.clear()
    keeper = await rig.begin()
    keeper.note(tried(1))
    await keeper.stop(0.05)
    assert rig.dropped == 1


async def test_a_stop_ends_the_waits_of_a_writer(rig):
    """A store that failed a moment ago is not waited for by the clock."""
    rig.rows.failures.extend(StoreUnavailable("busy") for _ in range(20))
    keeper = await rig.begin()
    keeper.note(tried(1))
    await rig.advance(3)
    async with asyncio.timeout(60):
        await until(lambda: rig.rows.failures)
        await keeper.stop(60.0)


async def test_a_stop_does_not_wait_for_the_turn_of_the_last_successes(rig):
    """Rule 11: they wait five seconds for others, but not at the end."""
    keeper = await rig.begin()
    rig.rows.gate.clear()
    keeper.note(tried(1))
    await rig.advance(1)
    keeper.note(tried(2, "delivered"))
    stopping = asyncio.create_task(keeper.stop(60.0))
    await asyncio.sleep(0)
    rig.rows.gate.set()
    async with asyncio.timeout(30):
        await stopping
    assert rig.rows.latest["billing"].number == 2


async def test_bodies_and_headers_are_clipped_and_left_out_while_many_wait(rig, monkeypatch):
    """Rule 8: memory is bounded, whatever bodies and headers are: an answer may have a megabyte of them."""
    monkeypatch.setattr(attempt_writer, "WITH_BODIES", 1)
    keeper = await rig.begin()
    exchange = HttpExchange(
        line="POST / HTTP/1.1",
        headers=(("a", "1"),),
        body=b"x" * 9_000,
        size=9_000,
        answer_headers=(("a", "1"), ("b", "2" * 2**20), ("c", "3")),
    )
    for number in range(2):
        keeper.note(replace(tried(number), exchange=exchange))
    await rig.advance(1)
    assert [len(one.exchange.body) for one in rig.rows.rows] == [4_096, 0]
    assert [one.exchange.headers for one in rig.rows.rows] == [(("a", "1"),), ()]
    assert [one.exchange.answer_headers for one in rig.rows.rows] == [(("a", "1"),), ()]
    assert {one.exchange.size for one in rig.rows.rows} == {9_000}
