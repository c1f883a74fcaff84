"""Receive events of pull subscriptions, and let a request wait until there are some.

The store has the whole state, so any process may answer any request. Requests that wait for the same
subscription take turns, in order of arrival. The request whose turn it is reads the store. It reads again
when this process reports a change, and every half second for changes by other processes.
"""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import Literal

from msgspec.structs import replace

from app.api.asked.brokers import Brokers
from app.api.http.moments import now_ms
from app.api.http.slices import ROW, Slices
from app.api.topics.messages import EventReader
from app.bindings.record import Decoded
from app.delivery.event_age import AgeLimits
from app.errors import BrokerError, StoreUnavailable
from app.interfaces import Clock, Notify, PullMessage, Store
from app.model.pull import PullSettings
from app.model.subscription import Subscription
from app.sinks.dead_letters import MAX_DELIVERIES, REJECTED, DeadLetterWriter
from app.sinks.pull_queue import Wakeups
from app.telemetry import Counters
from app.telemetry.traces import TRACEPARENT, TRACESTATE, messaging_system, trace_headers, traces

LOOK_EVERY = 0.5  # seconds between reads, for events of other processes and for expired locks
MOST_BYTES = 16 << 20  # of the records of one answer; the record that exceeds it is the last

_log = logging.getLogger("skybridge.api")

FIT, EXPIRED = "", "expired"
_DETAILS = {MAX_DELIVERIES: "received max_deliveries times and never acknowledged"}

LockedEvent = tuple[PullMessage, Decoded | None]
"""A row that is locked for a consumer, and the event in it, or None if it cannot be decoded."""


class PullCaller:
    """A client that waits for events, by the name of its token. ``gone`` is set when the connection is lost."""

    def __init__(self, name: str = "") -> None:
        self.name = name
        self.gone = asyncio.Event()


