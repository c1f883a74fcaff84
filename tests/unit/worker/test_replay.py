"""A range once more: through the lanes of live messages, beside them, and to its end."""

from __future__ import annotations

import asyncio

import pytest

from app.errors import PositionOutOfRange, StoreUnavailable
from app.interfaces import Replay, SinkAnswer
from waiting import until
from worker_doubles import OK, an_event

GROUP = "skybridge.test.billing"


@pytest.fixture
async def delivered(rig):
    """Ten events of three keys that were delivered, and finished."""
    await rig.begin()
    await rig.publish(*(an_event(n, f"k{n % 3}") for n in range(10)))
    await until(lambda: len(rig.sink.answered) == 10)
    await rig.committed(10)
    rig.sink.requests.clear()
    rig.sink.answered.clear()
    return rig


def a_range(orders, begin=0, until=10, **more):
    return Replay(
        subscription="billing", broker="log", partition=orders, next=str(begin), until=str(until),
        **more,
    )  # fmt: skip


async def ask(rig, *replays):
    await rig.store.replays.ask(replays)
    rig.dispatcher.look()


async def over(rig):
    """With the clock running on: a replay looks around once a second."""
    while await rig.store.replays.all():
        await rig.clock.advance(0.1)
        await asyncio.sleep(0)


async def test_a_range_is_delivered_once_more_in_order_per_key(delivered, orders):
    """Neither more nor less than asked for, and its row is gone when it is done."""
    rig = delivered
    await ask(rig, a_range(orders, 2, 8))
    await over(rig)
    assert sorted(map(int, rig.sink.answered)) == [2, 3, 4, 5, 6, 7]
    for key in range(3):
        of_key = [int(each) for each in rig.sink.answered if int(each) % 3 == key]
        assert of_key == sorted(of_key)


async def test_the_group_does_not_move(delivered, orders):
    """A replay is nothing that the group has to do with: not even a settle."""
    rig = delivered
    settled = list(rig.consumer.settled)
    await ask(rig, a_range(orders))
    await over(rig)
    assert rig.consumer.settled == settled
    assert rig.log.committed("skybridge.test.billing", orders) == 10


async def test_live_events_of_other_keys_do_not_wait_for_it(delivered, orders):
    rig = delivered
    rig.sink.hold(0)
    await ask(rig, a_range(orders, 0, 1))
    await until(lambda: rig.sink.flying == 1)
    await rig.publish(an_event(10, "k9"), an_event(11, "k0"))
    await until(lambda: rig.sink.answered == ["10"])
    assert rig.sink.ids == ["0", "10"], "one in flight a key, replayed or live"
    rig.sink.release(0)
    await until(lambda: rig.sink.answered == ["10", "0", "11"])


async def test_what_the_filters_do_not_want_is_not_sent(rig, orders):
    await rig.begin(filters=[{"exact": {"id": "3"}}])
    await rig.publish(*(an_event(n) for n in range(5)))
    await rig.committed(5)
    rig.sink.answered.clear()
    await ask(rig, a_range(orders, 0, 5))
    await over(rig)
    assert rig.sink.answered == ["3"]


async def test_after_a_kill_it_goes_on_and_loses_nothing(delivered, orders):
    """Lost 0; what was finished since the last note may come again (rule 2)."""
    rig = delivered
    await ask(rig, a_range(orders))
    rig.sink.hold(4, 5)
    await until(lambda: {"0", "1", "2", "3"} <= set(rig.sink.answered))
    await until(lambda: rig.sink.flying == 2)
    for _ in range(12):
        await rig.clock.advance(0.1)
    (row,) = await rig.store.replays.all()
    assert (row.next, row.done) == ("4", 4)
    await rig.kill()
    rig.sink.release(4, 5)
    rig.sink.answered.clear()
    await rig.begin()
    await over(rig)
    assert set(map(int, rig.sink.answered)) == {4, 5, 6, 7, 8, 9}


async def test_an_orderly_end_notes_how_far_it_is(delivered, orders):
    rig = delivered
    rig.sink.hold(6)
    await ask(rig, a_range(orders, 5, 10))
    await until(lambda: "5" in rig.sink.answered and rig.sink.flying == 1)
    stopping = asyncio.create_task(rig.dispatcher.stop(0.0))
    while not stopping.done():
        await rig.clock.advance(0.1)
    await rig.task
    (row,) = await rig.store.replays.all()
    assert row.next == "6"


