"""What a member tells beside messages: changes of ownership in their order, and why it ended."""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque

from app.model.message import Assigned, Lost, Revoked

Change = Assigned | Revoked | Lost


async def pause_for(event: asyncio.Event, longest: float) -> None:
    """Until the event, or for so many seconds."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(longest):
            await event.wait()


class Changes:
    """Between the task that shares queues and whoever polls. ``news`` is set by anything to look at."""

    def __init__(self) -> None:
        self.news = asyncio.Event()
        self._waiting: deque[Change] = deque()
        self._told: Change | None = None  # by the last poll
        self._revoking: Revoked | None = None
        self._dealt = asyncio.Event()
        self._failure: BaseException | None = None

    def add(self, change: Change) -> None:
        self._waiting.append(change)
        self.news.set()

    def fail(self, error: BaseException) -> None:
        """The next ``take`` raises it, once."""
        self._failure = error
        self.news.set()

    def take(self) -> Change | None:
        if self._failure is not None:
            failure, self._failure = self._failure, None
            raise failure
        if self._waiting:
            self._told = self._waiting.popleft()
            return self._told
        return None

    def dealt_with(self) -> None:
        """Whoever asks for the next one has dealt with the last."""
        if self._told is not None and self._told is self._revoking:
            self._dealt.set()
        self._told = None

    async def hand_over(self, revoked: Revoked, within: float) -> bool:
        """Tell, and wait until it is dealt with. False: it was not, in ``within`` seconds."""
        self._revoking = revoked
        self._dealt.clear()
        self.add(revoked)
        try:
            async with asyncio.timeout(within):
                await self._dealt.wait()
        except TimeoutError:
            return False
        finally:
            self._revoking = None
        return True

    def end(self) -> None:
        """Nobody waits any longer."""
        self.news.set()
        self._dealt.set()
