"""A pull queue as a sink. An event is delivered to this sink once the store has a row for it.

From then on, the row's lock token shows which consumer has the event. A full queue pauses the
subscription, so the events stay in the log.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import InitVar, dataclass
from typing import TypeVar

from msgspec.structs import replace

from app.bindings.record import Decoded, Header
from app.delivery.backoff import backoff_delay
from app.errors import StaleOwner, StoreUnavailable
from app.interfaces import BatchSink, Clock, DeliveryRequest, PullMessage, PullQueue, SinkAnswer
from app.interfaces.kept import event_name
from app.model.message import Message, Partition
from app.model.subscription import Subscription

COUNT_EVERY = (
    1.0  # seconds that a count is valid; also the interval of counts while the queue is full
)
SMALLER_BATCH_AFTER = (
    0.01  # seconds until a smaller batch is tried, if there is room for some of the events
)
LEASE_RECHECK = (
    0.2  # seconds until a stale owner tries once more; the log may report the loss first
)
MAX_RECENT_EVENTS = 2_000  # of all subscriptions together
MAX_RECENT_BYTES = 8 << 20  # bytes of keys, bodies and headers
STORED = SinkAnswer(202)
T = TypeVar("T")

_log = logging.getLogger("skybridge.worker")


class Wakeups:
    """Notifications within this process that a subscription changed.

    They report that messages of a pull queue arrived, left or were released. They also report that
    a subscription started or failed, or that a command was answered. They only save waiting:
    changes by other processes are found by polling the store. Use them on the event loop only.
    """

    def __init__(self) -> None:
        self._next: dict[str, asyncio.Event] = {}
        self._watchers: dict[str, Callable[[], None]] = {}
        self.recent = RecentPullEvents()

    def next(self, subscription: str) -> asyncio.Event:
        """Return an event that the next notification for the subscription sets. Get the event
        *before* reading the store, so that no change is missed.
        """
        return self._next.setdefault(subscription, asyncio.Event())

    def tell(self, subscription: str) -> None:
        """Notify all who wait for changes of the subscription."""
        event = self._next.pop(subscription, None)
        if event is not None:
            event.set()
        if subscription in self._watchers:
            self._watchers[subscription]()

    async def until(
        self,
        subscription: str,
        look: Callable[[], Awaitable[T | None]],
        within: float,
        every: float,
    ) -> T | None:
        """Call ``look`` until it returns a value, and return that value. Return None after
        ``within`` seconds.

        ``look`` is called at once, after each notification, and after ``every`` seconds without
        one.
        """
        loop = asyncio.get_running_loop()
        end = loop.time() + within
        while True:
            changed = self.next(subscription)
            found = await look()
            left = end - loop.time()
            if found is not None or left <= 0:
                return found
            with suppress(TimeoutError):
                async with asyncio.timeout(min(every, left)):
                    await changed.wait()

    def watch(self, subscription: str, notify: Callable[[], None]) -> None:
        """Call ``notify`` at each notification for the subscription. It replaces the previous
        watcher of the subscription.
        """
        self._watchers[subscription] = notify

    def unwatch(self, subscription: str) -> None:
        """Remove the watcher of the subscription."""
        self._watchers.pop(subscription, None)


class RecentPullEvents:
    """A cache of decoded events that this process stored in pull queues.

    Most events are pulled soon after, and need not be decoded again. The oldest entries are dropped
    first. The store remains the source of truth.
    """

    def __init__(self) -> None:
        self._messages: dict[tuple[str, Partition, str], tuple[Message, int]] = {}
        self._bytes = 0

    def __len__(self) -> int:
        return len(self._messages)

    def add(self, rows: Sequence[PullMessage]) -> None:
        for row in rows:
            if row.message.decoded is not None:
                place, size = _message_position(row), _size(row.message)
                self._take(place)
                self._messages[place] = row.message, size
                self._bytes += size
        while len(self) > MAX_RECENT_EVENTS or self._bytes > MAX_RECENT_BYTES:
            self._take(next(iter(self._messages)))

    def take(self, row: PullMessage) -> Decoded | None:
        """Remove and return the cached event of this row, or None. Most events are pulled only
        once.
        """
        message = self._take(_message_position(row))
        if message is None or message.time_ms != row.message.time_ms:
            return None  # a message of another log with the same position
        return message.decoded if message.record.body == row.message.record.body else None

    def _take(self, place: tuple[str, Partition, str]) -> Message | None:
        message, size = self._messages.pop(place, (None, 0))
        self._bytes -= size
        return message


def _message_position(row: PullMessage) -> tuple[str, Partition, str]:
    return row.subscription, row.message.partition, row.message.position


def _size(message: Message) -> int:
    record = message.record
    headers = sum([len(name) + len(value or b"") for name, value in record.headers])
    return len(record.body or b"") + len(record.key or b"") + headers


@dataclass(eq=False, repr=False)
class PullQueueSink(BatchSink):
    """The pull queue of one subscription, as a sink.

    The sink counts the rows in the store at most once a second. Events that it stored since the
    last count are added. Events that consumers finished are noticed at the next count. So the count
    tends to be too high. Two workers of one subscription may exceed the bound by what each stores
    within a second.

    ``_bound`` is the most messages that may wait, of all processes together
    (``sink.pull.max_waiting``). ``_wakeups`` is shared with the API that lets consumers of this
    process pull.
    """

    subscription: InitVar[Subscription]
    _queue: PullQueue
    _clock: Clock
    _wakeups: Wakeups
    _bound: int
    _jitter: Callable[[], float]

    def __post_init__(self, subscription: Subscription) -> None:
        self._name = subscription.id
        self._broker = subscription.source.broker
        self._counted: float | None = None
        self._full = False
        self._waiting = self._stored = 0
        self._failures = 0
        self._was_stale = False

    async def send(self, outgoing: DeliveryRequest) -> SinkAnswer:
        return await self.send_together((self.piece(outgoing),), outgoing.timeout)

    def piece(self, outgoing: DeliveryRequest) -> PullMessage:
        message = outgoing.message
        if message.decoded is not outgoing.decoded:
            message = replace(message, decoded=outgoing.decoded)
        return PullMessage(
            subscription=self._name,
            broker=self._broker,
            message=message,
            lane=outgoing.lane,
            event=event_name(outgoing.decoded),
            at_ms=int(self._clock.now() * 1000),
        )

    async def send_together(
        self,
        pieces: Sequence[PullMessage],
        within: float,  # noqa: ARG002 - the store has its own time-out
        beside: Sequence[Header] = (),  # noqa: ARG002 - headers of HTTP requests
    ) -> SinkAnswer:
        """Store the events, or return an answer that asks the worker to wait.

        Raise StaleOwner if the store has a newer owner of the partition, also at a second attempt.
        """
        try:
            free = await self._free()
            if free < len(pieces):
                detail = (
                    f"{self._waiting} events wait to be pulled: sink.pull.max_waiting is reached"
                )
                return SinkAnswer(
                    None, "full", detail, hold=SMALLER_BATCH_AFTER if free else COUNT_EVERY
                )
            await self._queue.offer(pieces)
        except StaleOwner as error:
            if self._was_stale:
                raise
            self._was_stale = True
            return SinkAnswer(None, "stale-owner", str(error), hold=LEASE_RECHECK)
        except StoreUnavailable as error:
            return self._store_failed(error)
        self._failures, self._was_stale = 0, False
        self._waiting += len(pieces)
        self._stored += len(pieces)
        self._wakeups.recent.add(pieces)
        self.tell()
        return STORED

    def tell(self) -> None:
        """Notify consumers of this process that events may be available."""
        self._wakeups.tell(self._name)

    async def count(self) -> None:
        """Count the waiting events of all processes in the store. Raise StoreUnavailable.

        Events that were stored here during the count are added, because the store may have missed
        them.
        """
        before = self._stored
        counted = await self._queue.count(self._name)
        self._waiting = counted + self._stored - before
        self._counted = self._clock.monotonic()

    def room(self) -> int:
        """Return how many events the next batch may have. While the queue is full, return the
        bound; the next batch then makes the sink count again."""
        return self._bound if self._full else max(1, self._bound - self._waiting)

    def queued(self) -> int:
        """Return the number of waiting events, as last counted."""
        return self._waiting

    def when_ready(self, ready: Callable[[], None]) -> None:
        """Call ``ready`` when a consumer of this process finishes events while the queue is full.
        Consumers of other processes are noticed at the next count.
        """
        self._wakeups.watch(self._name, lambda: ready() if self._full else None)

    async def stop(self) -> None:
        self._wakeups.unwatch(self._name)

    def _store_failed(self, error: StoreUnavailable) -> SinkAnswer:
        self._failures += 1
        detail = f"events to be pulled cannot be stored: {error}"
        _log.error("%s: %s", self._name, detail)
        pause = backoff_delay(self._failures, self._jitter())
        return SinkAnswer(None, "store", detail, hold=pause)

    async def _free(self) -> int:
        """Return how many more events the queue may hold. Raise StoreUnavailable.

        Once full, the queue reports 0 until an eighth of the bound is free. Otherwise the
        subscription would pause and resume with each message.
        """
        now = self._clock.monotonic()
        old = self._counted is None or now - self._counted >= COUNT_EVERY
        if old or self._full or self._waiting >= self._bound:
            await self.count()
        free = self._bound - self._waiting
        enough = max(1, self._bound // 8) if self._full else 1
        self._full = free < enough
        return 0 if self._full else free
