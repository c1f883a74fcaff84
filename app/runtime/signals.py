"""The only owner of SIGINT and SIGTERM: the first asks to leave in order, the second ends at once. SIGHUP
makes a service read its file again.

Ending at once is safe: what was acknowledged is on the disk already (rule 1).
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
    """A context: ``with Signals() as signals: await signals.asked.wait()``. ``rereads``: SIGHUP sets ``hung_up``
    instead of ending the process, unless its terminal is gone."""

    def __init__(self, *, rereads: bool = False) -> None:
        self.asked = asyncio.Event()
        self.hung_up = asyncio.Event()
        self._rereads = rereads
        self._terminal = has_terminal()
        self._loop = asyncio.get_running_loop()

    def leave(self) -> None:
        """As if a signal had come."""
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
        """A user that closes the terminal of a service wants it to end."""
        (self.asked if self._terminal and not has_terminal() else self.hung_up).set()

    def _on_signal(self) -> None:
        self.asked.set()
        for number in _NUMBERS:
            self._loop.remove_signal_handler(number)
            signal.signal(number, signal.SIG_DFL)  # a second one needs no loop that still turns


def has_terminal() -> bool:
    """Whether there is one that this process belongs to."""
    try:
        os.close(os.open("/dev/tty", os.O_RDWR | os.O_NOCTTY))
    except OSError:
        return False
    return True


async def until_asked(items: AsyncIterator[T], signals: Signals) -> AsyncGenerator[T, None]:
    """``items`` to their end, or until somebody asks to leave."""
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
