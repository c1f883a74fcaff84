"""How a process begins under its parent, and how it notices that the parent is gone."""

from __future__ import annotations

import asyncio
import ctypes
import os
import signal
from collections.abc import Callable
from typing import NamedTuple

from app.runtime.processes.messages import Message
from app.runtime.processes.pipe import Pipe

PR_SET_PDEATHSIG = 1  # linux/prctl.h


class Child(NamedTuple):
    """``first``: none was there before it. ``raw``: the file that was taken up last, None where it was none
    since the start."""

    number: int
    parent: int
    pipe: Pipe
    first: bool
    raw: bytes | None = None

    def settle(self) -> None:
        """Signals come from the parent alone, as SIGTERM: a terminal sends SIGINT and SIGHUP to all of its
        processes. When the parent dies, this process does: nobody would replace it, or tell it to leave."""
        for number in (signal.SIGINT, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        if os.getppid() != self.parent:  # it died before we asked
            os._exit(1)

    def listen(self, take: Callable[[Message], None]) -> None:
        """From now on, on the running loop."""
        asyncio.get_running_loop().add_reader(self.pipe.fileno(), self._read, take)

    def _read(self, take: Callable[[Message], None]) -> None:
        messages = self.pipe.receive()
        if messages is None:
            os._exit(1)  # the parent is gone
        for message in messages:
            take(message)
