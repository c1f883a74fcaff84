"""An operator requests tries before they are due (``:retry``), by the clock of the test."""

from __future__ import annotations

import pytest

from app.interfaces import RetryRequest, RetryResult, SinkAnswer
from waiting import until
from worker_doubles import OK, an_event

DOWN = SinkAnswer(None, "connect", "refused")
FAILS = SinkAnswer(500)


async def retry(rig, **request):
    return await rig.dispatcher.retry(RetryRequest(**request))


async def test_a_pause_of_the_breaker_ends_at_once_and_a_failed_probe_restores_it(rig):
    rig.sink.default = DOWN
    await rig.publish(an_event(0, "a"), an_event(1, "b"))
    await rig.begin(concurrency=1)
    for _ in range(8):  # the pauses double, up to a minute
        await until(lambda: rig.status.paused_for)
        await rig.clock.advance(rig.status.paused_for)
    await until(lambda: (rig.status.paused_for or 0) > 30)
    before, tries = rig.status.paused_for, len(rig.sink.answered)
    for pressed in range(1, 4):
        assert await retry(rig) == RetryResult(keys=2, probe=True)
        await until(lambda pressed=pressed: len(rig.sink.answered) == tries + pressed)
        await until(lambda: rig.status.paused_for == pytest.approx(before))
    rig.sink.default = OK
    await retry(rig)
    await rig.committed(2)
    assert rig.status.state == "running"


@pytest.mark.parametrize("late", [DOWN, SinkAnswer(503, retry_after="3600")])
async def test_a_request_while_a_probe_hangs_is_not_lost(rig, late):
    """The target hung, was repaired, and then the probe of before was given up: the events flow at once."""
    rig.sink.default = DOWN
    await rig.publish(an_event(0, "a"))
    await rig.begin()
    for _ in range(8):  # the pauses double, up to a minute
        await until(lambda: rig.status.paused_for)
        await rig.clock.advance(rig.status.paused_for)
    await until(lambda: (rig.status.paused_for or 0) > 30)
    rig.sink.hold(0)
    await rig.clock.advance(60)
    await until(lambda: rig.sink.flying == 1)
    rig.sink.answer(0, late)
    rig.sink.default = OK
    assert (await retry(rig, force=True)).probe
    rig.sink.release(0)
    await rig.committed(1)


async def in_second_attempt(rig, hold):
    """Let the second attempt of the only event hang. The wait after it would be an hour."""
    rig.sink.default = FAILS
    await rig.publish(an_event(0, "a"))
    await rig.begin(retry={"schedule": ["1s", "1h"], "hold": hold})
    await until(lambda: rig.status.waiting == 1)
    rig.sink.hold(0)
    await rig.clock.advance(1)
    await until(lambda: rig.sink.flying == 1)


@pytest.mark.parametrize("hold", [1, 2], ids=["would park", "would wait in memory"])
async def test_a_request_during_an_attempt_that_hangs_is_not_lost(rig, hold):
    """The attempt began before the target was repaired; when it fails, the event is tried at once."""
    await in_second_attempt(rig, hold)
    rig.sink.answer(0, FAILS)
    rig.sink.default = OK
    assert await retry(rig) == RetryResult(keys=1)
    rig.sink.release(0)
    await rig.committed(1)
    assert rig.sink.answered == ["0"] * 3


@pytest.mark.parametrize("hold", [1, 2], ids=["would park", "would wait in memory"])
async def test_the_try_after_an_attempt_that_hung_takes_no_step(rig, hold):
    await in_second_attempt(rig, hold)
    assert (await retry(rig)).keys == 1
    rig.sink.release(0)
    await until(lambda: len(rig.sink.answered) == 3)
    await until(lambda: rig.status.waiting == 1 or rig.store.parked.rows_by_id)
    await rig.clock.advance(1_799)  # the second wait, with the jitter of the test
    assert len(rig.sink.answered) == 3
    assert rig.store.letters.rows == []
    await rig.clock.advance(2)
    await until(lambda: len(rig.store.letters.rows) == 1)


@pytest.mark.parametrize("mended", [True, False])
async def test_a_request_during_the_requested_try_of_a_parked_event_is_not_lost(rig, mended):
    rig.sink.default = FAILS
    await rig.publish(an_event(0, "a"))
    await rig.begin(retry={"schedule": ["1s", "1h"], "hold": 1})
    await until(lambda: rig.status.waiting == 1)
    await rig.clock.advance(1)
    await until(lambda: rig.store.parked.rows_by_id)
    rig.sink.hold(0)
    await retry(rig)
    await until(lambda: rig.sink.flying == 1)
    assert (await retry(rig)).keys == 1
    rig.sink.answer(0, FAILS)
    rig.sink.default = OK if mended else FAILS
    rig.sink.release(0)
    await until(lambda: len(rig.sink.answered) == 4)
    await until(lambda: len(rig.store.parked.rows_by_id) == (0 if mended else 1))
    assert rig.store.letters.rows == []


async def test_tries_start_slowly_and_take_no_step(rig):
    """All keys fail their second try on schedule; the requested ones go out one by one until one is answered."""
    rig.sink.default = FAILS
    await rig.publish(an_event(0, "a"), an_event(1, "b"))
    await rig.begin(retry={"schedule": ["1h"], "hold": 1})
    await until(lambda: rig.status.waiting == 2)
    for pressed in range(1, 6):
        assert (await retry(rig)).keys == 2
        await until(lambda pressed=pressed: len(rig.sink.answered) == 2 + 2 * pressed)
        await until(lambda: rig.status.waiting == 2)
    assert rig.store.letters.rows == []
    await rig.clock.advance(1_800)  # the scheduled time, with the jitter of the test
    await until(lambda: len(rig.store.letters.rows) == 2)


async def test_the_event_that_is_asked_for_is_the_probe(rig):
    rig.sink.default = SinkAnswer(503, retry_after="3600")
    await rig.publish(an_event(0, "a"), an_event(1, "b"))
    await rig.begin(concurrency=2)
    await until(lambda: rig.status.paused_for)
    await until(lambda: not rig.status.in_flight)
    tries = len(rig.sink.answered)
    waits = await retry(rig, event="1")
    assert (waits.keys, waits.probe, waits.retry_after) == (1, False, pytest.approx(3_600, abs=1))
    assert (await retry(rig, event="1", force=True)).probe
    await until(lambda: len(rig.sink.answered) == tries + 1)
    assert rig.sink.answered[-1] == "1"


async def test_a_halted_subscription_tries_nothing(rig):
    rig.sink.default = FAILS
    await rig.publish(an_event(0, "a"))
    await rig.begin(retry={"schedule": ["1h"], "hold": 1})
    await until(lambda: rig.status.waiting == 1)
    rig.dispatcher.pause("by the test")
    assert await retry(rig) == RetryResult()
    assert rig.status.waiting == 1
