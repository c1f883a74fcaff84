"""A queue that consumers pull from, as a sink: an event is delivered to it once it is a row of the store.

From then on its lock tokens say which consumer has it. A full queue pauses the subscription: the log is
the buffer (rule 6).
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
from app.delivery.backoff import try_again_in
from app.errors import StaleOwner, StoreUnavailable
from app.interfaces import Clock, JoiningSink, Offered, Outgoing, PullQueue, SinkAnswer
from app.interfaces.kept import event_name
from app.model.message import Message, Partition
from app.model.subscription import Subscription

COUNT_EVERY = 1.0  # seconds that a count is believed, and between looks for room while it is full
SOME_ROOM = 0.01  # seconds until a smaller request is made, where there is room for some of these
LEASE_RECHECK = 0.2  # seconds until the log says that a partition has a newer owner
REMEMBERED = 2_000  # events, of all subscriptions
REMEMBERED_BYTES = 8 << 20  # of their data and headers
STORED = SinkAnswer(202)
T = TypeVar("T")

_log = logging.getLogger("skybridge.worker")


class Wakeups:
    """Word within this process that a subscription changed: messages to be pulled came, went or were freed, it began or
    failed, one of its commands was answered. Must be used on the event loop. It only saves waiting: what other
    processes do is found by looking at the store now and then.
    """

    def __init__(self) -> None:
        self._next: dict[str, asyncio.Event] = {}
        self._watchers: dict[str, Callable[[], None]] = {}
        self.recent = RecentEvents()

    def next(self, subscription: str) -> asyncio.Event:
        """Set by the next word. To be taken *before* the look that it makes worth repeating."""
        return self._next.setdefault(subscription, asyncio.Event())

    def tell(self, subscription: str) -> None:
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
        """Return what ``look`` finds; None if that is nothing within so many seconds. It is called at once, after each
        word, and after ``every`` seconds without one."""
        loop = asyncio.get_running_loop()
        end = loop.time() + within
        while True:
            word = self.next(subscription)
            found = await look()
            left = end - loop.time()
            if found is not None or left <= 0:
                return found
            with suppress(TimeoutError):
                async with asyncio.timeout(min(every, left)):
                    await word.wait()

    def watch(self, subscription: str, told: Callable[[], None]) -> None:
        """``told`` is called with each word, instead of what was called before."""
        self._watchers[subscription] = told

    def unwatch(self, subscription: str) -> None:
        self._watchers.pop(subscription, None)


class RecentEvents:
    """Events that this process stored lately, as it read them: most are handed out soon, and need not be decoded
    again. The oldest are forgotten first. The store has the truth: it only saves time."""

    def __init__(self) -> None:
        self._messages: dict[tuple[str, Partition, str], tuple[Message, int]] = {}
        self._bytes = 0

    def __len__(self) -> int:
        return len(self._messages)

    def add(self, rows: Sequence[Offered]) -> None:
        for row in rows:
            if row.message.decoded is not None:
                place, size = _place(row), _size(row.message)
                self._take(place)
                self._messages[place] = row.message, size
                self._bytes += size
        while len(self) > REMEMBERED or self._bytes > REMEMBERED_BYTES:
            self._take(next(iter(self._messages)))

    def take(self, row: Offered) -> Decoded | None:
        """The event of this row, if it is remembered. Most are handed out once."""
        message = self._take(_place(row))
        if message is None or message.time_ms != row.message.time_ms:
            return None  # another log had that position
        return message.decoded if message.record.body == row.message.record.body else None

    def _take(self, place: tuple[str, Partition, str]) -> Message | None:
        message, size = self._messages.pop(place, (None, 0))
        self._bytes -= size
        return message


def _place(row: Offered) -> tuple[str, Partition, str]:
    return row.subscription, row.message.partition, row.message.position


def _size(message: Message) -> int:
    record = message.record
    headers = sum([len(name) + len(value or b"") for name, value in record.headers])
    return len(record.body or b"") + len(record.key or b"") + headers


@dataclass(eq=False, repr=False)
class PullQueueSink(JoiningSink):
    """Of one subscription. It counts in the store as seldom as it may: what was offered here since the
    last count is added, what left is not known before the next one. So it errs to *full*; two workers of
    one subscription may go beyond the bound by what each offers within a second.

    ``bound``    most messages that wait, of all processes together (``sink.pull.max_waiting``).
    ``wakeups``  shared with what hands out in this process.
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

    async def send(self, outgoing: Outgoing) -> SinkAnswer:
        return await self.send_together((self.piece(outgoing),), outgoing.timeout)

    def piece(self, outgoing: Outgoing) -> Offered:
        message = outgoing.message
        if message.decoded is not outgoing.decoded:
            message = replace(message, decoded=outgoing.decoded)
        return Offered(
            subscription=self._name,
            broker=self._broker,
            message=message,
            lane=outgoing.lane,
            event=event_name(outgoing.decoded),
            at_ms=int(self._clock.now() * 1000),
        )

    async def send_together(
        self,
        pieces: Sequence[Offered],
        within: float,  # noqa: ARG002 - the store has a time-out of its own
        beside: Sequence[Header] = (),  # noqa: ARG002 - of requests
    ) -> SinkAnswer:
        """Raises StaleOwner where the store knows a newer owner, and the log does not after a while."""
        try:
            free = await self._free()
            if free < len(pieces):
                words = (
                    f"{self._waiting} events wait to be pulled: sink.pull.max_waiting is reached"
                )
                return SinkAnswer(None, "full", words, hold=SOME_ROOM if free else COUNT_EVERY)
            await self._queue.offer(pieces)
        except StaleOwner as error:
            if self._was_stale:
                raise
            self._was_stale = True
            return SinkAnswer(None, "stale-owner", str(error), hold=LEASE_RECHECK)
        except StoreUnavailable as error:
            return self._refused(error)
        self._failures, self._was_stale = 0, False
        self._waiting += len(pieces)
        self._stored += len(pieces)
        self._wakeups.recent.add(pieces)
        self.tell()
        return STORED

    def tell(self) -> None:
        """Those who wait for events: there may be some."""
        self._wakeups.tell(self._name)

    async def count(self) -> None:
        """How many wait, of all processes. Raises StoreUnavailable. What was stored here meanwhile may be
        missing in what the store says: it is added."""
        before = self._stored
        counted = await self._queue.count(self._name)
        self._waiting = counted + self._stored - before
        self._counted = self._clock.monotonic()

    def room(self) -> int:
        """While it is full nobody knows how many left meanwhile; the next request finds out."""
        return self._bound if self._full else max(1, self._bound - self._waiting)

    def queued(self) -> int:
        return self._waiting

    def when_ready(self, ready: Callable[[], None]) -> None:
        """When a consumer of this process finished some. Those of others are counted now and then."""
        self._wakeups.watch(self._name, lambda: ready() if self._full else None)

    async def stop(self) -> None:
        self._wakeups.unwatch(self._name)

    def _refused(self, error: StoreUnavailable) -> SinkAnswer:
        self._failures += 1
        words = f"events to be pulled cannot be stored: {error}"
        _log.error("%s: %s", self._name, words)
        pause = try_again_in(self._failures, self._jitter())
        return SinkAnswer(None, "store", words, hold=pause)

    async def _free(self) -> int:
        """Once full, 0 until an eighth is free: a subscription at its bound would go on and pause with
        each message otherwise. Raises StoreUnavailable."""
        now = self._clock.monotonic()
        old = self._counted is None or now - self._counted >= COUNT_EVERY
        if old or self._full or self._waiting >= self._bound:
            await self.count()
        free = self._bound - self._waiting
        enough = max(1, self._bound // 8) if self._full else 1
        self._full = free < enough
        return 0 if self._full else free
