"""Read requests from a connection, with time-outs for slow clients and a budget for memory."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, cast

from app.kafka_listener.node import KafkaListenerSettings
from app.kafka_listener.room import ByteBudget, Reservation, WaitLimit

MAX_OWN = 64 << 10
"""The bytes of unfinished requests that a connection may always have, however full the
budget is.
"""


class ClientReader(asyncio.StreamReader):
    """The stream reader of a client connection.

    ``ended`` is set when the client sends no more, even if not all bytes were read. ``heard`` is
    the loop time in seconds at which the last bytes arrived. ``buffered`` is the number of bytes
    that arrived and were not read.
    """

    def __init__(self, limit: int) -> None:
        loop = asyncio.get_running_loop()
        super().__init__(limit, loop)
        self.now = loop.time
        self.ended = asyncio.Event()
        self.heard = loop.time()
        self.buffered = 0
        self._is_reading: Callable[[], bool] = lambda: True

    def set_transport(self, transport: asyncio.BaseTransport) -> None:
        super().set_transport(transport)
        self._is_reading = cast("asyncio.ReadTransport", transport).is_reading

    def feed_data(self, data: Any) -> None:
        self.heard = self.now()
        self.buffered += len(data)
        super().feed_data(data)

    def feed_eof(self) -> None:
        super().feed_eof()
        self.ended.set()

    def set_exception(self, exc: Exception) -> None:
        super().set_exception(exc)
        self.ended.set()

    def is_stalled(self, size: int, progress: float) -> bool:
        """Return True if, for ``progress`` seconds, the client could have sent some of ``size``
        bytes but sent none."""
        if self.buffered >= size or not self._is_reading():
            return False
        return self.now() - self.heard >= progress

    def wait_limit(self, size: int, progress: float) -> WaitLimit:
        """Return the limit for a request that waits for budget: it may wait as long as the client
        keeps sending, or cannot send.
        """

        def check() -> None:
            if self.is_stalled(size, progress):
                raise TimeoutError

        return WaitLimit(progress, check)

    async def read_head(self, size: int) -> bytes:
        """Return ``size`` bytes, without a time-out. Raise IncompleteReadError."""
        head = await self.readexactly(size)
        self.buffered -= size
        return head

    async def read_whole(self, size: int, within: float, progress: float) -> bytes:
        """Return ``size`` bytes that arrive within ``within`` seconds, some of them in every
        ``progress`` seconds.

        Raise TimeoutError or IncompleteReadError.
        """
        until, quiet = self.now() + within, self.now() + progress
        while True:
            try:
                async with asyncio.timeout_at(min(until, quiet)):
                    found = await self.readexactly(size)  # consumes nothing if it is cancelled
            except TimeoutError:
                if self.now() >= until or self.is_stalled(size, progress):
                    raise
                quiet = max(self.heard + progress, self.now() + progress / 2)
            else:
                self.buffered -= size
                return found


class Frames:
    """Creates the request frames of one connection. Small requests never wait for budget, so that
    large ones cannot block them.
    """

    def __init__(
        self, reader: ClientReader, room: ByteBudget, settings: KafkaListenerSettings
    ) -> None:
        self.reader = reader
        self.room = room
        self.times = (settings.frame_timeout, settings.progress_timeout)
        self.own = 0  # bytes of frames that did not wait for budget

    def expect(self, size: int, owner: str) -> Frame:
        """Return a frame of ``size`` bytes that is about to arrive. ``owner`` is the user whose
        share of the budget it uses.
        """
        return Frame(self, size, owner)


class Frame:
    """The bytes of one request. They count in the budget from the announcement of their size until
    the request is handled."""

    __slots__ = ("_frames", "_own", "_share", "_size")

    def __init__(self, frames: Frames, size: int, owner: str) -> None:
        self._frames = frames
        self._size = size
        self._share = Reservation(frames.room, owner)
        self._own = size if frames.own + size <= MAX_OWN else 0
        if self._own:
            frames.own += size
            self._share.enter(size)

    async def read(self) -> bytes:
        """Return the bytes of the request. Raise TimeoutError if the client stops sending.

        A large request reserves its budget once its first part has arrived, so that an announced
        size alone reserves nothing.
        """
        reader, times, size = self._frames.reader, self._frames.times, self._size
        if self._own:
            return await reader.read_whole(size, *times)
        first = await reader.read_whole(min(size, MAX_OWN), *times)
        rest = size - len(first)
        await self._share.take(size, reader.wait_limit(rest, times[1]))
        return first + await reader.read_whole(rest, *times) if rest else first

    def release(self) -> None:
        """Give the budget of this request back."""
        self._frames.own -= self._own
        self._own = 0
        self._share.keep(0)
