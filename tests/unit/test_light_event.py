"""A light event does what an event of asyncio does. Both pass the same tests."""

from __future__ import annotations

import asyncio

import pytest

from app.telemetry.light_event import AnyEvent, LightEvent

pytestmark = pytest.mark.parametrize("make", [asyncio.Event, LightEvent])


async def test_it_wakes_all_who_wait(make: type[AnyEvent]) -> None:
    event = make()
    waiting = [asyncio.ensure_future(event.wait()) for _ in range(3)]
    await asyncio.sleep(0)
    assert not event.is_set()
    event.set()
    assert await asyncio.gather(*waiting) == [True] * 3
    assert event.is_set()


async def test_a_woken_task_returns_although_the_event_is_cleared(make: type[AnyEvent]) -> None:
    event = make()
    waiting = asyncio.ensure_future(event.wait())
    await asyncio.sleep(0)
    event.set()
    event.clear()
    assert await waiting is True
    assert not event.is_set()


async def test_it_does_not_wait_when_it_is_set(make: type[AnyEvent]) -> None:
    event = make()
    event.set()
    event.set()
    assert await event.wait() is True


async def test_a_cancelled_wait_leaves_the_others(make: type[AnyEvent]) -> None:
    event = make()
    given_up, waiting = (asyncio.ensure_future(event.wait()) for _ in range(2))
    await asyncio.sleep(0)
    given_up.cancel()
    event.set()
    assert await waiting is True
    with pytest.raises(asyncio.CancelledError):
        await given_up
    event.clear()
    again = asyncio.ensure_future(event.wait())
    await asyncio.sleep(0)
    event.set()
    assert await again is True
