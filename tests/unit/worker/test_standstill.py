"""A worker that stood still sends nothing before it has read the store, where an operator may have paused a subscription."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from app.worker.standstill import TOLERATED, Standstill
from virtual_clock import VirtualClock
from waiting import until
from worker_doubles import an_event


@pytest.fixture
async def standstill(rig) -> AsyncIterator[Standstill]:
    found = Standstill(rig.clock)
    watching = asyncio.create_task(found.watch())
    await rig.clock.rest()
    yield found
    watching.cancel()


async def test_a_worker_that_stood_still_knows_of_a_pause_before_it_sends(rig, standstill):
    """Attempts of keys that were held in the meantime, and the next ones of a key, wait."""
    await rig.begin(standstill=standstill)
    await rig.publish(an_event(0))
    await rig.answered(0)
    rig.clock.stand_still(TOLERATED + 0.1)
    await rig.publish(an_event(1), an_event(2, "another"))
    await until(lambda: rig.status.held == 2)
    await rig.clock.advance(3)
    assert rig.sink.answered == ["0"]
    begun = standstill.begin_read()
    rig.dispatcher.pause("by an operator")
    standstill.end_read(begun)
    await rig.clock.advance(3)
    assert rig.sink.answered == ["0"]
    rig.dispatcher.enable()
    await rig.clock.advance(3)
    await rig.committed(3)


async def test_a_read_that_began_before_the_standstill_says_nothing_of_it(rig, standstill):
    begun = standstill.begin_read()
    rig.clock.stand_still(TOLERATED + 0.1)
    standstill.end_read(begun)
    assert standstill.unread(rig.clock.monotonic())
    await rig.clock.advance(1)
    assert standstill.noticed.is_set(), "so that the store is read at once"
    assert standstill.unread(rig.clock.monotonic())
    standstill.end_read(standstill.begin_read())
    assert not standstill.unread(rig.clock.monotonic())
    assert not standstill.noticed.is_set()


async def test_a_busy_process_does_not_stand_still(rig, standstill):
    rig.clock.stand_still(TOLERATED)
    assert not standstill.unread(rig.clock.monotonic())
    await rig.clock.advance(600)
    assert not standstill.unread(rig.clock.monotonic())


def test_nothing_stands_still_that_nobody_watches():
    """A spool's mirror has no commands in the store, so it has nothing to read."""
    clock = VirtualClock()
    found = Standstill(clock)
    clock.stand_still(60)
    found.end_read(found.begin_read())
    assert not found.unread(clock.monotonic())
