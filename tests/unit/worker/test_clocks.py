"""Rule 5 by clocks that differ: what a process with another clock parked comes first all the same."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from parking_steps import AT_ONCE, BUSY, parked_numbers, rows
from virtual_clock import VirtualClock
from waiting import until
from worker_doubles import an_event

MINUTE, HOUR = 60.0, 3600.0
STEPS = [(MINUTE, 0.0), (0.0, MINUTE), (MINUTE, -MINUTE)]


@pytest.fixture
def rig(rig):
    """On a log that has no lasting positions, as queues of RabbitMQ."""
    rig.log.capabilities = replace(rig.log.capabilities, positions=False)
    return rig


@pytest.mark.parametrize(("first", "second"), STEPS)
async def test_what_the_process_before_parked_comes_first_whatever_its_clock(rig, first, second):
    """A worker whose clock is ahead parks a key and dies: later events of that key go behind."""
    rig.sink.answer(0, BUSY)
    rig.clock.ahead = first
    await rig.publish(an_event(0, "a"), an_event(1, "a"))
    await rig.begin(retry=AT_ONCE)
    await until(lambda: parked_numbers(rig) == [0, 1])
    await rig.kill()
    rig.clock.ahead = second
    await rig.publish(an_event(2, "a"))
    await rig.begin(retry=AT_ONCE)
    await until(lambda: len(rig.store.parked.rows_by_id) == 3)
    assert parked_numbers(rig) == [0, 1, 2]
    await rig.clock.advance(2 * 3600)
    await rig.answered(0, 0, 1, 2)


async def test_the_time_of_the_next_attempt_is_by_the_clock_of_the_store(rig):
    """The worker that parks a key and the worker that tries it again may have clocks an hour apart."""
    rig.sink.answer(0, BUSY)
    rig.store.clock = VirtualClock()
    rig.clock.ahead = HOUR
    await rig.publish(an_event(0, "a"))
    await rig.begin(retry={"schedule": ["1h"], "hold": 0})
    await until(lambda: parked_numbers(rig) == [0])
    (row,) = rows(rig)
    assert 0 < row.due_ms - rig.store.clock.now() * 1000 <= HOUR * 1000
    await rig.kill()
    rig.clock.ahead = -HOUR
    await rig.begin(retry={"schedule": ["1h"], "hold": 0})
    await rig.clock.advance(HOUR)
    await rig.answered(0, 0)


async def test_attempts_have_the_time_of_the_store(rig):
    """They are stored, and any worker deletes what is older than the retention."""
    rig.store.clock = VirtualClock()
    rig.clock.ahead = 8 * 24 * HOUR
    await rig.publish(an_event(0, "a"))
    await rig.begin()
    await rig.answered(0)
    (attempt,) = rig.attempts.recent(10)
    assert abs(attempt.started_ms / 1000 - rig.store.clock.now()) < 1


async def test_the_age_of_an_event_in_its_log_is_by_the_clock_of_the_machine(rig):
    """Logs have their times from the processes that publish, not from the server of the store."""
    rig.store.clock = VirtualClock()
    rig.store.clock.ahead = 2 * HOUR
    rig.log.now_ms = int(rig.clock.now() * 1000)
    await rig.publish(an_event(0, "a"))
    await rig.begin(max_age="1h")
    await rig.answered(0)


async def test_a_clock_that_steps_back_changes_no_order(rig):
    rig.sink.answer(0, BUSY)
    await rig.begin(retry=AT_ONCE)
    for number in range(3):
        await rig.publish(an_event(number, "a"))
        await until(lambda number=number: parked_numbers(rig) == [*range(number + 1)])
        rig.clock.ahead -= MINUTE
    await rig.clock.advance(2 * 3600)
    await rig.answered(0, 0, 1, 2)
