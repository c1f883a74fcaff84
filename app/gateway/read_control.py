"""The holds on the reading of a connection: without any it goes on."""

from __future__ import annotations

import asyncio

from uvicorn.protocols.http.flow_control import FlowControl

APPLICATION = 1  # an ASGI request has a body that its application has not taken yet
PIPELINE = 2  # as many requests are in work as may be
UNREAD = 4  # the peer does not read its answers


class Flow(FlowControl):
    """uvicorn's flow control with more than one reason to pause.

    uvicorn's own ``pause_reading`` and ``resume_reading`` speak for the application alone.
    """

    def __init__(self, transport: asyncio.Transport) -> None:
        super().__init__(transport)
        self._holders = 0

    def hold(self, holder: int) -> None:
        self._holders |= holder
        if not self._transport.is_closing():
            super().pause_reading()

    def release(self, holder: int) -> None:
        self._holders &= ~holder
        if not self._holders and not self._transport.is_closing():
            super().resume_reading()

    def release_all(self) -> None:
        self.release(self._holders)

    def pause_reading(self) -> None:
        self.hold(APPLICATION)

    def resume_reading(self) -> None:
        self.release(APPLICATION)

    def pause_writing(self) -> None:
        super().pause_writing()
        self.hold(UNREAD)

    def resume_writing(self) -> None:
        super().resume_writing()
        self.release(UNREAD)
