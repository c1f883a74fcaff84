"""The only owner of SIGINT and SIGTERM: the first asks to leave in order, the second ends at once.

Ending at once is safe: what was acknowledged is on the disk already (rule 1). A process that has a parent is
``patient``: the parent and whoever stops its group may both send SIGTERM, and ending at once is the parent's.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncGenerator, AsyncIterator
from typing import Self, TypeVar

T = TypeVar("T")


class Signals:
    """A context: ``with Signals() as signals: await signals.asked.wait()``."""

    def __init__(self, *, patient: bool = False) -> None:
        self.asked = asyncio.Event()
        self._numbers = (signal.SIGTERM,) if patient else (signal.SIGINT, signal.SIGTERM)
        self._patient = patient
        self._loop = asyncio.get_running_loop()

    def leave(self) -> None:
        """As if a signal had come."""
        self.asked.set()

    def __enter__(self) -> Self:
        for number in self._numbers:
            self._loop.add_signal_handler(number, self._on_signal)
        return self

    def __exit__(self, *_: object) -> None:
        for number in self._numbers:
            self._loop.remove_signal_handler(number)

    def _on_signal(self) -> None:
        self.asked.set()
        for number in () if self._patient else self._numbers:
            self._loop.remove_signal_handler(number)
            signal.signal(number, signal.SIG_DFL)  # a second one needs no loop that still turns


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
