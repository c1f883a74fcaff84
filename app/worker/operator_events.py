"""Publish operator events: a bounded queue, and one task that publishes it.

No delivery waits for this. Events that do not fit the queue, or that the broker refuses for good, are dropped and
counted. Other failed events are sent again with the same id."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from itertools import islice
from uuid import uuid4

from app.bindings.record import ContentMode, Decoded, Record
from app.bindings.table import Binding
from app.bindings.transcode import PLAIN, EncodeOptions
from app.delivery import operator_event
from app.delivery.backoff import backoff_delay
from app.delivery.coalescing import Coalescer
from app.errors import BrokerError, SenderError
from app.interfaces import Clock, Log
from app.interfaces.notify import DEAD_LETTERED, LAGGING, PAUSED
from app.model.route import Target
from app.telemetry import Counters
from app.telemetry.tasks import keep, stop_task
from app.worker.timing import wait_for_event

QUEUE = 1_000  # queued events
AT_ONCE = 100  # events of one publish
WINDOW = 10.0  # seconds; dead letters of one subscription and cause within them are one event

_REPEATING = frozenset({DEAD_LETTERED, PAUSED, LAGGING})

_log = logging.getLogger("skybridge.operator_events")


class OperatorEvents:
    """Publishes operator events to a topic. ``notify`` implements ``interfaces.Notify``.

    Args:
        target: the topic.
        log: the log that has the topic.
        binding: the binding of the log's kind.
        writing: the encoding options of the log's kind.
        echoes: returns True for a subscription that reads this topic, also through mirrors. Repeating events about
            such a subscription are not published, because each event would cause further events.
    """

    def __init__(
        self,
        target: Target,
        log: Log,
        binding: Binding,
        clock: Clock,
        counters: Counters,
        *,
        installation: str,
        writing: EncodeOptions = PLAIN,
        echoes: Callable[[str], bool] = lambda _: False,
        ids: Callable[[], str] = lambda: str(uuid4()),
        jitter: Callable[[], float] = lambda: 0.5,
    ) -> None:
        self._topic = target.topic
        self._log = log
        self._binding = binding
        self._writing = writing
        self._clock = clock
        self._counters = counters
        self._source = f"/skybridge/{installation}"
        self._echoes = echoes
        self._ids = ids
        self._jitter = jitter
        self._coalescer: Coalescer[tuple[str, str]] = Coalescer(WINDOW)
        self._queue: deque[tuple[str, Record]] = deque()
        self._arrived = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._stopping = False
        self.trouble = ""

    def notify(self, kind: str, subject: str, detail: Mapping[str, object], /) -> None:
        """Queue an operator event. Dead letters of one subscription and cause are first counted for a while, and
        then reported in one event."""
        if kind in _REPEATING and self._echoes(subject):
            return
        if kind == DEAD_LETTERED:
            key = (subject, str(detail.get("cause", "")))
            self._dead_lettered(key, self._coalescer.add(key, self._clock.monotonic()))
            self._arrived.set()  # the end of a new window may be due earlier
        else:
            self._put(kind, subject, detail)

    async def start(self) -> None:
        self._task = keep("operator-events", self._publish_all)

    async def stop(self, drain: float) -> None:
        """Publish the queued events within ``drain`` seconds and drop the others."""
        for key, count in self._coalescer.rest(self._clock.monotonic()).items():
            self._dead_lettered(key, count)
        self._stopping = True
        self._arrived.set()
        await stop_task(self._task, drain)
        for kind, _ in self._queue:
            self._counters.add("operator_events", kind, "dropped")
        self._queue.clear()

    def _dead_lettered(self, key: tuple[str, str], count: int) -> None:
        if count:
            subscription, cause = key
            self._put(DEAD_LETTERED, subscription, {"cause": cause, "count": count})

    def _put(self, kind: str, subject: str, detail: Mapping[str, object]) -> None:
        if len(self._queue) >= QUEUE:
            self._counters.add("operator_events", kind, "dropped")
            return
        try:
            self._queue.append((kind, self._record(kind, subject, detail)))
        except SenderError:
            _log.exception("an operator event is not a valid CloudEvent")
            self._counters.add("operator_events", kind, "dropped")
        self._arrived.set()

    def _record(self, kind: str, subject: str, detail: Mapping[str, object]) -> Record:
        event = operator_event.make(
            kind,
            subject,
            detail,
            id_=self._ids(),
            source=self._source,
            time=datetime.fromtimestamp(self._clock.now(), UTC).isoformat().replace("+00:00", "Z"),
        )
        decoded = Decoded(event, ContentMode.BINARY)
        return self._binding.encode(decoded, self._writing, subject.encode())

    async def _publish_all(self) -> None:
        failures = 0
        while not self._stopping or self._queue:
            self._arrived.clear()
            if self._queue:
                failures = 0 if await self._publish() else failures + 1
                if failures:
                    await self._clock.sleep(backoff_delay(failures, self._jitter()))
            else:
                await wait_for_event(self._arrived, self._clock, self._until_due())
            for key, count in self._coalescer.due(self._clock.monotonic()).items():
                self._dead_lettered(key, count)

    def _until_due(self) -> float | None:
        due = self._coalescer.next_due()
        return None if due is None else max(0.0, due - self._clock.monotonic())

    async def _publish(self) -> bool:
        """Publish one batch of the queue. Return False if some of its events have to be sent again."""
        some = list(islice(self._queue, AT_ONCE))
        results = await self._log.submit(self._topic, [record for _, record in some])
        again = []
        for sent, result in zip(some, results, strict=True):
            if not isinstance(result, BrokerError):
                self._counters.add("operator_events", sent[0], "published")
            elif result.retryable:
                again.append(sent)
                self._log_once(result)
            else:
                self._counters.add("operator_events", sent[0], "dropped")
                self._log_once(result)
        for _ in some:
            self._queue.popleft()
        self._queue.extendleft(reversed(again))
        if not again:
            self.trouble = ""
        return not again

    def _log_once(self, error: BrokerError) -> None:
        """Log an error, unless it is the same as the last one."""
        if self.trouble != str(error):
            self.trouble = str(error)
            _log.error("operator events cannot be published to %s: %s", self._topic, error)
