"""What a log stores of groups: their committed positions, generations and declarations.

Commits of many groups are gathered into one transaction, that of a commit group where one is written anyway: two
hundred subscriptions that each commit ten times a second must not cost two thousand fsyncs.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar

import apsw

from app.log.groups.positions import Commits, Declared, Places, Positions
from app.model.message import Partition

T = TypeVar("T")
Waiting = tuple[Commits, asyncio.Future[None]]


class Writing(Protocol):
    """What groups need of the log's writer."""

    def run(self, job: Callable[[apsw.Connection], T], /) -> asyncio.Future[T]:
        """Run ``job`` between commit groups; it opens its own transaction."""

    def ride(
        self, store: Callable[[apsw.Connection], Callable[[], None]], /
    ) -> asyncio.Future[None]:
        """Run ``store`` in the transaction of the next commit group, and what it returns once that is durable."""


class GroupStore:
    """Called on the event loop; a future is done when the change is durable, or has a BrokerError. ``positions``: what
    is stored, to read. Nothing here is fenced: that is for the coordinator."""

    def __init__(self, positions: Positions, writer: Callable[[], Writing]) -> None:
        self.positions = positions
        self._writer = writer
        self._waiting: deque[Waiting] = deque()
        self._asked = False

    def commit(self, group: str, places: Places) -> asyncio.Future[None]:
        return self.commit_all([(group, places)])

    def commit_all(self, commits: Commits) -> asyncio.Future[None]:
        """Commit positions of many groups with the writer's next round."""
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        writer = self._writer()
        self._waiting.append((commits, future))
        if not self._asked:
            self._asked = True
            taken: list[Waiting] = []
            stored = writer.ride(lambda db: self._store(db, taken))
            stored.add_done_callback(lambda done: self._tell(taken, done))
        return future

    def begin(self, group: str, places: Places) -> asyncio.Future[None]:
        """Commit a start where the group has no position yet (rule 10)."""
        return self._writer().run(lambda db: self.positions.begin(db, group, places))

    def advance(self, group: str, generation: int) -> asyncio.Future[None]:
        """Store a group's new generation, so that epochs never go back."""
        return self._writer().run(lambda db: self.positions.advance(db, group, generation))

    def declare(self, declared: Sequence[Declared], *, whole: bool = False) -> asyncio.Future[None]:
        """Declare groups whose unread records retention keeps. ``whole``: there are no others any more."""
        return self._writer().run(lambda db: self.positions.declare(db, declared, whole=whole))

    def forget(self, group: str) -> asyncio.Future[None]:
        """Forget a group; a later one of its name begins without a position."""
        return self._writer().run(lambda db: self.positions.forget(db, group))

    def forget_places(self, group: str, places: Sequence[Partition]) -> asyncio.Future[None]:
        return self._writer().run(lambda db: self.positions.forget_places(db, group, places))

    def remove(self, group: str) -> asyncio.Future[None]:
        """Forget a group without members as if it had grown old: with its generation, which no later one repeats."""
        return self._writer().run(lambda db: self.positions.forget_idle(db, [group]))

    def used(self, group: str) -> None:
        """Count the age of a group from now on, because its last member has left. Stored when the disk can."""
        noted = self._writer().run(lambda db: self.positions.use(db, group))
        noted.add_done_callback(lambda done: done.cancelled() or done.exception())

    async def forget_idle(self, before_ms: int, in_use: Callable[[str], bool]) -> int:
        """Forget the groups that have not been used since a time, and return their number."""

        def idle() -> list[str]:
            return [group for group in self.positions.idle(before_ms) if not in_use(group)]

        def forget(db: apsw.Connection) -> int:
            groups = idle()  # again: a member may have come meanwhile
            self.positions.forget_idle(db, groups)
            return len(groups)

        return await self._writer().run(forget) if idle() else 0

    def _store(self, db: apsw.Connection, taken: list[Waiting]) -> Callable[[], None]:
        """In the writer thread. A later caller asks for a round of its own."""
        self._take(taken)
        return self.positions.store(db, [one for commits, _ in taken for one in commits])

    def _take(self, taken: list[Waiting]) -> None:
        self._asked = False  # first: what is added meanwhile is taken, or asks again
        taken += [self._waiting.popleft() for _ in range(len(self._waiting))]

    def _tell(self, taken: list[Waiting], stored: asyncio.Future[None]) -> None:
        error = stored.exception()
        if error is not None and not taken:  # refused without a look: the log takes nothing more
            self._take(taken)
        for _, future in taken:
            if future.done():
                continue
            if error is None:
                future.set_result(None)
            else:
                future.set_exception(error)
