"""An event like that of asyncio which needs little memory until a task waits for it.

``asyncio.Event`` has a deque of 760 bytes from the start. A subscription has seven events, and a process may have
thousands of subscriptions (ADR 0055).
"""

from __future__ import annotations

import asyncio


class LightEvent:
    """A flag that tasks of one event loop wait for, with the methods of ``asyncio.Event``."""

    __slots__ = ("_set", "_waiters")

    def __init__(self) -> None:
        self._set = False
        self._waiters: list[asyncio.Future[None]] | None = None

    def is_set(self) -> bool:
        """Return True if the flag is set."""
        return self._set

    def set(self) -> None:
        """Set the flag, and wake all tasks that wait."""
        self._set = True
        for each in self._waiters or ():
            if not each.done():
                each.set_result(None)

    def clear(self) -> None:
        """Reset the flag. Tasks that ``set`` has woken still return from ``wait``."""
        self._set = False

    async def wait(self) -> bool:
        """Wait until the flag is set, and return True."""
        if self._set:
            return True
        future = asyncio.get_running_loop().create_future()
        waiters = self._waiters = self._waiters or []
        waiters.append(future)
        try:
            await future
        finally:
            waiters.remove(future)
        return True


AnyEvent = asyncio.Event | LightEvent
