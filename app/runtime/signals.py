"""The only owner of SIGINT and SIGTERM: the first asks to leave in order, the second ends at once.

Ending at once is safe: what was acknowledged is on the disk already (rule 1).
"""

from __future__ import annotations

import asyncio
import signal
from typing import Self


class Signals:
    """A context: ``with Signals() as signals: await signals.asked.wait()``."""

    def __init__(self) -> None:
        self.asked = asyncio.Event()
        self._loop = asyncio.get_running_loop()

    def leave(self) -> None:
        """As if a signal had come."""
        self.asked.set()

    def __enter__(self) -> Self:
        for number in (signal.SIGINT, signal.SIGTERM):
            self._loop.add_signal_handler(number, self._on_signal)
        return self

    def __exit__(self, *_: object) -> None:
        for number in (signal.SIGINT, signal.SIGTERM):
            self._loop.remove_signal_handler(number)

    def _on_signal(self) -> None:
        self.asked.set()
        for number in (signal.SIGINT, signal.SIGTERM):
            self._loop.remove_signal_handler(number)
            signal.signal(number, signal.SIG_DFL)  # a second one needs no loop that still turns
