"""Commits for all consumers of a log at once, so that a thousand of them at rest cost next to nothing."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from app.log.groups.positions import Commits, Places

ROWS_A_SECOND = 10_000
"""Positions that commits write at most: a thousand groups that pass over all of a busy topic share them."""

RIDING_A_SECOND = 500
"""The same of those that go along with commit groups, which a busy log writes by the thousand a second."""

AGAIN_AFTER = 1.0  # seconds, after a commit that failed
_log = logging.getLogger(__name__)


class Due(NamedTuple):
    """What a group is to commit now. ``note``: call it once that is durable."""

    group: str
    places: Places
    note: Callable[[], None]


Ask = Callable[[], Due | None]
"""What is due of a group; None for nothing."""


class CommitRounds:
    """Asks consumers with settled messages to commit with the next commit group of the log, and all consumers at the
    latest ``interval`` seconds after a message was settled or a position moved. No timer runs while nothing
    moves.

    All commits of a round are one transaction of the log, of which there is one at a time. A round that wrote
    many positions puts the next one off: see ``ROWS_A_SECOND``. ``store``: begins it.
    """

    def __init__(
        self,
        interval: float,
        store: Callable[[Commits], asyncio.Future[None]],
    ) -> None:
        self._interval = interval
        self._store = store
        self._wait = interval
        self._called: dict[Ask, None] = {}
        self._settled: dict[Ask, None] = {}  # of these, who is to go along
        self._storing: asyncio.Future[None] | None = None
        self._ride_from = 0.0  # time of the next ride
        self._put_off = 0.0  # until then no commit is tried
        self._timer: asyncio.TimerHandle | None = None

    def add(self, due: Ask) -> None:
        self._called[due] = None

    def remove(self, due: Ask) -> None:
        self._called.pop(due, None)
        self._settled.pop(due, None)

    def settled(self, due: Ask) -> None:
        """It is worth a ride: a kill would repeat it."""
        self._settled[due] = None
        self.stir()

    def stir(self) -> None:
        """Something may be due."""
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(self._wait, self._round)

    def ride(self) -> None:
        """A commit group is about to be closed: consumers that settled something commit with it."""
        now = asyncio.get_running_loop().time()
        if self._settled and now >= self._ride_from and self._may_store(now):
            self._ride_from = now + self._commit(self._settled) / RIDING_A_SECOND

    def close(self) -> None:
        self._settled.clear()
        if self._timer is not None:
            self._timer.cancel()

    def _round(self) -> None:
        self._timer = None
        if self._may_store(asyncio.get_running_loop().time()):
            self._wait = max(self._interval, self._commit(self._called) / ROWS_A_SECOND)
        else:
            self.stir()

    def _may_store(self, now: float) -> bool:
        return self._storing is None and now >= self._put_off

    def _commit(self, asked: Iterable[Ask]) -> int:
        """Begin the commit of all that is due; the number of positions in it."""
        dues = [due for ask in asked if (due := ask()) is not None]
        self._settled.clear()
        if dues:
            self._storing = self._store([(group, places) for group, places, _ in dues])
            self._storing.add_done_callback(lambda stored: self._stored(stored, dues))
        return sum(len(due.places) for due in dues)

    def _stored(self, stored: asyncio.Future[None], dues: Sequence[Due]) -> None:
        self._storing = None
        if stored.cancelled():
            return
        if (error := stored.exception()) is None:
            for due in dues:
                due.note()
            return
        _log.warning("commits of %d groups are put off: %s", len(dues), error)
        self._put_off = asyncio.get_running_loop().time() + AGAIN_AFTER
        self.stir()
