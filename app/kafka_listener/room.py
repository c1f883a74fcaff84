"""How many bytes of requests all connections together may hold."""

from __future__ import annotations

import asyncio
from collections import deque
from types import TracebackType
from typing import Self


class Room:
    """First come, first served. One request passes at any time, however large, so that nobody waits for
    ever."""

    def __init__(self, bound: int) -> None:
        self._bound = bound
        self._waiting: deque[tuple[int, asyncio.Future[None]]] = deque()
        self.held = 0

    async def take(self, size: int) -> None:
        """Returns once there is room. Cancelled, nothing is taken."""
        if not self._waiting and self._fits(size):
            self.held += size
            return
        given: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        entry = (size, given)
        self._waiting.append(entry)
        try:
            await given
        except asyncio.CancelledError:
            if given.done() and not given.cancelled():
                self.give(size)
            elif entry in self._waiting:
                self._waiting.remove(entry)
                self._serve()
            raise

    def give(self, size: int) -> None:
        self.held -= size
        self._serve()

    def _fits(self, size: int) -> bool:
        return not self.held or self.held + size <= self._bound

    def _serve(self) -> None:
        while self._waiting and self._fits(self._waiting[0][0]):
            size, given = self._waiting.popleft()
            if not given.done():
                self.held += size
                given.set_result(None)


class Unread:
    """Bytes of records in answers that clients have not taken, over all connections. Nobody waits for them: an
    answer that finds no room is a small one."""

    def __init__(self, bound: int) -> None:
        self._bound = bound
        self.held = 0

    @property
    def left(self) -> int:
        return max(0, self._bound - self.held)


class Share:
    """What one request has of a room. Taken once: a request that holds some and waits for more would wait for
    others who do; it may be given back bit by bit, and is at the end."""

    def __init__(self, room: Room) -> None:
        self._room = room
        self._size = 0

    async def take(self, size: int) -> None:
        await self._room.take(size)
        self._size = size

    def keep(self, size: int) -> None:
        """No more than so much of it."""
        self._room.give(self._size - size)
        self._size = size

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.keep(0)
