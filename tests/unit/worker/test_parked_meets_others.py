"""Parked rows meet what else is on its way: what is replayed, partitions that come and go."""

from __future__ import annotations

import asyncio

import pytest
from msgspec.structs import replace

from app.errors import StoreUnavailable
from app.interfaces import Replay
from app.model.message import Partition
from app.routing.partitions import partition_of
from app.worker.budget import Budget
from parking_steps import AT_ONCE, BUSY, park_across, park_and_refuse, parked_numbers, rows
from waiting import until
from worker_doubles import an_event

ORDERS = Partition("orders", 0)
GROUP = "skybridge.test.billing"
SOON = {"schedule": ["10s"] * 9, "hold": 0}


@pytest.fixture(autouse=True)
def virtual_polls(rig):
    rig.log.clock = rig.clock


async def replay(rig, begin, end):
    asked = Replay(
        subscription="billing", broker="log", partition=ORDERS, next=str(begin), until=str(end)
    )
    await rig.store.replays.ask([asked])
    rig.dispatcher.look()
    await rig.clock.advance(1)


def slow(rig, seconds=1.0):
    """Reads of rows take their time from now on; how many there were."""
    read, reads = rig.store.parked.rows, []

    async def later(*given, **named):
        reads.append(given)
        found = await read(*given, **named)
        await rig.clock.sleep(seconds)
        return found

    rig.store.parked.rows = later
    return reads


async def test_what_is_replayed_behind_a_parked_head_that_fails_is_not_forgotten(rig):
    """A replay ends when all of its range is delivered or kept, not when it is dropped with a lane."""
    await rig.publish(an_event(0, "a"), an_event(1, "b"), an_event(2, "a"))
    await rig.begin(retry=SOON)
    await until(lambda: len(rig.sink.answered) == 3)
    rig.sink.answer(3, BUSY, BUSY)
    await rig.publish(an_event(3, "a"))
    await rig.clock.advance(1)
    assert parked_numbers(rig) == [3]
    rig.sink.hold(3)
    await rig.clock.advance(10)
    assert rig.sink.ids[-1] == "3"
    await replay(rig, 0, 3)
    rig.sink.release(3)
    await rig.clock.advance(60)
    assert await rig.store.replays.all() == []
    assert [rig.sink.answered.count(name) for name in ("0", "1", "2", "3")] == [2, 2, 2, 3]
    assert (rows(rig), rig.status.held) == ([], 0)


async def test_rows_behind_a_replayed_event_that_parks_keep_their_order(rig):
    """Rule 5: the lane is drained from its beginning again, not on from where it was read."""
    await rig.publish(an_event(0, "a"))
    await rig.begin(retry=SOON)
    await rig.answered(0)
    rig.sink.answer(1, BUSY)
    await rig.publish(*(an_event(n, "a") for n in range(1, 6)))
    await until(lambda: parked_numbers(rig) == [1, 2, 3, 4, 5])
    rig.sink.hold(0)
    rig.sink.answer(0, BUSY)
    await replay(rig, 0, 1)
    assert rig.sink.ids[-1] == "0"
    await rig.clock.advance(10)
    rig.sink.release(0)
    await rig.clock.advance(60)
    assert [name for name in rig.sink.answered[2:] if name != "0"] == ["1", "2", "3", "4", "5"]


async def test_rows_of_a_partition_that_comes_back_keep_their_order_behind_live_ones(rig):
    """Rules 3 and 5: a lane that an attribute orders is live in one partition, parked in the other."""
    await rig.log.create_topic("orders", 2)
    for number in range(6):
        rig.sink.answer(number, BUSY)
    await rig.publish(*(an_event(n, f"k{n}", subject="s") for n in range(6)))
    await rig.begin(order_by="subject", retry={"schedule": ["10s"] * 50, "hold": 0})
    await until(lambda: len(rows(rig)) == 6)
    rig.log.lose(GROUP, [ORDERS])
    rig.sink.script.clear()
    await rig.clock.advance(20)
    left = parked_numbers(rig)
    assert len(left) > 1
    assert rig.status.parked_keys == 0
    elsewhere = next(key for key in map(str, range(99)) if partition_of(key.encode(), 2) == 1)
    rig.sink.hold(10)
    await rig.publish(*(an_event(n, elsewhere, subject="s") for n in range(10, 14)))
    await rig.clock.advance(1)
    assert rig.sink.ids[-1] == "10"
    rig.log.give(GROUP, [ORDERS])
    await rig.clock.advance(1)
    rig.sink.answer(10, BUSY)
    rig.sink.release(10)
    await rig.clock.advance(100)
    later = list(map(int, rig.sink.answered[rig.sink.answered.index("10") :]))
    assert [number for number in later if number in left] == left
    assert [number for number in later if number > 9] == [10, 10, 11, 12, 13]
    assert (rows(rig), rig.status.held) == ([], 0)


async def test_a_partition_that_goes_while_its_rows_are_read_leaves_the_others_at_work(rig):
    """Neither the subscription nor a processor is spent on rows that are somebody else's now."""
    await park_across(rig, 2)
    rig.sink.script.clear()
    reads = slow(rig)
    await rig.clock.advance(1800.6)
    read_first = reads[0][2]
    rig.log.lose(GROUP, [read_first])
    await rig.clock.advance(60)
    assert not rig.task.done()
    assert len(rig.status.partitions) == 1
    assert {row.message.partition for row in rows(rig)} == {read_first}
    assert rig.status.parked_keys == 0
    assert len(reads) < 20


