"""Handle SIGINT, SIGTERM and SIGHUP. The first SIGINT or SIGTERM requests an orderly stop, and the second
ends the process. SIGHUP makes a service read its file again.

Ending at once is safe, because acknowledged events are already stored on disk.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncGenerator, AsyncIterator
from typing import Self, TypeVar

T = TypeVar("T")

_NUMBERS = (signal.SIGINT, signal.SIGTERM)


class Signals:
    """A context that handles signals: ``with Signals() as signals: await signals.asked.wait()``.

    With ``rereads``, SIGHUP sets ``hung_up`` instead of ending the process, unless the terminal was closed.
    """

    def __init__(self, *, rereads: bool = False) -> None:
        self.asked = asyncio.Event()
        self.hung_up = asyncio.Event()
        self._rereads = rereads
        self._terminal = has_terminal()
        self._loop = asyncio.get_running_loop()

    def leave(self) -> None:
        """Request a stop, as a signal would."""
        self.asked.set()

    def __enter__(self) -> Self:
        for number in _NUMBERS:
            self._loop.add_signal_handler(number, self._on_signal)
        if self._rereads:
            self._loop.add_signal_handler(signal.SIGHUP, self._on_hang_up)
        return self

    def __exit__(self, *_: object) -> None:
        for number in _NUMBERS:
            self._loop.remove_signal_handler(number)
        if self._rereads:
            self._loop.remove_signal_handler(signal.SIGHUP)

    def _on_hang_up(self) -> None:
        """Request a stop if the terminal was closed, because the user then wants the service to end.
        Otherwise request a reload."""
        (self.asked if self._terminal and not has_terminal() else self.hung_up).set()

    def _on_signal(self) -> None:
        """Request a stop, and let the next signal end the process."""
        self.asked.set()
        for number in _NUMBERS:
            self._loop.remove_signal_handler(number)
            signal.signal(
                number, signal.SIG_DFL
            )  # so that a second one ends the process even if the loop hangs


def has_terminal() -> bool:
    """Return True if this process has a controlling terminal."""
    try:
        os.close(os.open("/dev/tty", os.O_RDWR | os.O_NOCTTY))
    except OSError:
        return False
    return True


async def until_asked(items: AsyncIterator[T], signals: Signals) -> AsyncGenerator[T, None]:
    """Yield ``items`` until they end or a signal requests a stop."""
    asked = asyncio.ensure_future(signals.asked.wait())
    try:
        while True:
            item = asyncio.ensure_future(anext(items, None))
            await asyncio.wait((item, asked), return_when=asyncio.FIRST_COMPLETED)
            if not item.done():
                item.cancel()
                await asyncio.wait((item,))
                return
            found = item.result()
            if found is None:
                return
            yield found
    finally:
        asked.cancel()
