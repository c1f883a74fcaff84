"""What is done for all consumers of a log at once, so that a thousand of them at rest cost next to
nothing: one timer beats for every member, one timer commits for every group.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

ROWS_A_SECOND = 10_000
"""Positions that commits write at most: a thousand groups that pass over all of a busy topic share them."""


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


class CommitRounds:
    """Asks everybody to commit, ``interval`` seconds after a position moved or a message was settled. No timer
    runs while nothing moves.

    All commits of a round are one transaction of the log. A round that wrote many positions puts the next
    one off: see ``ROWS_A_SECOND``.
    """

    def __init__(self, interval: float) -> None:
        self._interval = interval
        self._wait = interval
        self._called: dict[Callable[[], int], None] = {}
        self._timer: asyncio.TimerHandle | None = None

    def add(self, commit: Callable[[], int]) -> None:
        """``commit`` begins a commit of what is due, and returns how many positions that were."""
        self._called[commit] = None

    def remove(self, commit: Callable[[], int]) -> None:
        self._called.pop(commit, None)

    def stir(self) -> None:
        """Something may be due."""
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(self._wait, self._round)

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _round(self) -> None:
        self._timer = None
        rows = sum(commit() for commit in tuple(self._called))
        self._wait = max(self._interval, rows / ROWS_A_SECOND)
