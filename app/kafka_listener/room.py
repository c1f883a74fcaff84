"""Budgets for the bytes that the requests and responses of all connections use, with a share for
each user.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from types import TracebackType
from typing import NamedTuple, Self

from app.access.quota import SharedLimit


class WaitingReservation(NamedTuple):
    """A reservation that waits for bytes."""

    size: int
    owner: str
    granted: asyncio.Future[None]


class WaitLimit(NamedTuple):
    """The limit of a wait for bytes: ``check`` is called every ``every`` seconds, and raises if the
    wait must end.
    """

    every: float
    check: Callable[[], None]


class ByteBudget:
    """A bounded number of bytes that requests reserve, first come, first served.

    A user whose share is used up does not block other users. One request of a user is always
    admitted, however large, so that no user waits for ever. ``share`` is the bytes of one user;
    None means the whole budget.
    """

    def __init__(self, bound: int, share: int | None = None) -> None:
        self._budget = SharedLimit(bound, bound if share is None else share)
        self._waiting: list[WaitingReservation] = []

    @property
    def held(self) -> int:
        """Return the reserved bytes."""
        return self._budget.held

    async def take(self, size: int, owner: str = "", limit: WaitLimit | None = None) -> None:
        """Reserve ``size`` bytes, and wait until they are free. If the wait is cancelled or
        ``limit`` raises, reserve nothing.
        """
        if not self._waiting and self._fits(size) and self._is_within_share(size, owner):
            self.enter(size, owner)
            return
        entry = WaitingReservation(size, owner, asyncio.get_running_loop().create_future())
        self._waiting.append(entry)
        self._admit_waiting()
        try:
            while limit and not entry.granted.done():
                await asyncio.wait((entry.granted,), timeout=limit.every)
                if not entry.granted.done():
                    limit.check()
            await entry.granted
        except BaseException:
            if entry.granted.done() and not entry.granted.cancelled():
                self.give(size, owner)
            elif entry in self._waiting:
                self._waiting.remove(entry)
                self._admit_waiting()
            raise

    def enter(self, size: int, owner: str = "") -> None:
        """Reserve ``size`` bytes at once, even beyond the bound."""
        self._budget.add(owner, size)

    def give(self, size: int, owner: str = "") -> None:
        """Give ``size`` bytes back."""
        self._budget.add(owner, -size)
        if self._waiting:
            self._admit_waiting()

    def _fits(self, size: int) -> bool:
        budget = self._budget
        return not budget.held or budget.held + size <= budget.bound

    def _is_within_share(self, size: int, owner: str) -> bool:
        own = self._budget.of(owner)
        return not owner or not own or own + size <= self._budget.share

    def _admit_waiting(self) -> None:
        """Admit waiting reservations in order if they fit. Reservations of one user keep their
        order.
        """
        waiting: list[WaitingReservation] = []
        blocked: set[str] = set()
        full = False
        for entry in self._waiting:
            size, owner, granted = entry
            if granted.done():
                continue
            if not self._is_within_share(size, owner):
                blocked.add(owner)
            if owner not in blocked and not self._fits(size):
                full = True
            if full or owner in blocked:
                waiting.append(entry)
                continue
            self.enter(size, owner)
            granted.set_result(None)
        self._waiting = waiting


class UnreadAnswers:
    """Counts the response bytes that clients have not read, over all connections.

    A request never waits here. While too many bytes are unread, its response is small.
    """

    def __init__(self, bound: int, share: int | None = None) -> None:
        self._budget = SharedLimit(bound, share)

    @property
    def held(self) -> int:
        """Return the unread bytes."""
        return self._budget.held

    def left(self, owner: str) -> int:
        """Return how many more bytes this user may leave unread."""
        return self._budget.left(owner)

    def hold(self, size: int, owner: str) -> None:
        """Count ``size`` more bytes, or fewer if negative, for ``owner``."""
        self._budget.add(owner, size)


class Reservation:
    """The bytes that one request has reserved in a budget.

    A request reserves once only. Two requests that each hold some bytes and wait for more could
    block each other. Bytes may be given back in steps, and all are given back at the end.
    """

    def __init__(self, room: ByteBudget, owner: str = "") -> None:
        self._room = room
        self._owner = owner
        self._size = 0

    async def take(self, size: int, limit: WaitLimit | None = None) -> None:
        """Reserve ``size`` bytes, and wait until they are free."""
        await self._room.take(size, self._owner, limit)
        self._size = size

    def enter(self, size: int) -> None:
        """Reserve ``size`` bytes without waiting."""
        self._room.enter(size, self._owner)
        self._size = size

    def keep(self, size: int) -> None:
        """Keep only ``size`` bytes, and give the others back."""
        self._room.give(self._size - size, self._owner)
        self._size = size

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.keep(0)
