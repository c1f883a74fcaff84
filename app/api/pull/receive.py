"""Hands out events of pull subscriptions, and lets a request wait until there are some.

Whatever is true stands in the store, so that any process may answer any request. Here is only waiting:
of those who wait for one subscription, one looks for all, in the order they came, when somebody in this
process says that something changed, and now and then for what others changed.
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
from app.api.topics.messages import Reading
from app.bindings.record import Decoded
from app.delivery.event_age import Ages
from app.errors import BrokerError, StoreUnavailable
from app.interfaces import Clock, Notify, Offered, Store
from app.model.pull import PullSettings
from app.model.subscription import Subscription
from app.sinks.dead_letters import MAX_DELIVERIES, REJECTED, DeadLettering
from app.sinks.pull_queue import Wakeups
from app.telemetry import Counters
from app.telemetry.traces import TRACEPARENT, TRACESTATE, carried_by, messaging_system, traces

LOOK_EVERY = (
    0.5  # seconds between looks for what other processes offered, and for locks that ran out
)
MOST_BYTES = 16 << 20  # of one answer's records; the one that goes beyond is the last

_log = logging.getLogger("skybridge.api")

FIT, EXPIRED = "", "expired"
_DETAILS = {MAX_DELIVERIES: "handed out max_deliveries times and never acknowledged"}

Handed = tuple[Offered, Decoded | None]
"""What was handed out, and the event in it."""


class Caller:
    """A waiting client, by the name of its token: ``gone`` is set when the connection is lost."""

    def __init__(self, name: str = "") -> None:
        self.name = name
        self.gone = asyncio.Event()


class HandingOut:
    """Of one process. ``stopped`` ends all waiting (rule 11)."""

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
        caller: Caller,
    ) -> list[Handed]:
        """At least one as soon as there is one; none after ``seconds``."""
        if not seconds:
            return await self._take(subscription, settings, most, caller.name)
        deadline = asyncio.get_running_loop().time() + seconds
        turn = self._turns[subscription.id]
        if not await self._take_turn(turn, deadline, caller):
            return []
        try:
            return await self._look(subscription, settings, most, deadline, caller)
        finally:
            turn.release()

    async def _take_turn(self, turn: asyncio.Lock, deadline: float, caller: Caller) -> bool:
        """False: not to be had in time. There was nothing for those before us either."""
        asking = asyncio.ensure_future(turn.acquire())
        try:
            await self._until(asking, deadline, caller)
        except BaseException:
            if not asking.cancel():  # it is done: the turn is ours
                turn.release()
            raise
        return not asking.cancel()

    async def _look(
        self,
        subscription: Subscription,
        settings: PullSettings,
        most: int,
        deadline: float,
        caller: Caller,
    ) -> list[Handed]:
        loop = asyncio.get_running_loop()
        while True:
            word = self._wakeups.next(subscription.id)  # before the look
            if caller.gone.is_set():  # what is handed out now would be locked for nobody
                return []
            handed = await self._take(subscription, settings, most, caller.name)
            if handed or self._stopped.is_set() or loop.time() >= deadline:
                return handed
            told = asyncio.ensure_future(word.wait())
            await self._until(told, min(deadline, loop.time() + LOOK_EVERY), caller)
            told.cancel()

    async def _until(
        self, done: asyncio.Task[Literal[True]], moment: float, caller: Caller
    ) -> None:
        """Or until the caller left, or we are to leave."""
        others = [asyncio.ensure_future(each.wait()) for each in (self._stopped, caller.gone)]
        try:
            left = moment - asyncio.get_running_loop().time()
            await asyncio.wait(
                (done, *others), timeout=max(0.0, left), return_when=asyncio.FIRST_COMPLETED
            )
        finally:
            for each in others:
                each.cancel()

    async def _take(
        self, subscription: Subscription, settings: PullSettings, most: int, consumer: str
    ) -> list[Handed]:
        """A page of which none is to be had any more is passed over, for there may be others behind it."""
        reading, recent = Reading(self._brokers, subscription), self._wakeups.recent
        slices = Slices()
        while True:
            rows = await self._store.pulled.receive(
                subscription.id,
                most=most,
                most_bytes=MOST_BYTES,
                lock_ms=int(settings.lock * 1000),
                now_ms=now_ms(self._clock),
                consumer=consumer,
            )
            handed = await slices.each(
                ((row, reading.read(row.message, recent.take(row))) for row in rows), ROW
            )
            fit = await self._fit(subscription, settings, handed)
            if fit or not rows:
                return fit

    async def _fit(
        self, subscription: Subscription, settings: PullSettings, handed: Sequence[Handed]
    ) -> list[Handed]:
        """Those that may be had; the others are finished here, for their locks are ours. Where that does
        not succeed they stay locked, and it is tried again when the locks ran out."""
        fate_of = self._fates(subscription, settings)
        fit: list[Handed] = []
        others: defaultdict[str, list[Offered]] = defaultdict(list)
        for each in handed:
            if fate := fate_of(*each):
                others[fate].append(each[0])
            else:
                fit.append(each)
        try:
            await self._finish(subscription, others)
        except (BrokerError, StoreUnavailable) as error:
            _log.warning(
                "%s: events at max_deliveries stay in the store: %s", subscription.id, error
            )
        return fit

    def _fates(
        self, subscription: Subscription, settings: PullSettings
    ) -> Callable[[Offered, Decoded | None], str]:
        """``FIT``, ``EXPIRED``, or the cause of a dead letter."""
        most, now = settings.max_deliveries, self._clock.now()
        ages = Ages(
            subscription.parked.retention,
            subscription.max_age,
            subscription.expirytime == "honour",
        )

        def fate(row: Offered, decoded: Decoded | None) -> str:
            if row.deliveries > most:
                return MAX_DELIVERIES
            attributes: Mapping[str, str] = {} if decoded is None else decoded.event.attributes
            if ages.expired(attributes.get("expirytime"), now):
                return EXPIRED
            return ages.too_old(row.message.time_ms, None, now) or FIT

        return fate

    async def _finish(
        self, subscription: Subscription, fates: Mapping[str, Sequence[Offered]]
    ) -> None:
        for fate, rows in fates.items():
            if fate == EXPIRED:
                await self._expire(subscription, rows)
            else:
                worn = [
                    replace(row, deliveries=row.deliveries - 1) for row in rows
                ]  # not this time
                await self._bury(subscription, worn, fate, _DETAILS.get(fate, ""))

    async def _expire(self, subscription: Subscription, rows: Sequence[Offered]) -> None:
        tokens = [row.token for row in rows]
        queue = self._store.pulled
        done = await queue.acknowledge(subscription.id, tokens, now_ms(self._clock))
        self._count(subscription.id, "deliveries", EXPIRED, sum(done.values()))

    async def acknowledge(self, subscription: str, tokens: Sequence[str]) -> Mapping[str, bool]:
        """Finish events. Return by token whether its lock held; so do the verbs below."""
        done = await self._store.pulled.acknowledge(subscription, tokens, now_ms(self._clock))
        self._count(subscription, "deliveries", "delivered", sum(done.values()))
        return self._told(subscription, done)

    async def release(
        self, subscription: str, tokens: Sequence[str], delay: float
    ) -> Mapping[str, bool]:
        """Give events back, to be handed out again after ``delay`` seconds."""
        done = await self._store.pulled.release(
            subscription, tokens, delay_ms=int(delay * 1000), now_ms=now_ms(self._clock)
        )
        return self._told(subscription, done)

    async def renew(
        self, subscription: str, tokens: Sequence[str], lock: float
    ) -> Mapping[str, bool]:
        """Extend the locks of events to ``lock`` seconds from now."""
        done = await self._store.pulled.renew(
            subscription, tokens, lock_ms=int(lock * 1000), now_ms=now_ms(self._clock)
        )
        return self._told(subscription, done)

    async def reject(
        self, subscription: Subscription, tokens: Sequence[str], detail: str
    ) -> Mapping[str, bool]:
        """Move events to the dead letters. Raises BrokerError if the copy of a letter cannot be published."""
        rows = await self._store.pulled.locked(subscription.id, tokens, now_ms(self._clock))
        buried = await self._bury(subscription, rows, REJECTED, detail)
        return {token: buried.get(token, False) for token in tokens}

    def _told(self, subscription: str, done: Mapping[str, bool]) -> Mapping[str, bool]:
        """Wake those that wait: what was done may have freed what they wait for."""
        if any(done.values()):
            self._wakeups.tell(subscription)
        return done

    async def _bury(
        self, subscription: Subscription, rows: Sequence[Offered], cause: str, detail: str
    ) -> Mapping[str, bool]:
        """By token, as ``DeadLettering.put_rows``."""
        letters = subscription.dead_letter
        dead_lettering = DeadLettering(
            subscription,
            self._clock,
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


def tell_received(
    asked: Mapping[str, str],
    subscription: Subscription,
    kind: str,
    handed: Sequence[Handed],
    began: float,
) -> None:
    """The span of one handing out: a child of the client's, and linked with each event that was handed out. There is
    none of a request that got nothing: consumers ask again and again. ``asked``: headers of the request.
    ``began``: seconds since the epoch, when it began to wait."""
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
    events = [found.carried(carried_by(row.message.record.headers)) for row, _ in handed]
    carried = {each: asked[each] for each in (TRACEPARENT, TRACESTATE) if each in asked}
    found.linked(name, "server", events, about, carried, began).end()
