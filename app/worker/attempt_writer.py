"""Write attempts to the store: a bounded queue, and one task that writes it in batches.

No delivery waits for this. Attempts that do not fit the queue are dropped and counted. Attempts that the store
removes by age or number are counted too."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from itertools import accumulate, islice
from typing import Literal

from msgspec.structs import replace

from app.delivery.backoff import backoff_delay
from app.delivery.outcomes import Fate
from app.errors import StoreUnavailable
from app.interfaces import Attempt, Attempts, Clock
from app.interfaces.kept import Fields
from app.telemetry import Counters
from app.telemetry.tasks import keep, stop_task
from app.worker.timing import wait_for_event

QUEUE = 10_000  # queued attempts
WITH_BODIES = 1_000  # queued attempts with headers and bodies
HEADERS = 2**14  # bytes of the headers of a request, and of an answer
AT_ONCE = 500  # attempts in one transaction
GATHER = 0.2  # seconds that a batch waits for more attempts, to save disk syncs
LATEST_EVERY = 5.0  # seconds between writes of the last successes
TRIM_EVERY = 60.0
_OVERLAP_MS = 3_600_000

_log = logging.getLogger("skybridge.attempts")
_DELIVERED = Fate.DELIVERED.value


class AttemptWriter:
    """Writes attempts to the store and trims them there.

    Args:
        keep: ``all``, or ``failures`` with the last success of each subscription.
        retention: seconds that attempts are kept.
        most: the number of rows that are kept.
        bodies: bytes of each request and answer body that are kept.
        bodies_retention: seconds that headers and bodies are kept.
    """

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
        bodies_retention: float = 86_400.0,
        jitter: Callable[[], float] = lambda: 0.5,
    ) -> None:
        self._attempts = attempts
        self._clock = clock
        self._counters = counters
        self._all = keep == "all"
        self._retention = retention
        self._most = most
        self._bodies = bodies
        self._bodies_retention = bodies_retention
        self._forgotten_ms = 0
        self._jitter = jitter
        self._waiting: deque[Attempt] = deque()
        self._latest: dict[str, Attempt] = {}
        self._arrived = asyncio.Event()
        self._stopping = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._trimmed = self._latest_written = clock.monotonic()
        self._written = 0  # rows since the last trim

    def note(self, attempt: Attempt) -> None:
        """Queue an attempt for the store and return at once."""
        if attempt.outcome == _DELIVERED and not self._all:
            self._latest[attempt.subscription] = attempt
        elif len(self._waiting) < QUEUE:
            self._waiting.append(self._clipped(attempt))
            self._arrived.set()
        else:
            self._counters.add("attempts_dropped", attempt.subscription)

    def _clipped(self, attempt: Attempt) -> Attempt:
        """Return the attempt with clipped headers and bodies, or without them if many attempts are queued."""
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
            until_ms=attempt.started_ms + int(self._bodies_retention * 1000),
        )
        return replace(attempt, exchange=clipped)

    async def start(self) -> None:
        self._task = keep("attempts", self._write_all)

    async def stop(self, drain: float) -> None:
        """Write the queued attempts within ``drain`` seconds and drop the others."""
        self._stopping.set()
        self._arrived.set()
        await stop_task(self._task, drain)
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
                wait = backoff_delay(failures, self._jitter())
                await wait_for_event(self._stopping, self._clock, wait)

    async def _turn(self) -> None:
        if not self._waiting and not self._stopping.is_set():
            self._arrived.clear()
            await wait_for_event(self._arrived, self._clock, LATEST_EVERY)
        if self._waiting:
            await wait_for_event(self._stopping, self._clock, GATHER)
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
            if self._latest[subscription] is attempt:  # else a newer one has to be written
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
        await self._forget_exchanges()

    async def _forget_exchanges(self) -> None:
        """Delete old headers and bodies. Attempts are stored some time after their start, so the range of
        times overlaps that of the previous call.
        """
        before = int((self._clock.now() - self._bodies_retention) * 1000)
        await self._attempts.forget_exchanges(since_ms=self._forgotten_ms, before_ms=before)
        self._forgotten_ms = before - _OVERLAP_MS


def _clipped(headers: Fields, most: int) -> Fields:
    """Return the first headers whose names and values have at most this number of characters together."""
    sizes = accumulate(len(name) + len(value) for name, value in headers)
    return headers[: sum(size <= most for size in sizes)]
