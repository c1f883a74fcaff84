"""The bounds that all subscriptions of a process share (``delivery.fair_share``)."""

from __future__ import annotations

from collections.abc import Callable

from app.bindings.content_coding import CONTENT
from app.delivery.fair_share import FairShares

DELIVERIES, BYTES = 2_000, 256 * 2**20
MOST_HELD = 8 * 2**20  # bytes held for one subscription; beyond them nothing is taken


class Budget:
    """``deliveries``: attempts in flight; ``held``: bytes of messages taken and not finished. ``content``: bytes
    that one message may grow to when its content coding is undone."""

    def __init__(
        self, deliveries: int = DELIVERIES, held: int = BYTES, content: int = CONTENT
    ) -> None:
        self.content = content
        self.deliveries = FairShares(deliveries)
        self.bytes = FairShares(held)
        self.refused: dict[Part, None] = {}  # in the order in which they were

    def rebound(self, deliveries: int, held: int, content: int = CONTENT) -> None:
        self.content = content
        self.deliveries.rebound(deliveries)
        self.bytes.rebound(held)
        for _ in range(len(self.refused)):
            self.wake_one()

    def wake_one(self) -> None:
        """The one that was refused first."""
        for part in self.refused:
            del self.refused[part]
            part.wake()
            return


class Part:
    """Of one subscription, until it leaves. ``held``: bytes that its messages cost now. ``wake``: called when it
    was refused an attempt and may ask again."""

    def __init__(self, budget: Budget, wake: Callable[[], None]) -> None:
        self.wake = wake
        self._budget = budget
        self._deliveries, self._bytes = budget.deliveries, budget.bytes
        self.held = 0
        self._deliveries.join(self)
        self._bytes.join(self)

    def leave(self) -> None:
        self._budget.refused.pop(self, None)
        self._deliveries.leave(self)
        self._bytes.leave(self)
        self._budget.wake_one()

    def may_send(self) -> bool:
        """Whether one more attempt may begin; if not, we are woken when that may have changed."""
        if self._deliveries.may(self):
            return True
        self._budget.refused[self] = None
        return False

    def sent(self) -> None:
        self._deliveries.take(self)

    def landed(self) -> None:
        self._deliveries.take(self, -1)
        self._budget.wake_one()

    def may_hold(self) -> bool:
        return self._bytes.may(self)

    def hold(self, size: int) -> None:
        self.held += size
        self._bytes.take(self, size)

    def release(self, size: int) -> None:
        self.held -= size
        self._bytes.take(self, -size)
