"""How many more messages may wait to be pulled: the bound holds for all processes together."""

from __future__ import annotations

from app.interfaces import Clock, PullQueue

COUNT_EVERY = 1.0  # seconds that a count is believed


class Room:
    """Counts in the store as seldom as it may: what was offered here since the last count is added, what
    left is not known before the next one. So it errs to *full*; two workers of one subscription may
    go beyond the bound by what each offers within a second.

    ``waiting``  as it was counted last, and what was offered since.
    """

    def __init__(self, queue: PullQueue, subscription: str, bound: int, clock: Clock) -> None:
        self._queue = queue
        self._subscription = subscription
        self._bound = bound
        self._clock = clock
        self._counted: float | None = None
        self._was_full = False
        self.waiting = 0

    @property
    def is_full(self) -> bool:
        return self._was_full or self.waiting >= self._bound

    @property
    def cause(self) -> str:
        """Why nothing more is taken, for a person; empty while there is room."""
        if not self.is_full:
            return ""
        return f"{self.waiting} events wait to be pulled: sink.pull.max_waiting is reached"

    def offered(self, count: int) -> None:
        self.waiting += count

    async def free(self) -> int:
        """Once full, 0 until an eighth is free: a subscription at its bound would go on and pause with
        each message otherwise. Raises StoreUnavailable."""
        now = self._clock.monotonic()
        if self.is_full or self._counted is None or now - self._counted >= COUNT_EVERY:
            await self._count(now)
        enough = max(1, self._bound // 8) if self._was_full else 1
        self._was_full = self._bound - self.waiting < enough
        return 0 if self._was_full else self._bound - self.waiting

    async def _count(self, now: float) -> None:
        self.waiting = (await self._queue.count()).get(self._subscription, 0)
        self._counted = now
