"""The holds on the reading of a connection: without any it goes on."""

from __future__ import annotations

import asyncio

APPLICATION = 1  # an ASGI request has a body that its application has not taken yet
PIPELINE = 2  # as many requests are in work as may be
UNREAD = 4  # the peer does not read its answers


class Flow:
    """Flow control with more than one reason to pause, in place of uvicorn's own.

    ``pause_reading`` and ``resume_reading``, which uvicorn calls, speak for the application alone.
    """

    def __init__(self, transport: asyncio.Transport) -> None:
        self.read_paused = False
        self.write_paused = False
        self._socket = transport
        self._holders = 0
        self._writable = asyncio.Event()
        self._writable.set()

    def hold(self, holder: int) -> None:
        self._holders |= holder
        if not self.read_paused and not self._socket.is_closing():
            self.read_paused = True
            self._socket.pause_reading()

    def release(self, holder: int) -> None:
        self._holders &= ~holder
        if self.read_paused and not self._holders and not self._socket.is_closing():
            self.read_paused = False
            self._socket.resume_reading()

    def release_all(self) -> None:
        self.release(self._holders)

    def pause_reading(self) -> None:
        self.hold(APPLICATION)

    def resume_reading(self) -> None:
        self.release(APPLICATION)

    def pause_writing(self) -> None:
        self.write_paused = True
        self._writable.clear()
        self.hold(UNREAD)

    def resume_writing(self) -> None:
        self.write_paused = False
        self._writable.set()
        self.release(UNREAD)

    async def drain(self) -> None:
        """Wait until the peer has read enough of its answers, or the connection is gone."""
        await self._writable.wait()
