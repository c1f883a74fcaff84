"""Attempts on their way into the store: a bounded memory, and one task that writes it in batches.

No delivery waits for it. What does not fit is dropped and counted, and so is what the store lets go of
by its retention or its cap.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from itertools import accumulate, islice
from typing import Literal

from msgspec.structs import replace

from app.delivery.backoff import try_again_in
from app.delivery.outcomes import Fate
from app.errors import StoreUnavailable
from app.interfaces import Attempt, Attempts, Clock
from app.interfaces.kept import Fields
from app.telemetry import Counters
from app.telemetry.tasks import ended, keep
from app.worker.timing import happened

QUEUE = 10_000  # attempts that wait
WITH_BODIES = 1_000  # of them with headers and bodies
HEADERS = 2**14  # bytes of them, of a request and of an answer
AT_ONCE = 500  # of them in one transaction
GATHER = 0.2  # seconds that a batch waits for more: a sync a batch, not a sync an attempt
LATEST_EVERY = 5.0  # seconds between writes of the last successes
TRIM_EVERY = 60.0

_log = logging.getLogger("skybridge.attempts")
_DELIVERED = Fate.DELIVERED.value


class AttemptKeeper:
    """``keep``: all, or failures and the last success of each subscription. ``retention`` in seconds,
    ``most``: rows. ``bodies``: bytes of each body."""

    def __init__(
        self,
        attempts: Attempts,
        clock: Clock,
        counters: Counters,
        *,
        keep: Literal["failures", "all"],
        retention: float,
        most: int,
        bodies: int = 4096,
        jitter: Callable[[], float] = lambda: 0.5,
    ) -> None:
        self._attempts = attempts
        self._clock = clock
        self._counters = counters
        self._all = keep == "all"
        self._retention = retention
        self._most = most
        self._bodies = bodies
        self._jitter = jitter
        self._waiting: deque[Attempt] = deque()
        self._latest: dict[str, Attempt] = {}
        self._came = asyncio.Event()
        self._stopping = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._trimmed = self._latest_written = clock.monotonic()
        self._written = 0  # rows since the last trim

    def note(self, attempt: Attempt) -> None:
        """Returns at once."""
        if attempt.outcome == _DELIVERED and not self._all:
            self._latest[attempt.subscription] = attempt
        elif len(self._waiting) < QUEUE:
            self._waiting.append(self._clipped(attempt))
            self._came.set()
        else:
            self._counters.add("attempts_dropped", attempt.subscription)

    def _clipped(self, attempt: Attempt) -> Attempt:
        """Bodies within the setting, headers within a bound; none while many wait (rule 8)."""
        exchange = attempt.exchange
        if exchange is None:
            return attempt
        few = len(self._waiting) < WITH_BODIES
        most, headers = (self._bodies, HEADERS) if few else (0, 0)
        clipped = replace(
            exchange,
            headers=_clipped(exchange.headers, headers),
            body=exchange.body[:most],
            answer_headers=_clipped(exchange.answer_headers, headers),
            answer_body=exchange.answer_body[:most],
        )
        return replace(attempt, exchange=clipped)

    async def start(self) -> None:
        self._task = keep("attempts", self._write_all)

    async def stop(self, drain: float) -> None:
        """What waits is written within ``drain`` seconds, or dropped."""
        self._stopping.set()
        self._came.set()
        await ended(self._task, drain)
        for attempt in self._waiting:
            self._counters.add("attempts_dropped", attempt.subscription)
        self._waiting.clear()

    async def _write_all(self) -> None:
        failures = 0
        while not self._stopping.is_set() or self._waiting or self._latest:
            try:
                await self._turn()
                failures = 0
            except StoreUnavailable as error:
                failures += 1
                _log.warning("attempts cannot be stored: %s", error)
                if self._stopping.is_set():
                    return
                wait = try_again_in(failures, self._jitter())
                await happened(self._stopping, self._clock, wait)

    async def _turn(self) -> None:
        if not self._waiting and not self._stopping.is_set():
            self._came.clear()
            await happened(self._came, self._clock, LATEST_EVERY)
        if self._waiting:
            await happened(self._stopping, self._clock, GATHER)
        await self._write()
        await self._trim_if_due()

    async def _write(self) -> None:
        batch = list(islice(self._waiting, AT_ONCE))
        latest = dict(self._latest) if self._latest_due() else {}
        if not batch and not latest:
            return
        await self._attempts.add(batch, tuple(latest.values()))
        for _ in batch:
            self._waiting.popleft()
        self._written += len(batch) + len(latest)
        for subscription, attempt in latest.items():
            if self._latest[subscription] is attempt:  # no newer one came meanwhile
                del self._latest[subscription]

    def _latest_due(self) -> bool:
        now = self._clock.monotonic()
        if now - self._latest_written < LATEST_EVERY and not self._stopping.is_set():
            return False
        self._latest_written = now
        return True

    async def _trim_if_due(self) -> None:
        now = self._clock.monotonic()
        crowded = self._written > max(AT_ONCE, self._most // 20)
        if not crowded and now - self._trimmed < TRIM_EVERY:
            return
        self._trimmed, self._written = now, 0
        before = int((self._clock.now() - self._retention) * 1000)
        gone = await self._attempts.trim(before_ms=before, most=self._most)
        if gone:
            self._counters.add("attempts_trimmed", by=gone)


def _clipped(headers: Fields, most: int) -> Fields:
    """The first of them, of so many characters together."""
    sizes = accumulate(len(name) + len(value) for name, value in headers)
    return headers[: sum(size <= most for size in sizes)]
