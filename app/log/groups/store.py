"""Store the positions, generations and declarations of groups.

Commits of many groups share one transaction, which is that of a commit group if one is due. Otherwise two hundred
subscriptions that commit ten times a second would need two thousand fsyncs."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar

import apsw

from app.log.groups.positions import Commits, DeclaredGroup, GroupPositions, Places
from app.model.message import Partition

T = TypeVar("T")
Waiting = tuple[Commits, asyncio.Future[None]]


class GroupWriter(Protocol):
    """The part of the log's writer that groups need."""

    def run(self, job: Callable[[apsw.Connection], T], /) -> asyncio.Future[T]:
        """Run ``job`` between commit groups, with a transaction of its own."""

    def piggyback(
        self, store: Callable[[apsw.Connection], Callable[[], None]], /
    ) -> asyncio.Future[None]:
        """Run ``store`` in the transaction of the next commit group. Once the transaction is durable, run the
        function that ``store`` returned."""


class GroupStore:
    """Stores changes of groups. Called on the event loop.

    The returned futures are done when the change is durable, or have a BrokerError. ``positions`` are the stored
    positions, for reading. The store does not fence: the coordinator does."""

    def __init__(self, positions: GroupPositions, writer: Callable[[], GroupWriter]) -> None:
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
            stored = writer.piggyback(lambda db: self._store(db, taken))
            stored.add_done_callback(lambda done: self._tell(taken, done))
        return future

    def begin(self, group: str, places: Places) -> asyncio.Future[None]:
        """Commit start positions of partitions for which the group has no position yet."""
        return self._writer().run(lambda db: self.positions.begin(db, group, places))

    def advance(self, group: str, generation: int) -> asyncio.Future[None]:
        """Store the new generation of a group, so that generations never go back."""
        return self._writer().run(lambda db: self.positions.advance(db, group, generation))

    def declare(
        self, declared: Sequence[DeclaredGroup], *, whole: bool = False
    ) -> asyncio.Future[None]:
        """Declare groups whose unread records retention keeps. ``whole`` is True if no other group is declared."""
        return self._writer().run(lambda db: self.positions.declare(db, declared, whole=whole))

    def forget(self, group: str) -> asyncio.Future[None]:
        """Delete the positions of a group, so that a later group of its name starts without any."""
        return self._writer().run(lambda db: self.positions.forget(db, group))

    def forget_places(self, group: str, places: Sequence[Partition]) -> asyncio.Future[None]:
        return self._writer().run(lambda db: self.positions.forget_places(db, group, places))

    def remove(self, group: str) -> asyncio.Future[None]:
        """Drop a group without members as if it had expired. A later group of its name gets a higher generation."""
        return self._writer().run(lambda db: self.positions.forget_idle(db, [group]))

    def used(self, group: str) -> None:
        """Start the idle time of a group, because its last member has left. An error of the disk is ignored."""
        noted = self._writer().run(lambda db: self.positions.use(db, group))
        noted.add_done_callback(lambda done: done.cancelled() or done.exception())

    async def forget_idle(self, before_ms: int, in_use: Callable[[str], bool]) -> int:
        """Drop the groups that have not been used since ``before_ms``. Return their number."""

        def idle() -> list[str]:
            return [group for group in self.positions.idle(before_ms) if not in_use(group)]

        def forget(db: apsw.Connection) -> int:
            groups = idle()  # computed again, because a member may have joined meanwhile
            self.positions.forget_idle(db, groups)
            return len(groups)

        return await self._writer().run(forget) if idle() else 0

    def _store(self, db: apsw.Connection, taken: list[Waiting]) -> Callable[[], None]:
        """Write the queued commits in the writer thread. Commits that are queued later start another round."""
        self._take(taken)
        return self.positions.store(db, [one for commits, _ in taken for one in commits])

    def _take(self, taken: list[Waiting]) -> None:
        self._asked = (
            False  # set first, so that a commit that is queued meanwhile is taken or asks again
        )
        taken += [self._waiting.popleft() for _ in range(len(self._waiting))]

    def _tell(self, taken: list[Waiting], stored: asyncio.Future[None]) -> None:
        error = stored.exception()
        if error is not None and not taken:  # the log has failed and did not call ``_store``
            self._take(taken)
        for _, future in taken:
            if future.done():
                continue
            if error is None:
                future.set_result(None)
            else:
                future.set_exception(error)
