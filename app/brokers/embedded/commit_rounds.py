"""Commit for all consumers of a log together, so that a thousand idle consumers cost almost nothing."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from app.log.groups.positions import Commits, Places

ROWS_A_SECOND = 10_000
"""The most positions that timed commits write in a second. A thousand groups that skip all messages of a busy
topic share this number."""

PIGGYBACK_ROWS_A_SECOND = 500
"""The most positions in a second that are committed together with other writes of the log. A busy log has
thousands of such writes a second."""

AGAIN_AFTER = 1.0  # seconds before a failed commit is retried
_log = logging.getLogger(__name__)


class Due(NamedTuple):
    """The positions that a group must commit now. ``note`` is called when they are stored durably."""

    group: str
    places: Places
    note: Callable[[], None]


Ask = Callable[[], Due | None]
"""A function that returns the positions that one group must commit now, or None."""


class CommitRounds:
    """Commits the positions of all consumers of a log.

    Consumers with settled messages commit together with the next write of the log (its commit group). A
    commit follows at the latest ``interval`` seconds after a message was settled or a position has moved. No
    timer runs while nothing changes.

    One transaction of the log holds all commits of a round, and only one is in progress at a time. After a
    round with many positions the next one waits longer; see ``ROWS_A_SECOND``.

    Args:
        interval: The time between two rounds, in seconds.
        store: A function that starts the transaction of the log.
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
        self._settled: dict[Ask, None] = {}  # consumers that commit with the next commit group
        self._storing: asyncio.Future[None] | None = None
        self._piggyback_from = 0.0  # earliest time of the next commit with a commit group
        self._retry_at = 0.0  # no commit is tried before this time
        self._timer: asyncio.TimerHandle | None = None

    def add(self, due: Ask) -> None:
        self._called[due] = None

    def remove(self, due: Ask) -> None:
        self._called.pop(due, None)
        self._settled.pop(due, None)

    def settled(self, due: Ask) -> None:
        """Include the consumer in the next write of the log, because a kill before the commit would repeat
        its settled messages."""
        self._settled[due] = None
        self.stir()

    def stir(self) -> None:
        """Start the timer of the next round, because a position may have moved."""
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(self._wait, self._round)

    def piggyback(self) -> None:
        """Commit for consumers with settled messages, together with records that are about to be written to
        the log."""
        now = asyncio.get_running_loop().time()
        if self._settled and now >= self._piggyback_from and self._may_store(now):
            self._piggyback_from = now + self._commit(self._settled) / PIGGYBACK_ROWS_A_SECOND

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
        return self._storing is None and now >= self._retry_at

    def _commit(self, asked: Iterable[Ask]) -> int:
        """Start a commit of all positions that must be committed. Return their number."""
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
        _log.warning("commits of %d groups failed and will be retried: %s", len(dues), error)
        self._retry_at = asyncio.get_running_loop().time() + AGAIN_AFTER
        self.stir()