async def test_rows_that_land_while_a_partition_is_handed_over_are_not_sent_again(rig):
    """Nothing comes twice without a fault: a revocation waits for what is on the wire, parked or not."""
    rig.sink.answer(0, BUSY)
    await rig.publish(an_event(0, "a"), an_event(1, "a"))
    await rig.begin(retry=AT_ONCE)
    await until(lambda: parked_numbers(rig) == [0, 1])
    rig.sink.hold(0)
    await rig.clock.advance(1801)
    assert rig.sink.ids == ["0", "0"]
    rig.log.revoke(GROUP, [ORDERS])
    await rig.clock.advance(1)
    rig.sink.release(0)
    await rig.clock.advance(6)
    rig.log.give(GROUP, [ORDERS])
    await rig.clock.advance(5)
    assert rig.sink.answered == ["0", "0", "1"]


async def test_what_is_being_parked_while_a_partition_is_handed_over_is_finished(rig):
    """It is a row then: the next owner need not take it from the log again."""
    park = rig.store.parked.park

    async def later(given, **how):
        await rig.clock.sleep(1.0)
        await park(given, **how)

    rig.store.parked.park = later
    rig.sink.answer(0, BUSY)
    await rig.publish(an_event(0, "a"), an_event(1, "a"))
    await rig.begin(retry=AT_ONCE)
    await rig.answered(0)
    await rig.clock.advance(0.5)
    rig.log.revoke(GROUP, [ORDERS])
    await rig.clock.advance(3)
    assert parked_numbers(rig) == [0, 1]
    assert rig.log.committed(GROUP, ORDERS) == 2


async def test_keys_park_again_after_the_store_was_away_and_the_partition_with_it(rig):
    """Nobody is left who could find out that the store is back: it is not held to be away for ever."""
    rig.sink.default = BUSY
    rig.store.failures.extend([StoreUnavailable("away")] * 2)
    await rig.publish(an_event(0, "a"))
    await rig.begin(retry=AT_ONCE)
    await until(lambda: "cannot be parked" in rig.status.cause)
    rig.log.lose(GROUP, [ORDERS])
    await rig.clock.advance(5)
    rig.store.failures.clear()
    rig.log.give(GROUP, [ORDERS])
    await rig.clock.advance(5)
    assert parked_numbers(rig) == [0]
    assert rig.status.cause == ""


async def test_an_end_waits_for_the_rows_that_go_and_no_longer(rig):
    """SIGTERM is answered when all is said, not when the drain is over (rule 11)."""
    rig.sink.answer(0, BUSY)
    await rig.publish(an_event(0, "a"))
    await rig.begin(retry=AT_ONCE)
    await until(lambda: parked_numbers(rig) == [0])
    rig.sink.hold(0)
    await rig.clock.advance(1801)
    unpark = rig.store.parked.unpark

    async def later(given, **how):
        await rig.clock.sleep(0.1)
        await unpark(given)

    rig.store.parked.unpark = later
    began = rig.clock.monotonic()
    stopping = asyncio.create_task(rig.dispatcher.stop(25.0))
    await rig.clock.advance(0.1)
    rig.sink.release(0)
    while not stopping.done():
        await rig.clock.advance(0.1)
    assert rows(rig) == []
    assert rig.clock.monotonic() - began < 2


async def test_rows_of_many_keys_are_held_a_few_at_a_time_when_they_are_large(rig):
    """Rule 8: what is drained is held in memory too, and all keys may be due at once."""
    keys, large = 8, b"x" * 200_000
    for number in range(keys):
        rig.sink.answer(number, BUSY)
    await rig.publish(*(an_event(n, f"k{n}") for n in range(keys)))
    followers = (an_event(n, f"k{n % keys}") for n in range(keys, keys * 60))
    await rig.publish(*(replace(each, body=large) for each in followers))
    await rig.begin(retry=AT_ONCE, concurrency=4)
    while rig.log.committed(GROUP, ORDERS) < keys * 60:
        await rig.clock.advance(0.1)
    rig.sink.hold(*range(keys, 2 * keys))
    await rig.clock.advance(1802)
    assert rig.status.held >= keys
    assert rig.dispatcher._budget.held <= keys * 2**18


async def test_live_events_are_the_probe_while_the_store_is_away(rig):
    """A parked head is tried first; one that cannot be read must not keep the others waiting."""
    await park_and_refuse(rig)

    async def away(*_, **__):
        raise StoreUnavailable("away")

    rig.store.parked.rows = away
    await rig.clock.advance(60)
    await rig.answered(0, 1, 1)


async def test_starts_that_fail_leave_the_shares_of_the_process(rig):
    """A store or broker that is away for a day must not be a thousand members more."""

    async def away():
        raise StoreUnavailable("away")

    rig.store.halts.all = away
    budget = Budget(deliveries=1_000)
    for _ in range(5):
        await rig.begin(budget=budget)
        await asyncio.wait([rig.task])
    assert isinstance(rig.task.exception(), StoreUnavailable)
    assert budget.deliveries.own == 1_000
