"""Pause the reading of a connection for several reasons. Reading resumes when no reason is left."""

from __future__ import annotations

import asyncio

APPLICATION = 1  # the application of an ASGI request has not taken the body yet
PIPELINE = 2  # the most allowed requests are in work
UNREAD = 4  # the client does not read its answers


class ReadPauses:
    """A flow control with several reasons to pause reading. It replaces the flow control of uvicorn.

    uvicorn calls ``pause_reading`` and ``resume_reading``, which count as the reason APPLICATION
    alone.
    """

    def __init__(self, transport: asyncio.Transport) -> None:
        self.read_paused = False
        self.write_paused = False
        self._socket = transport
        self._holders = 0
        self._writable = asyncio.Event()
        self._writable.set()

    def hold(self, holder: int) -> None:
        """Pause reading for the reason ``holder``, one of several reasons that may apply together."""
        self._holders |= holder
        if not self.read_paused and not self._socket.is_closing():
            self.read_paused = True
            self._socket.pause_reading()

    def release(self, holder: int) -> None:
        """Remove the reason ``holder``, and resume reading if no reason is left."""
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
        """Wait until the client has read enough of its answers, or the connection has ended."""
        await self._writable.wait()
