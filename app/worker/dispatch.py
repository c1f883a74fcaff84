"""One subscription: asks the log for batches, hands them to the scheduler, settles what is finished.

Only this task talks to the consumer. Each turn: settle, make ready what is newly ours, steer (which
partitions may be read), poll, act on what came. Nothing is settled before it is finished (rule 2); the
window of each partition bounds what is taken (rule 4); nothing is taken of a partition whose parked
keys are not known (rule 5), nor while the endpoint is at fault (rule 6).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence

from app.errors import PositionOutOfRange
from app.interfaces import Consumer, Waiting
from app.model.message import ConsumerEvent, Message
from app.model.start import start_at
from app.model.subscription_status import SubscriptionStatus
from app.telemetry.slices import Turns
from app.worker.components import Components
from app.worker.gate import halt_words
from app.worker.intake import Intake
from app.worker.report import StatusReport

BUSY, IDLE = 0.05, 0.5  # seconds a poll may wait while attempts are on the wire, and while none is
AT_REST = 120.0  # and while nothing is held: a thousand may be at rest, and each is nudged where there is work

_log = logging.getLogger("skybridge.worker")


class Dispatcher:
    """``run`` until ``stop``; a dispatcher runs once. ``begun``: called when it is in its group."""

    def __init__(self, components: Components, begun: Callable[[], None] = lambda: None) -> None:
        shared = components.shared
        self._components = components
        self._begun = begun
        self._subscription, self._store = shared.subscription, shared.store
        self._attempts, self._scope = shared.attempts, shared.scope
        self._timekeeper, self._part = shared.timekeeper, shared.part
        self._intake = Intake(shared, components)
        self._report = StatusReport(shared, components)
        self._turns = Turns()
        self._consumer: Consumer | None = None
        self._drain_time = components.hand_over
        self._stopping, self._stopped = asyncio.Event(), asyncio.Event()
        self._state = "starting"
        self._told = False  # to send, or not to

    async def run(self) -> None:
        """Returns when stopped, or when a position is out of range (rule 10: it asks). Raises what
        went wrong otherwise, one error or a group of them: a member that its broker has failed may
        own nothing from then on, without a word, so the dispatcher is restarted."""
        try:
            await self._halt_if_asked()
            consumer = self._consumer = await self._subscribe()
            if consumer is None:
                return
            try:
                await self._work(consumer)
            finally:
                self._state = "stopping"
                self._consumer = None
                await consumer.close()
        finally:
            self._part.leave()
            self._state = "stopped"
            self._stopped.set()

    async def _subscribe(self) -> Consumer | None:
        """Join the group. Return None, halted, if the start is outside of the log."""
        subscription = self._subscription
        try:
            return await self._components.log.subscribe(
                self._components.group,
                subscription.source.topics,
                start_at(subscription.start),
                client_id=f"skybridge-{subscription.id}",
                wanted=self._components.reader.consumer_filter(self._attempts.passed_over),
            )
        except PositionOutOfRange as error:
            cure = "set start to a position that is held, a time, earliest or latest"
            self._halt_at(f"{error}; {cure}")
            return None

    def _halt_at(self, cause: str) -> None:
        """Deliver nothing more until a person changes the subscription (rule 10)."""
        self._components.gate.halt(f"position out of range: {cause}")
        self._report.trouble = self._components.gate.halted
        _log.error("subscription %s stops: %s", self._subscription.id, self._report.trouble)

    async def stop(self, drain: float) -> None:
        """Take nothing more, give attempts on the wire ``drain`` seconds, settle, leave (rule 11)."""
        self._drain_time = drain
        self._components.gate.halt("stopping")
        self._stopping.set()
        self._components.scheduler.landed.set()
        self._nudge()
        await self._stopped.wait()

    def enable(self) -> None:
        """Send again after a 410, or a pause; the caller has told the store."""
        self._told = True
        if not self._stopping.is_set():
            self._components.gate.halt("")
            self._timekeeper.soon()
            self._nudge()

    def pause(self, cause: str) -> None:
        self._told = True
        self._components.gate.halt(cause)
        self._nudge()

    def look(self, *, replays: bool = True) -> None:
        """The store changed: dead letters may have been given back (redrive), a replay asked for.
        ``replays``: whether the store has any of ours."""
        self._components.redrive.look()
        if replays or self._components.replays.busy:
            self._components.replays.look()

    def status(self) -> SubscriptionStatus:
        return self._report.status(self._state, self._consumer)

    def waiting(self, event_id: str) -> list[Waiting]:
        """The events of this id that are held, are no rows of the store and were not tried yet."""
        return self._report.waiting(event_id)

    @property
    def disabled(self) -> bool:
        """By its target's 410, which the store knows of."""
        return self._components.gate.known_disabled

    async def _halt_if_asked(self) -> None:
        halt = (await self._store.halts.all()).get(self._subscription.id)
        if self._told:
            return  # it is newer than what was read
        if halt is not None:
            self._components.gate.halt(halt_words(halt))
        elif self._subscription.paused:
            self._components.gate.halt("paused by its configuration")

    async def _work(self, consumer: Consumer) -> None:
        async with self._scope as scope:
            scope.spawn(self._timekeeper.keep(self._act), f"{self._subscription.id} timekeeper")
            for watch in self._components.watches:
                scope.spawn(watch.watch(), f"{self._subscription.id} watch")
            self._state = "running"
            self._begun()
            await self._consume(consumer)
            self._state = "stopping"
            ownership = self._components.ownership
            await ownership.land({*ownership.partitions}, self._drain_time)
            scope.cancel()
            await self._components.replays.note()
        await self._components.commits.settle(consumer)

    def _act(self, now: float) -> float | None:
        """What is due by the clock, and when something is next."""
        moments = (
            self._components.drain.probe_if_due(now),
            self._components.scheduler.act(now),
            self._components.drain.act(now),
            self._components.redrive.act(now)
            if self._components.gate.is_open and self._components.ownership.ready
            else None,
        )
        return min((moment for moment in moments if moment is not None), default=None)

    async def _consume(self, consumer: Consumer) -> None:
        while not self._stopping.is_set():
            try:
                await self._turn(consumer)
            except PositionOutOfRange as error:
                self._halt_at(f"{error}; delete the subscription and create it with another start")
                return

    async def _turn(self, consumer: Consumer) -> None:
        await self._components.commits.settle(consumer)
        await self._components.ownership.make_ready()
        if self._components.lanes.waiting:
            self._components.scheduler.park_holding()
        full = self._intake.full(consumer)
        at_bound = self._intake.at_bound(full)
        if self._intake.is_brief:
            await self._intake.room(BUSY)
            return
        self._components.commits.hold_back(consumer, full)
        wait = self._patience()
        if at_bound:
            await self._intake.room(BUSY)
            wait = 0.0
        event = await consumer.poll(wait)
        if event is not None:
            await self._act_on(event, consumer)

    def _patience(self) -> float:
        """How long a poll may wait. Code that makes work for a turn while nothing is held must nudge."""
        if self._components.scheduler.busy:
            return BUSY
        at_work = (
            self._components.lanes.held
            or len(self._components.commits)
            or self._components.parking.unwritten
        )
        waits = not self._components.ownership.settled or self._components.parking.full
        waits = waits or (
            bool(self._components.commits.paused) and not self._components.gate.halted
        )  # for room, or for its endpoint
        return IDLE if at_work or waits else AT_REST

    def _nudge(self) -> None:
        if self._consumer is not None:
            self._consumer.nudge()

    async def _act_on(self, event: ConsumerEvent, consumer: Consumer) -> None:
        if isinstance(event, tuple):
            await self._take(event)
            self._components.scheduler.wake()
        else:
            await self._components.ownership.follow(event, consumer)

    async def _take(self, messages: Sequence[Message]) -> None:
        """Queue wanted messages in their lanes, or behind their parked key; finish the others."""
        parked, sources = self._components.parking.lanes, self._components.ownership.sources
        reader = self._components.reader
        for message in messages:
            if message.decoded is None:
                await self._turns.spend(reader.units)
            delivery = reader.read(message, sources[message.partition])
            if isinstance(delivery, str):
                self._components.commits.add(message)
                self._attempts.finished(delivery)
            elif parked.find(delivery.lane) is None:
                self._components.scheduler.add(delivery)
            else:
                self._components.scheduler.park(delivery)
