"""What is done for all consumers of a log at once, so that a thousand of them at rest cost next to
nothing: one timer beats for every member, one commits the positions that moved by others' reading.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable


class Rounds:
    """Calls everybody every ``interval`` seconds; no timer runs while there is nobody."""

    def __init__(self, interval: float) -> None:
        self._interval = interval
        self._called: dict[Callable[[], None], None] = {}
        self._timer: asyncio.TimerHandle | None = None

    def add(self, call: Callable[[], None]) -> None:
        self._called[call] = None
        if self._timer is None:
            self._set()

    def remove(self, call: Callable[[], None]) -> None:
        self._called.pop(call, None)
        if not self._called and self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _set(self) -> None:
        self._timer = asyncio.get_running_loop().call_later(self._interval, self._round)

    def _round(self) -> None:
        self._set()
        for call in tuple(self._called):
            call()
