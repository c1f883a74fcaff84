"""Waiting for something to happen, but not for ever."""

from __future__ import annotations

import asyncio

from app.interfaces import Clock


async def happened(event: asyncio.Event, clock: Clock, seconds: float | None) -> bool:
    """Whether ``event`` was set before ``seconds`` were over; None waits without end."""
    if seconds is None:
        return await event.wait()
    if event.is_set() or seconds <= 0:
        return event.is_set()
    set_ = asyncio.ensure_future(event.wait())
    over = asyncio.ensure_future(clock.sleep(seconds))
    try:
        await asyncio.wait((set_, over), return_when=asyncio.FIRST_COMPLETED)
    finally:
        set_.cancel()
        over.cancel()
    return event.is_set()
