"""What arrives on a connection: frames that have to go on arriving, and the room that they take."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, cast

from app.kafka_listener.node import Settings
from app.kafka_listener.room import Patience, Room, Share

OWN = 64 << 10
"""Bytes of unfinished requests that a connection may have, however little room there is."""


class Incoming(asyncio.StreamReader):
    """``ended``: the client will send no more, whether or not all it sent has been read. ``heard``: when something
    of it arrived last, in seconds of the loop. ``buffered``: bytes that arrived and are not read."""

    def __init__(self, limit: int) -> None:
        loop = asyncio.get_running_loop()
        super().__init__(limit, loop)
        self.now = loop.time
        self.ended = asyncio.Event()
        self.heard = loop.time()
        self.buffered = 0
        self._reading: Callable[[], bool] = lambda: True

    def set_transport(self, transport: asyncio.BaseTransport) -> None:
        super().set_transport(transport)
        self._reading = cast("asyncio.ReadTransport", transport).is_reading

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
        """Whether nothing has arrived for ``progress`` seconds of ``size`` bytes that could have."""
        if self.buffered >= size or not self._reading():
            return False
        return self.now() - self.heard >= progress

    def patience(self, size: int, progress: float) -> Patience:
        """Return for how long a frame may wait for room: as long as ``size`` more bytes go on arriving, or are kept
        from it."""

        def check() -> None:
            if self.is_stalled(size, progress):
                raise TimeoutError

        return Patience(progress, check)

    async def read_head(self, size: int) -> bytes:
        """Return ``size`` bytes, whenever they arrive. Raises IncompleteReadError."""
        head = await self.readexactly(size)
        self.buffered -= size
        return head

    async def read_whole(self, size: int, within: float, progress: float) -> bytes:
        """Return ``size`` bytes that arrive within so many seconds, some of them in every ``progress`` seconds. Raises
        TimeoutError and IncompleteReadError."""
        until, quiet = self.now() + within, self.now() + progress
        while True:
            try:
                async with asyncio.timeout_at(min(until, quiet)):
                    found = await self.readexactly(size)  # cancelled, it takes nothing
            except TimeoutError:
                if self.now() >= until or self.is_stalled(size, progress):
                    raise
                quiet = max(self.heard + progress, self.now() + progress / 2)
            else:
                self.buffered -= size
                return found


class Frames:
    """The frames of one connection. Small ones never wait for room, so that whoever announces or sends large ones keeps
    nobody from asking."""

    def __init__(self, reader: Incoming, room: Room, settings: Settings) -> None:
        self.reader = reader
        self.room = room
        self.times = (settings.frame_timeout, settings.progress_timeout)
        self.own = 0  # bytes of frames that did not wait

    def expect(self, size: int, owner: str) -> Frame:
        """Return a frame of ``size`` bytes that is about to arrive; ``owner``: whose share it takes."""
        return Frame(self, size, owner)


class Frame:
    """One request, from its announcement until its work is done."""

    __slots__ = ("_frames", "_own", "_share", "_size")

    def __init__(self, frames: Frames, size: int, owner: str) -> None:
        self._frames = frames
        self._size = size
        self._share = Share(frames.room, owner)
        self._own = size if frames.own + size <= OWN else 0
        if self._own:
            frames.own += size
            self._share.enter(size)

    async def read(self) -> bytes:
        """Return its bytes. A large frame takes its room once its first part has arrived: what is only announced
        takes none. Raises TimeoutError for a frame that does not go on."""
        reader, times, size = self._frames.reader, self._frames.times, self._size
        if self._own:
            return await reader.read_whole(size, *times)
        first = await reader.read_whole(min(size, OWN), *times)
        rest = size - len(first)
        await self._share.take(size, reader.patience(rest, times[1]))
        return first + await reader.read_whole(rest, *times) if rest else first

    def release(self) -> None:
        """Give its room back."""
        self._frames.own -= self._own
        self._own = 0
        self._share.keep(0)