class PullReceiver:
    """A receiver that locks events of pull subscriptions for the consumers that call this process.
    ``stopped`` ends all waiting when the service stops."""

    def __init__(
        self,
        brokers: Brokers,
        store: Store,
        wakeups: Wakeups,
        counters: Counters,
        clock: Clock,
        notify: Notify,
        stopped: asyncio.Event,
    ) -> None:
        self._brokers = brokers
        self._store = store
        self._wakeups = wakeups
        self._counters = counters
        self._clock = clock
        self._notify = notify
        self._stopped = stopped
        self._turns: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)

    async def receive(
        self,
        subscription: Subscription,
        settings: PullSettings,
        most: int,
        seconds: float,
        caller: PullCaller,
    ) -> list[LockedEvent]:
        """Return at least one event as soon as there is one, or none after ``seconds``. At most ``most``
        events are returned."""
        if not seconds:
            return await self._lock_page(subscription, settings, most, caller.name)
        deadline = asyncio.get_running_loop().time() + seconds
        turn = self._turns[subscription.id]
        if not await self._take_turn(turn, deadline, caller):
            return []
        try:
            return await self._poll(subscription, settings, most, deadline, caller)
        finally:
            turn.release()

    async def _take_turn(self, turn: asyncio.Lock, deadline: float, caller: PullCaller) -> bool:
        """Wait for the caller's turn to read the store. Return False if it did not come before the deadline;
        earlier callers found no events either."""
        asking = asyncio.ensure_future(turn.acquire())
        try:
            await self._wait_until(asking, deadline, caller)
        except BaseException:
            if not asking.cancel():  # the lock was acquired meanwhile
                turn.release()
            raise
        return not asking.cancel()

    async def _poll(
        self,
        subscription: Subscription,
        settings: PullSettings,
        most: int,
        deadline: float,
        caller: PullCaller,
    ) -> list[LockedEvent]:
        """Read the store until there are events, the deadline passes, the caller is gone or the service
        stops."""
        loop = asyncio.get_running_loop()
        while True:
            wakeup = self._wakeups.next(
                subscription.id
            )  # before the read, so that no change is missed
            if caller.gone.is_set():  # events would be locked for a client that is gone
                return []
            handed = await self._lock_page(subscription, settings, most, caller.name)
            if handed or self._stopped.is_set() or loop.time() >= deadline:
                return handed
            woken = asyncio.ensure_future(wakeup.wait())
            await self._wait_until(woken, min(deadline, loop.time() + LOOK_EVERY), caller)
            woken.cancel()

    async def _wait_until(
        self, done: asyncio.Task[Literal[True]], moment: float, caller: PullCaller
    ) -> None:
        """Wait for the task until a moment of the loop's clock, or until the caller is gone or the service
        stops."""
        others = [asyncio.ensure_future(each.wait()) for each in (self._stopped, caller.gone)]
        try:
            left = moment - asyncio.get_running_loop().time()
            await asyncio.wait(
                (done, *others), timeout=max(0.0, left), return_when=asyncio.FIRST_COMPLETED
            )
        finally:
            for each in others:
                each.cancel()

    async def _lock_page(
        self, subscription: Subscription, settings: PullSettings, most: int, consumer: str
    ) -> list[LockedEvent]:
        """Lock a page of events and return those that are still deliverable. If a page has none, the next
        page is read."""
        reading, recent = EventReader(self._brokers, subscription), self._wakeups.recent
        slices = Slices()
        while True:
            rows = await self._store.pulled.receive(
                subscription.id,
                most=most,
                most_bytes=MOST_BYTES,
                lock_ms=int(settings.lock * 1000),
                now_ms=now_ms(self._store.clock),
                consumer=consumer,
            )
            handed = await slices.each(
                ((row, reading.read(row.message, recent.take(row))) for row in rows), ROW
            )
            fit = await self._deliverable(subscription, settings, handed)
            if fit or not rows:
                return fit

    async def _deliverable(
        self, subscription: Subscription, settings: PullSettings, handed: Sequence[LockedEvent]
    ) -> list[LockedEvent]:
        """Return the events that are still deliverable, and finish the others. This request holds the locks
        of all. If finishing fails, the events stay locked and are finished after their locks expire."""
        fate_of = self._fate_function(subscription, settings)
        fit: list[LockedEvent] = []
        others: defaultdict[str, list[PullMessage]] = defaultdict(list)
        for each in handed:
            if fate := fate_of(*each):
                others[fate].append(each[0])
            else:
                fit.append(each)
        try:
            await self._finish(subscription, others)
        except (BrokerError, StoreUnavailable) as error:
            _log.warning(
                "%s: expired events and those at max_deliveries stay in the store: %s",
                subscription.id,
                error,
            )
        return fit

    def _fate_function(
        self, subscription: Subscription, settings: PullSettings
    ) -> Callable[[PullMessage, Decoded | None], str]:
        """Return a function that decides about a row: ``FIT``, ``EXPIRED``, or the cause of a dead letter."""
        most, now = settings.max_deliveries, self._clock.now()
        ages = AgeLimits(
            subscription.parked.retention,
            subscription.max_age,
            subscription.expirytime == "honour",
        )

        def fate(row: PullMessage, decoded: Decoded | None) -> str:
            if row.deliveries > most:
                return MAX_DELIVERIES
            attributes: Mapping[str, str] = {} if decoded is None else decoded.event.attributes
            if ages.expired(attributes.get("expirytime"), now):
                return EXPIRED
            return ages.too_old(now - row.message.time_ms / 1000, None) or FIT

        return fate

    async def _finish(
        self, subscription: Subscription, fates: Mapping[str, Sequence[PullMessage]]
    ) -> None:
        """Finish events that can no longer be delivered. They expire or become dead letters, by their
        fate."""
        for fate, rows in fates.items():
            if fate == EXPIRED:
                await self._expire(subscription, rows)
            else:
                undelivered = [
                    replace(row, deliveries=row.deliveries - 1) for row in rows
                ]  # this receive does not count
                await self._dead_letter(subscription, undelivered, fate, _DETAILS.get(fate, ""))

    async def _expire(self, subscription: Subscription, rows: Sequence[PullMessage]) -> None:
        tokens = [row.token for row in rows]
        queue = self._store.pulled
        done = await queue.acknowledge(subscription.id, tokens, now_ms(self._store.clock))
        self._count(subscription.id, "deliveries", EXPIRED, sum(done.values()))

    async def acknowledge(self, subscription: str, tokens: Sequence[str]) -> Mapping[str, bool]:
        """Finish events. Return for each token True if its lock was valid. ``release``, ``renew`` and
        ``reject`` return the same."""
        done = await self._store.pulled.acknowledge(subscription, tokens, now_ms(self._store.clock))
        self._count(subscription, "deliveries", "delivered", sum(done.values()))
        return self._wake_if_any(subscription, done)

    async def release(
        self, subscription: str, tokens: Sequence[str], delay: float
    ) -> Mapping[str, bool]:
        """Give events back. They can be received again after ``delay`` seconds."""
        done = await self._store.pulled.release(
            subscription, tokens, delay_ms=int(delay * 1000), now_ms=now_ms(self._store.clock)
        )
        return self._wake_if_any(subscription, done)

    async def renew(
        self, subscription: str, tokens: Sequence[str], lock: float
    ) -> Mapping[str, bool]:
        """Extend the locks of events to ``lock`` seconds from now."""
        done = await self._store.pulled.renew(
            subscription, tokens, lock_ms=int(lock * 1000), now_ms=now_ms(self._store.clock)
        )
        return self._wake_if_any(subscription, done)

    async def reject(
        self, subscription: Subscription, tokens: Sequence[str], detail: str
    ) -> Mapping[str, bool]:
        """Make events dead letters. Raise BrokerError if the copy for the dead-letter topic cannot be
        published."""
        rows = await self._store.pulled.locked(subscription.id, tokens, now_ms(self._store.clock))
        buried = await self._dead_letter(subscription, rows, REJECTED, detail)
        return {token: buried.get(token, False) for token in tokens}

    def _wake_if_any(self, subscription: str, done: Mapping[str, bool]) -> Mapping[str, bool]:
        """Wake the waiting requests if the operation succeeded for any token, because that may have unblocked
        further events. Return ``done``."""
        if any(done.values()):
            self._wakeups.tell(subscription)
        return done

    async def _dead_letter(
        self, subscription: Subscription, rows: Sequence[PullMessage], cause: str, detail: str
    ) -> Mapping[str, bool]:
        """Make the rows dead letters. Return for each token True if that succeeded, as
        ``DeadLetterWriter.put_rows`` does."""
        letters = subscription.dead_letter
        dead_lettering = DeadLetterWriter(
            subscription,
            self._store.clock,
            self._counters,
            None if letters is None else self._brokers.logs[letters.broker],
            self._notify,
        )
        buried = await dead_lettering.put_rows(self._store.pulled, rows, cause, detail)
        self._wakeups.tell(subscription.id)
        return buried

    def _count(self, subscription: str, name: str, label: str, by: int) -> None:
        if by:
            self._counters.add(name, subscription, label, by=by)


def trace_receive(
    asked: Mapping[str, str],
    subscription: Subscription,
    kind: str,
    handed: Sequence[LockedEvent],
    began: float,
) -> None:
    """Record the trace span of one receive: a child of the client's span, linked with each received event.

    A request that receives no events gets no span, because consumers poll all the time.

    Args:
        asked: The headers of the request.
        subscription: The subscription that was read.
        kind: The protocol of its broker.
        handed: The received events.
        began: When the request began to wait, in seconds since the epoch.
    """
    found = traces()
    if found is None:
        return
    topics = {row.message.partition.topic for row, _ in handed}
    about: dict[str, str | int] = {
        "messaging.system": messaging_system(kind),
        "messaging.operation.type": "receive",
        "messaging.operation.name": "receive",
        "messaging.batch.message_count": len(handed),
        "skybridge.subscription": subscription.id,
    }
    name = "receive"
    if len(topics) == 1:
        (about["messaging.destination.name"],) = topics
        name = f"receive {about['messaging.destination.name']}"
    events = [found.carried(trace_headers(row.message.record.headers)) for row, _ in handed]
    carried = {each: asked[each] for each in (TRACEPARENT, TRACESTATE) if each in asked}
    found.linked(name, "server", events, about, carried, began).end()
