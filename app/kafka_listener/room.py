"""How many bytes of requests and answers all connections together may hold, and how many those of one user."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from types import TracebackType
from typing import NamedTuple, Self

from app.access.quota import SharedLimit


class Waiting(NamedTuple):
    """A request that waits for room."""

    size: int
    owner: str
    given: asyncio.Future[None]


class Patience(NamedTuple):
    """How long a request may wait for room: ``check``, called every so many seconds, raises when it may not."""

    every: float
    check: Callable[[], None]


class Room:
    """Bytes for which requests wait: first come, first served, but nobody waits behind a user whose share is used up.

    One request of a user passes at any time, however large, so that no user waits for ever. ``share``: bytes
    of one user; None: as many as there are.
    """

    def __init__(self, bound: int, share: int | None = None) -> None:
        self._budget = SharedLimit(bound, bound if share is None else share)
        self._waiting: list[Waiting] = []

    @property
    def held(self) -> int:
        return self._budget.held

    async def take(self, size: int, owner: str = "", patience: Patience | None = None) -> None:
        """Return once there is room. Cancelled, or when ``patience`` raises, nothing is taken."""
        if not self._waiting and self._fits(size) and self._is_within_share(size, owner):
            self.enter(size, owner)
            return
        entry = Waiting(size, owner, asyncio.get_running_loop().create_future())
        self._waiting.append(entry)
        self._serve()
        try:
            while patience and not entry.given.done():
                await asyncio.wait((entry.given,), timeout=patience.every)
                if not entry.given.done():
                    patience.check()
            await entry.given
        except BaseException:
            if entry.given.done() and not entry.given.cancelled():
                self.give(size, owner)
            elif entry in self._waiting:
                self._waiting.remove(entry)
                self._serve()
            raise

    def enter(self, size: int, owner: str = "") -> None:
        """Take ``size`` at once, whether or not there is room."""
        self._budget.add(owner, size)

    def give(self, size: int, owner: str = "") -> None:
        self._budget.add(owner, -size)
        if self._waiting:
            self._serve()

    def _fits(self, size: int) -> bool:
        budget = self._budget
        return not budget.held or budget.held + size <= budget.bound

    def _is_within_share(self, size: int, owner: str) -> bool:
        mine = self._budget.of(owner)
        return not owner or not mine or mine + size <= self._budget.share

    def _serve(self) -> None:
        """Let in whoever fits, in turn. Requests of one user do not overtake each other."""
        waiting: list[Waiting] = []
        blocked: set[str] = set()
        full = False
        for entry in self._waiting:
            size, owner, given = entry
            if given.done():
                continue
            if not self._is_within_share(size, owner):
                blocked.add(owner)
            if owner not in blocked and not self._fits(size):
                full = True
            if full or owner in blocked:
                waiting.append(entry)
                continue
            self.enter(size, owner)
            given.set_result(None)
        self._waiting = waiting


class Unread:
    """Bytes of answers that clients have not taken, over all connections. Nobody waits for them: an answer that
    finds no room is a small one."""

    def __init__(self, bound: int, share: int | None = None) -> None:
        self._budget = SharedLimit(bound, share)

    @property
    def held(self) -> int:
        return self._budget.held

    def left(self, owner: str) -> int:
        return self._budget.left(owner)

    def hold(self, size: int, owner: str) -> None:
        """Count so many bytes more, or fewer, in the answers for ``owner``."""
        self._budget.add(owner, size)


class Share:
    """What one request has of a room. Taken once: a request that holds some and waits for more would wait for
    others who do; it may be given back bit by bit, and is at the end."""

    def __init__(self, room: Room, owner: str = "") -> None:
        self._room = room
        self._owner = owner
        self._size = 0

    async def take(self, size: int, patience: Patience | None = None) -> None:
        await self._room.take(size, self._owner, patience)
        self._size = size

    def enter(self, size: int) -> None:
        """Take ``size`` without a wait."""
        self._room.enter(size, self._owner)
        self._size = size

    def keep(self, size: int) -> None:
        """No more than so much of it."""
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
