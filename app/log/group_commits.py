"""Commits of many groups gathered into one transaction, that of a commit group where one is written anyway:
two hundred subscriptions that each commit ten times a second must not cost two thousand fsyncs.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable

import apsw

from app.log.commit import Rider
from app.log.positions import Commits, Positions
from app.log.writer import Writer

Waiting = tuple[Commits, asyncio.Future[None]]


class GroupCommits:
    """``commit`` on the event loop; what has gathered goes with the writer's next round."""

    def __init__(self, positions: Positions, writer: Callable[[], Writer]) -> None:
        self._positions = positions
        self._writer = writer
        self._waiting: deque[Waiting] = deque()
        self._asked = False

    def commit(self, commits: Commits) -> asyncio.Future[None]:
        """Done when it is durable, with a BrokerError when it cannot be now."""
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        writer = self._writer()
        self._waiting.append((commits, future))
        if not self._asked:
            self._asked = True
            taken: list[Waiting] = []
            stored = writer.ride(Rider(lambda db: self._store(db, taken)))
            stored.add_done_callback(lambda done: self._tell(taken, done))
        return future

    def _store(self, db: apsw.Connection, taken: list[Waiting]) -> Callable[[], None]:
        """In the writer thread. A later caller asks for a round of its own."""
        self._take(taken)
        return self._positions.store(db, [one for commits, _ in taken for one in commits])

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