async def test_it_can_be_cancelled(delivered, orders):
    """What is held still lands; nothing further is read."""
    rig = delivered
    (number,) = await rig.store.replays.ask([a_range(orders, rate=1.0)])
    rig.dispatcher.look()
    await until(lambda: rig.sink.answered == ["0"])
    await rig.store.replays.end(number)
    rig.dispatcher.look()
    for _ in range(50):
        await rig.clock.advance(0.1)
    assert rig.sink.answered in (["0"], ["0", "1"])


async def test_its_rate_is_kept(delivered, orders):
    rig = delivered
    begun = rig.clock.monotonic()
    await ask(rig, a_range(orders, 0, 5, rate=2.0))
    await over(rig)
    assert len(rig.sink.answered) == 5
    assert rig.clock.monotonic() - begun >= 4 / 2.0


async def test_a_failure_is_tried_again_like_any_other(delivered, orders):
    """The retries of the subscription: rule 7 knows no difference."""
    rig = delivered
    rig.sink.answer(1, SinkAnswer(409), OK)
    await ask(rig, a_range(orders, 1, 2))
    await over(rig)
    assert rig.sink.answered == ["1", "1"]


async def test_a_refusal_becomes_a_dead_letter_and_does_not_hold_it_up(delivered, orders):
    rig = delivered
    rig.sink.answer(1, SinkAnswer(415))
    await ask(rig, a_range(orders, 0, 3))
    await over(rig)
    assert [letter.cause for letter in rig.store.letters.rows] == ["status-415"]
    assert set(rig.sink.answered) == {"0", "1", "2"}


async def test_old_events_are_meant_whatever_their_age(rig, orders):
    """max_age is for events that waited too long; these were asked for."""
    rig.log.now_ms = 1_000
    await rig.begin(max_age="1h")
    await rig.publish(an_event(0))
    await rig.committed(1)
    assert rig.sink.answered == []
    await ask(rig, a_range(orders, 0, 1))
    await over(rig)
    assert rig.sink.answered == ["0"]


async def test_a_store_that_does_not_answer_only_delays_it(delivered, orders, monkeypatch):
    rig = delivered
    read = rig.store.replays.all
    failures = [StoreUnavailable("away"), StoreUnavailable("away")]

    async def flaky(subscription=None):
        if failures and subscription:
            raise failures.pop()
        return await read(subscription)

    monkeypatch.setattr(rig.store.replays, "all", flaky)
    await ask(rig, a_range(orders, 0, 2))
    await over(rig)
    assert sorted(rig.sink.answered) == ["0", "1"]


async def test_what_was_not_delivered_when_its_partition_was_taken_is_the_next_owners(
    delivered, orders
):
    """Rule 2: it is over when all of it is finished, not when nothing is held any more."""
    rig = delivered
    rig.sink.hold(3)
    await ask(rig, a_range(orders, 3, 10))
    await until(lambda: rig.sink.flying == 1 and {"4", "5", "7", "8"} <= set(rig.sink.answered))
    rig.log.revoke(GROUP, [orders])
    await until(lambda: rig.status.held == 1)
    rig.sink.release(3)
    await until(lambda: rig.status.partitions == ())
    assert [row.partition for row in await rig.store.replays.all()] == [orders]
    rig.log.give(GROUP, [orders])
    await over(rig)
    assert {"6", "9"} <= set(rig.sink.answered)


async def test_nothing_of_it_is_sent_while_its_partition_is_handed_over(delivered, orders):
    """Rule 11: what is on the wire has its time, and no more begins."""
    rig = delivered
    rig.sink.hold(0)
    await ask(rig, a_range(orders, rate=2.0))
    await until(lambda: rig.sink.flying == 1)
    rig.log.revoke(GROUP, [orders])
    await until(lambda: not rig.consumer.events)  # the revocation is known
    for _ in range(20):
        await rig.clock.advance(0.1)
        await asyncio.sleep(0.002)
    assert rig.status.partitions, "it is being handed over still"
    assert rig.sink.ids == ["0"]


@pytest.mark.parametrize(
    ("earliest", "expected"),
    [("5", "56789"), ("0", "23456789")],
    ids=["retention has dropped the first ones", "a broker does not have the last ones"],
)
async def test_it_never_goes_back(delivered, orders, monkeypatch, earliest, expected):
    """A broker that was cut off has too few messages, so the position was out of its range. The replay went back to the
    first message of the log."""
    rig = delivered
    whole = rig.log.read
    refusals = [PositionOutOfRange("not here", earliest=earliest, latest="1")]

    async def read(partition, start, until):
        if refusals:
            raise refusals.pop()
        async for message in whole(partition, start, until):
            yield message

    monkeypatch.setattr(rig.log, "read", read)
    await ask(rig, a_range(orders, 2, 10))
    await over(rig)
    assert sorted(map(int, rig.sink.answered)) == [*map(int, expected)]
