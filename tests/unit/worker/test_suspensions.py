"""A worker that was suspended sends nothing before it has read the store, where an operator may have paused a subscription."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from app.worker.suspensions import TOLERATED, Suspensions
from virtual_clock import VirtualClock
from waiting import until
from worker_doubles import an_event


@pytest.fixture
async def suspensions(rig) -> AsyncIterator[Suspensions]:
    found = Suspensions(rig.clock)
    watching = asyncio.create_task(found.watch())
    await rig.clock.rest()
    yield found
    watching.cancel()


async def test_a_worker_that_was_suspended_knows_of_a_pause_before_it_sends(rig, suspensions):
    """Attempts of keys that were held in the meantime, and the next ones of a key, wait."""
    await rig.begin(suspensions=suspensions)
    await rig.publish(an_event(0))
    await rig.answered(0)
    rig.clock.suspend(TOLERATED + 0.1)
    await rig.publish(an_event(1), an_event(2, "another"))
    await until(lambda: rig.status.held == 2)
    await rig.clock.advance(3)
    assert rig.sink.answered == ["0"]
    begun = suspensions.begin_read()
    rig.dispatcher.pause("by an operator")
    suspensions.end_read(begun)
    await rig.clock.advance(3)
    assert rig.sink.answered == ["0"]
    rig.dispatcher.enable()
    await rig.clock.advance(3)
    await rig.committed(3)


async def test_a_read_that_began_before_the_suspension_says_nothing_of_it(rig, suspensions):
    begun = suspensions.begin_read()
    rig.clock.suspend(TOLERATED + 0.1)
    suspensions.end_read(begun)
    assert suspensions.unread(rig.clock.monotonic())
    await rig.clock.advance(1)
    assert suspensions.noticed.is_set(), "so that the store is read at once"
    assert suspensions.unread(rig.clock.monotonic())
    suspensions.end_read(suspensions.begin_read())
    assert not suspensions.unread(rig.clock.monotonic())
    assert not suspensions.noticed.is_set()


async def test_one_read_in_a_row_needs_another_one(suspensions, rig):
    """The turns of the event loop of an overloaded process may all be long. It must go on all the same."""
    for free in (False, True, False, True):
        begun = suspensions.begin_read()
        rig.clock.suspend(TOLERATED + 0.1)
        await rig.clock.advance(0)
        suspensions.end_read(begun)
        assert suspensions.unread(rig.clock.monotonic()) is not free


async def test_a_read_that_ends_late_hides_no_newer_one(suspensions, rig):
    late = suspensions.begin_read()
    rig.clock.suspend(TOLERATED + 0.1)
    suspensions.end_read(suspensions.begin_read())
    suspensions.end_read(late)
    assert not suspensions.unread(rig.clock.monotonic())


async def test_a_busy_process_is_not_suspended(rig, suspensions):
    rig.clock.suspend(TOLERATED)
    assert not suspensions.unread(rig.clock.monotonic())
    await rig.clock.advance(600)
    assert not suspensions.unread(rig.clock.monotonic())


def test_without_a_watch_there_are_no_suspensions():
    """A spool's mirror has no commands in the store, so it has nothing to read."""
    clock = VirtualClock()
    found = Suspensions(clock)
    clock.suspend(60)
    found.end_read(found.begin_read())
    assert not found.unread(clock.monotonic())
