"""One subscription: asks the log for batches, hands them to the scheduler, settles what is finished.

Only this task talks to the consumer. Each turn: settle, make ready what is newly ours, steer (which
partitions may be read), poll, act on what came. Nothing is settled before it is finished (rule 2); the
window of each partition bounds what is taken (rule 4); nothing is taken of a partition whose parked
keys are not known (rule 5), nor while the endpoint is at fault (rule 6).
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable, Sequence

from app.bindings.table import BINDINGS
from app.delivery.lanes import Lanes
from app.errors import PositionOutOfRange
from app.interfaces import Clock, Consumer, Log, Notify, Sink, Store, Waiting, silence
from app.model.message import ConsumerEvent, Message, Partition
from app.model.pull import Pull
from app.model.subscription import Subscription
from app.model.subscription_status import SubscriptionStatus
from app.sinks.dead_letters import DeadLettering
from app.sinks.pull_queue import PullQueueSink, Wakeups
from app.worker.attempts import AttemptLog
from app.worker.budget import Budget
from app.worker.components import Components
from app.worker.conclusions import Conclusions
from app.worker.decode_and_filter import DeliveryReader
from app.worker.delivery import Delivery
from app.worker.delivery_policy import lanes_in_flight
from app.worker.drain_parked import Drain
from app.worker.expiry_alarm import ExpiryAlarm
from app.worker.gate import Gate
from app.worker.intake import Intake
from app.worker.joining import start_at
from app.worker.offset_commits import OffsetCommits
from app.worker.origins import OwnedPartition
from app.worker.ownership import Ownership
from app.worker.parking import Parking
from app.worker.partition_changes import PartitionChanges
from app.worker.probing import Probing
from app.worker.pull_upkeep import PullUpkeep
from app.worker.redrive import Redrive
from app.worker.replay import Replays
from app.worker.report import StatusReport
from app.worker.scheduler import Scheduler
from app.worker.shared import Shared
from app.worker.status import halt_words
from app.worker.stored_rows import StoredRows
from app.worker.tasks import TaskScope
from app.worker.timing import Timekeeper

BUSY, IDLE = 0.05, 0.5  # seconds a poll may wait while attempts are on the wire, and while none is
AT_REST = 30.0  # and while nothing is held: a thousand may be at rest, and each is nudged where there is work
HAND_OVER = 4.0  # seconds to wait for attempts on the wire when a partition is taken from us; a log
# waits 5 s, and what is settled later than that is void

_log = logging.getLogger("skybridge.worker")


class Dispatcher:
    """``group`` is the consumer group, ``kind`` that of the source's broker. ``copies``: the log of the
    subscription's dead-letter topic. ``wakeups``: shared with what hands out events that are pulled.

    ``run`` until ``stop``; a dispatcher runs once.
    """

    def __init__(
        self,
        subscription: Subscription,
        log: Log,
        store: Store,
        sink: Sink,
        clock: Clock,
        *,
        group: str,
        attempts: AttemptLog,
        kind: str = "embedded",
        copies: Log | None = None,
        jitter: Callable[[], float] = random.random,
        hand_over: float = HAND_OVER,
        budget: Budget | None = None,
        notify: Notify = silence,
        wakeups: Wakeups | None = None,
    ) -> None:
        self._subscription = subscription
        self._log = log
        self._store = store
        self._group = group
        self._attempts = attempts
        self._drain_time = hand_over
        self._consumer: Consumer | None = None
        self._stopping, self._stopped = asyncio.Event(), asyncio.Event()
        self._state = "starting"

        lasting = log.capabilities.positions
        self._ready = ready = dict[Partition, OwnedPartition]()
        self._scope = TaskScope()
        self._timekeeper = Timekeeper(clock)
        self._part = (budget or Budget()).join(self._timekeeper.soon)
        scope, timekeeper, part = self._scope, self._timekeeper, self._part
        shared = Shared(subscription, store, clock, jitter, scope, timekeeper, attempts, part)
        self._lanes = lanes = Lanes[Delivery](lanes_in_flight(subscription))
        self._commits = OffsetCommits(clock)
        self._gate = gate = Gate(shared, notify)
        self._reader = reader = DeliveryReader(
            subscription, BINDINGS[kind].decode, lasting=lasting, failed=attempts.filter_failed
        )
        letters = DeadLettering(subscription, clock, attempts.counters, copies, notify)
        rows = StoredRows(shared)
        self._parking = parking = Parking(shared, lanes, lasting=lasting)
        conclusions = Conclusions(shared, lanes, gate, parking, letters)
        self._scheduler = scheduler = Scheduler(shared, sink, lanes, gate, parking, conclusions)
        self._drain = drain = Drain(shared, reader, scheduler, gate, parking, rows, ready)
        self._redrive = Redrive(shared, reader, scheduler, rows, ready)
        self._replays = Replays(shared, log, reader, scheduler, parking, ready)
        self._probing = Probing(gate, scheduler, parking, drain)
        self._ownership = Ownership(shared, drain, ready, generations=log.capabilities.generations)
        components = Components(
            *(sink, lanes, gate, parking, rows, conclusions, scheduler, drain),
            *(self._commits, self._ownership, self._redrive, self._replays),
        )
        self._changes = PartitionChanges(shared, components, hand_over)
        self._intake = Intake(shared, components)
        alarm = ExpiryAlarm(shared, log, notify, group=group, gate=gate)
        self._watches: list[ExpiryAlarm | PullUpkeep] = [alarm]
        if isinstance(subscription.sink, Pull) and isinstance(sink, PullQueueSink):
            pull, queues = subscription.sink.pull, wakeups or Wakeups()
            self._watches.append(PullUpkeep(shared, pull, letters, queues, sink))
        self._report = StatusReport(shared, components, group, self._watches)

    async def run(self) -> None:
        """Returns when stopped, or when a position is out of range (rule 10: it asks). Raises what
        went wrong otherwise, one error or a group of them: a member that its broker has failed may
        own nothing from then on, without a word, so the dispatcher is restarted."""
        try:
            await self._halt_if_asked()
            subscription = self._subscription
            consumer = await self._log.subscribe(
                self._group,
                subscription.source.topics,
                start_at(subscription),
                client_id=f"skybridge-{subscription.id}",
                wanted=self._reader.wanted(self._attempts.finished),
            )
            self._consumer = consumer
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

    async def stop(self, drain: float) -> None:
        """Take nothing more, give attempts on the wire ``drain`` seconds, settle, leave (rule 11)."""
        self._drain_time = drain
        self._gate.halt("stopping")
        self._stopping.set()
        self._scheduler.landed.set()
        self._nudge()
        await self._stopped.wait()

    def enable(self) -> None:
        """Send again after a 410, or a pause; the caller has told the store."""
        self._scheduler.allow()
        self._nudge()

    def pause(self, cause: str) -> None:
        self._gate.halt(cause)
        self._nudge()

    def look(self, *, replays: bool = True) -> None:
        """The store changed: dead letters may have been given back (redrive), a replay asked for.
        ``replays``: whether the store has any of ours."""
        self._redrive.look()
        if replays or self._replays.busy:
            self._replays.look()

    def status(self) -> SubscriptionStatus:
        return self._report.status(self._state, self._consumer)

    def waiting(self, event_id: str) -> list[Waiting]:
        """The events of this id that are held, are no rows of the store and were not tried yet."""
        return self._report.waiting(event_id)

    @property
    def disabled(self) -> bool:
        """By its target's 410, which the store knows of."""
        return self._gate.known_disabled

    async def _halt_if_asked(self) -> None:
        halt = (await self._store.halts.all()).get(self._subscription.id)
        if halt is not None:
            self._gate.halt(halt_words(halt))
        elif self._subscription.paused:
            self._gate.halt("paused by its configuration")

    async def _work(self, consumer: Consumer) -> None:
        async with self._scope as scope:
            scope.spawn(self._timekeeper.keep(self._act), f"{self._subscription.id} timekeeper")
            for watch in self._watches:
                scope.spawn(watch.watch(), f"{self._subscription.id} watch")
            self._state = "running"
            await self._consume(consumer)
            self._state = "stopping"
            await self._changes.land({*self._ownership.partitions}, self._drain_time)
            scope.cancel()
            await self._replays.note()
        await self._commits.settle(consumer)

    def _act(self, now: float) -> float | None:
        """What is due by the clock, and when something is next."""
        moments = (
            self._probing.act(now),
            self._scheduler.act(now),
            self._drain.act(now),
            self._redrive.act(now) if self._gate.is_open and self._ready else None,
        )
        return min((moment for moment in moments if moment is not None), default=None)

    async def _consume(self, consumer: Consumer) -> None:
        while not self._stopping.is_set():
            try:
                await self._turn(consumer)
            except PositionOutOfRange as error:
                self._gate.halt(f"position out of range: {error}")
                self._report.trouble = self._gate.halted
                _log.error("%s stops: %s", self._subscription.id, self._gate.halted)
                return

    async def _turn(self, consumer: Consumer) -> None:
        await self._commits.settle(consumer)
        await self._changes.make_ready()
        if self._lanes.waiting:
            self._scheduler.park_holding()
        full = self._intake.full(consumer)
        at_bound = self._intake.at_bound(full)
        if self._intake.is_brief:
            await self._intake.room(BUSY)
            return
        self._commits.hold_back(consumer, full)
        wait = self._patience()
        if at_bound:
            await self._intake.room(BUSY)
            wait = 0.0
        event = await consumer.poll(wait)
        if event is not None:
            await self._act_on(event, consumer)

    def _patience(self) -> float:
        """How long a poll may wait. Code that makes work for a turn while nothing is held must nudge."""
        if self._scheduler.busy:
            return BUSY
        at_work = self._lanes.held or len(self._commits) or self._parking.unwritten
        waits = not self._ownership.settled or self._parking.full
        waits = waits or (
            bool(self._commits.paused) and not self._gate.halted
        )  # for room, or for its endpoint
        return IDLE if at_work or waits else AT_REST

    def _nudge(self) -> None:
        if self._consumer is not None:
            self._consumer.nudge()

    async def _act_on(self, event: ConsumerEvent, consumer: Consumer) -> None:
        if isinstance(event, tuple):
            self._take(event)
            self._scheduler.wake()
        else:
            await self._changes.follow(event, consumer)

    def _take(self, messages: Sequence[Message]) -> None:
        """Each to its lane, behind its parked key, or finished by not being wanted."""
        parked, sources = self._parking.lanes, self._changes.sources
        for message in messages:
            delivery = self._reader.read(message, sources[message.partition])
            if isinstance(delivery, str):
                self._commits.add(message)
                self._attempts.finished(delivery)
            elif parked.find(delivery.lane) is None:
                self._scheduler.add(delivery)
            else:
                self._scheduler.park(delivery)
