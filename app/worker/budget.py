"""Bounds that all subscriptions of a process share fairly (``delivery.fair_share``)."""

from __future__ import annotations

from collections.abc import Callable

from app.bindings.content_coding import CONTENT
from app.delivery.fair_share import FairShares

DELIVERIES, BYTES = 2_000, 256 * 2**20
MOST_HELD = 8 * 2**20  # bytes held for one subscription; beyond them nothing is read


class Budget:
    """The bounds of the process: attempts in flight, and bytes of held messages.

    Args:
        deliveries: the number of attempts in flight.
        held: bytes of unfinished messages in memory.
        content: bytes to which one message may grow when its content coding is removed.
    """

    def __init__(
        self, deliveries: int = DELIVERIES, held: int = BYTES, content: int = CONTENT
    ) -> None:
        self.content = content
        self.deliveries = FairShares(deliveries)
        self.bytes = FairShares(held)
        self.refused: dict[BudgetShare, None] = {}  # in the order of their refusal

    def rebound(self, deliveries: int, held: int, content: int = CONTENT) -> None:
        """Set new bounds, and let the refused shares ask again."""
        self.content = content
        self.deliveries.rebound(deliveries)
        self.bytes.rebound(held)
        for _ in range(len(self.refused)):
            self.wake_one()

    def wake_one(self) -> None:
        """Wake the share that was refused first."""
        for part in self.refused:
            del self.refused[part]
            part.wake()
            return


class BudgetShare:
    """One subscription's share of the bounds, until ``leave``. ``held`` counts the bytes of its messages.

    Args:
        budget: the bounds of the process.
        wake: called when this share was refused an attempt and may ask again.
    """

    def __init__(self, budget: Budget, wake: Callable[[], None]) -> None:
        self.wake = wake
        self._budget = budget
        self._deliveries, self._bytes = budget.deliveries, budget.bytes
        self.held = 0
        self._deliveries.join(self)
        self._bytes.join(self)

    def leave(self) -> None:
        """Give all units back and leave the bounds."""
        self._budget.refused.pop(self, None)
        self._deliveries.leave(self)
        self._bytes.leave(self)
        self._budget.wake_one()

    def may_send(self) -> bool:
        """Return True if one more attempt may begin. After False, ``wake`` is called when that may have changed."""
        if self._deliveries.may(self):
            return True
        self._budget.refused[self] = None
        return False

    def keeps_place(self) -> bool:
        """Return True if the next attempt may take the place of an attempt that has ended, because no other
        subscription waits for it."""
        return not self._budget.refused and self._deliveries.may(self, 0)

    def begin_attempt(self) -> None:
        """Count an attempt that begins."""
        self._deliveries.take(self)

    def end_attempt(self) -> None:
        """Count an attempt that has ended, and wake a refused share."""
        self._deliveries.take(self, -1)
        self._budget.wake_one()

    def may_hold(self) -> bool:
        """Return True if the subscription may hold more bytes."""
        return self._bytes.may(self)

    def hold(self, size: int) -> None:
        """Count the bytes of a message that is held from now on."""
        self.held += size
        self._bytes.take(self, size)

    def release(self, size: int) -> None:
        """Count down the bytes of a message that is no longer held."""
        self.held -= size
        self._bytes.take(self, -size)
