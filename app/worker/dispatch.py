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
from collections.abc import Callable, Collection

from app.bindings.table import BINDINGS
from app.delivery.endpoint import Flow
from app.delivery.lanes import Lanes
from app.errors import PositionOutOfRange
from app.interfaces import Clock, Consumer, Log, Notify, Sink, Store, Waiting, silence
from app.model.message import Assigned, ConsumerEvent, Lost, Message, Partition, Revoked
from app.model.pull import Pull
from app.model.subscription import Subscription
from app.model.subscription_status import SubscriptionStatus
from app.sinks.dead_letters import DeadLettering
from app.sinks.pull_queue import PullQueueSink, Wakeups
from app.worker.attempts import AttemptLog
from app.worker.budget import MOST_HELD, Budget
from app.worker.conclusions import Conclusions
from app.worker.decode_and_filter import DeliveryReader
from app.worker.delivery import Delivery
from app.worker.delivery_policy import lanes_in_flight
from app.worker.drain_parked import Drain
from app.worker.expiry_alarm import ExpiryAlarm
from app.worker.gate import Gate
from app.worker.joining import start_at
from app.worker.offset_commits import OffsetCommits
from app.worker.origins import LogPartition, OwnedPartition
from app.worker.ownership import Ownership
from app.worker.parking import Parking
from app.worker.probing import Probing
from app.worker.pull_upkeep import PullUpkeep
from app.worker.redrive import Redrive
from app.worker.replay import Replays
from app.worker.scheduler import Scheduler
from app.worker.shared import DispatcherPart, Shared
from app.worker.status import halt_words
from app.worker.stored_rows import StoredRows
from app.worker.tasks import TaskScope
from app.worker.timing import Timekeeper
from app.worker.waiting import happened

BUSY, IDLE = 0.05, 0.5  # seconds a poll may wait while attempts are on the wire, and while none is
AT_REST = 30.0  # and while nothing is held: a thousand may be at rest, and each is nudged where there is work
HAND_OVER = 4.0  # seconds to wait for attempts on the wire when a partition is taken from us; a log
# waits 5 s, and what is settled later than that is void
BRIEF = 0.5  # seconds that it may be full without a pause, which throws away what was read ahead

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
        self._clock = clock
        self._group = group
        self._sink = sink
        self._attempts = attempts
        self._hand_over = self._drain_time = hand_over
        self._consumer: Consumer | None = None
        self._full_since: float | None = None
        self._stopping, self._stopped = asyncio.Event(), asyncio.Event()
        self._state = "starting"
        self._trouble = ""
        self._ready: dict[Partition, OwnedPartition] = {}
        self._sources: dict[Partition, LogPartition] = {}

        lasting, ready = log.capabilities.positions, self._ready
        self._scope = TaskScope()
        self._timekeeper = Timekeeper(clock)
        self._part = (budget or Budget()).join(self._timekeeper.soon)
        shared = Shared(
            subscription,
            store,
            clock,
            jitter,
            self._scope,
            self._timekeeper,
            attempts,
            self._part,
        )
        self._lanes = lanes = Lanes[Delivery](lanes_in_flight(subscription))
        self._commits = OffsetCommits(clock)
        self._gate = gate = Gate(shared, notify)
        self._reader = reader = DeliveryReader(
            subscription, BINDINGS[kind].decode, lasting=lasting, failed=attempts.filter_failed
        )
        letters = DeadLettering(subscription, clock, attempts.counters, copies, notify)
        self._rows = rows = StoredRows(shared)
        self._parking = parking = Parking(shared, lanes, lasting=lasting)
        conclusions = Conclusions(shared, lanes, gate, parking, letters)
        self._scheduler = scheduler = Scheduler(shared, sink, lanes, gate, parking, conclusions)
        self._drain = drain = Drain(shared, reader, scheduler, gate, parking, rows, ready)
        self._redrive = Redrive(shared, reader, scheduler, rows, ready)
        self._replays = Replays(shared, log, reader, scheduler, parking, ready)
        self._probing = Probing(gate, scheduler, parking, drain)
        self._ownership = Ownership(shared, drain, ready, generations=log.capabilities.generations)
        self._lasting: list[ExpiryAlarm | PullUpkeep] = [
            ExpiryAlarm(shared, log, notify, group=group, gate=gate)
        ]
        if isinstance(subscription.sink, Pull) and isinstance(sink, PullQueueSink):
            settings = subscription.sink.pull
            upkeep = PullUpkeep(shared, settings, letters, wakeups or Wakeups(), sink)
            self._lasting.append(upkeep)
        self._parts: tuple[DispatcherPart, ...] = (
            self._ownership,
            gate,
            conclusions,
            parking,
            rows,
            drain,
            self._redrive,
            self._replays,
        )

    async def run(self) -> None:
        """Returns when stopped, or when a position is out of range (rule 10: it asks). Raises what
        went wrong otherwise, one error or a group of them: a member that its broker has failed may
        own nothing from then on, without a word, so whoever runs us begins anew."""
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
        """Send again after a 410, or a pause; whoever asks has told the store."""
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
        endpoint, lanes = self._gate.endpoint, self._lanes
        paused_for = None
        if endpoint.flow is not Flow.FLOWING:
            paused_for = max(0.0, endpoint.until - self._clock.monotonic())
        return SubscriptionStatus(
            id=self._subscription.id,
            sink=self._subscription.sink_text,
            broker=self._subscription.source.broker,
            group=self._group,
            state=self._state_word(),
            cause=self._cause(),
            partitions=tuple(sorted(self._ownership.partitions, key=str)),
            held=lanes.held,
            in_flight=lanes.flying,
            waiting=lanes.waiting + self._sink.queued(),
            window=self._window(),
            paused_for=paused_for,
            oldest=self._oldest(),
            parked_rows=self._parking.kept,
            parked_keys=len(self._parking.lanes),
        )

    def _cause(self) -> str:
        """What hinders it, in words for a person; the gravest first."""
        causes = (
            self._trouble,
            *(part.trouble for part in self._lasting),
            self._gate.halted,
            self._gate.endpoint.cause,
            *(part.trouble for part in self._parts),
            self._parking.full_cause,
        )
        return next(filter(None, causes), "")

    def waiting(self, event_id: str) -> list[Waiting]:
        """The events of this id that are held, are no rows of the store and were not tried yet."""
        return [
            Waiting(
                subscription=self._subscription.id,
                partition=delivery.message.partition,
                position=delivery.message.position,
                event=name,
                behind=head.name if ahead else None,
                parked=False,
            )
            for head, *others in self._lanes.queues()
            for ahead, delivery in enumerate((head, *others))
            if delivery.origin.since_ms is None and not delivery.attempts
            if (name := delivery.name).id == event_id
        ]

    def _oldest(self) -> float | None:
        heads = (head for head in self._lanes.heads() if head.origin.ages)
        came = min((head.message.time_ms for head in heads), default=None)
        return None if came is None else max(0.0, self._clock.now() - came / 1000)

    def _window(self) -> int:
        """The longest of the partitions'; 0 while there is no consumer."""
        consumer = self._consumer
        if consumer is None:
            return 0
        return max(
            (consumer.window(partition) for partition in self._ownership.partitions), default=0
        )

    @property
    def disabled(self) -> bool:
        """By its target's 410, which the store knows of."""
        return self._gate.known_disabled

    def _state_word(self) -> str:
        if self._state != "running" or self._gate.is_open:
            return self._state
        return "disabled" if self._gate.disabled else "paused"

    async def _halt_if_asked(self) -> None:
        halt = (await self._store.halts.all()).get(self._subscription.id)
        if halt is not None:
            self._gate.halt(halt_words(halt))
        elif self._subscription.paused:
            self._gate.halt("paused by its configuration")

    async def _work(self, consumer: Consumer) -> None:
        async with self._scope as scope:
            scope.spawn(self._timekeeper.keep(self._act), f"{self._subscription.id} timekeeper")
            for part in self._lasting:
                scope.spawn(part.watch(), f"{self._subscription.id} watch")
            self._state = "running"
            await self._consume(consumer)
            self._state = "stopping"
            await self._land({*self._ownership.partitions}, self._drain_time)
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
                self._trouble = self._gate.halted
                _log.error("%s stops: %s", self._subscription.id, self._trouble)
                return

    async def _turn(self, consumer: Consumer) -> None:
        await self._commits.settle(consumer)
        await self._make_ready()
        if self._lanes.waiting:
            self._scheduler.park_holding()
        full = self._full(consumer)
        at_bound = self._at_bound(full)
        if at_bound and self._is_brief():
            await self._room()
            return
        self._commits.hold_back(consumer, full)
        wait = self._patience()
        if at_bound:
            await self._room()
            wait = 0.0
        event = await consumer.poll(wait)
        if event is not None:
            await self._act_on(event, consumer)

    def _patience(self) -> float:
        """How long a poll may wait. Who makes work for a turn while nothing is held must nudge."""
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
        match event:
            case Assigned(partitions, epoch):
                self._attempts.assigned()
                self._forget(set(partitions))
                self._own(partitions, epoch, consumer)
                await self._make_ready()
            case Revoked(partitions):
                gone = set(partitions)
                self._drop(gone)
                await self._land(gone, self._hand_over)
                await self._commits.settle(consumer)
                self._forget(gone)
            case Lost(partitions):
                self._forget(set(partitions))
            case _:
                for message in event:
                    self._take(message)
                self._scheduler.wake()

    def _own(self, partitions: Collection[Partition], epoch: int, consumer: Consumer) -> None:
        window = self._subscription.window
        owned = [OwnedPartition(each, epoch, consumer, window) for each in partitions]
        for each in owned:
            self._sources[each.partition] = LogPartition(
                each, self._store.letters, self._parking, self._commits
            )
        self._ownership.assigned(owned)

    async def _make_ready(self) -> None:
        if await self._ownership.settle():
            self._redrive.look()
            self._replays.look()

    def _take(self, message: Message) -> None:
        """To its lane, behind its parked key, or finished by not being wanted."""
        delivery = self._reader.read(message, self._sources[message.partition])
        if isinstance(delivery, str):
            self._commits.add(message)
            self._attempts.finished(delivery)
        elif self._parking.lanes.find(delivery.lane) is None:
            self._scheduler.add(delivery)
        else:
            self._scheduler.park(delivery)

    def _drop(self, gone: set[Partition]) -> None:
        """What is held or being parked of these partitions; what is on the wire lands by itself."""
        self._ownership.lose(gone)
        self._parking.drop(gone)
        self._rows.look()
        self._scheduler.drop(gone)

    def _forget(self, gone: set[Partition]) -> None:
        """All of these partitions concerns others now."""
        self._drop(gone)
        self._commits.forget(gone)
        self._ownership.drop(gone)
        self._replays.drop(gone)

    def _busy(self, partitions: set[Partition]) -> bool:
        """Whether something of these partitions is on the wire, or on its way to the store."""
        parts = (self._parking, self._rows)
        return self._scheduler.flying(partitions) or any(part.busy(partitions) for part in parts)

    async def _land(self, partitions: set[Partition], seconds: float) -> None:
        """Wait for the attempts of these partitions that are on the wire, at most so long."""
        landed = self._scheduler.landed
        deadline = self._clock.monotonic() + seconds
        while self._busy(partitions) and (left := deadline - self._clock.monotonic()) > 0:
            self._scheduler.tell_after(1)
            await happened(landed, self._clock, min(left, BUSY))

    def _full(self, consumer: Consumer) -> set[Partition]:
        """Of which nothing more may be taken; once full, until an eighth of it is free."""
        owned, paused = self._ownership.partitions, self._commits.paused
        held = MOST_HELD * 7 // 8 if paused else MOST_HELD
        if not self._scheduler.takes or self._part.held > held or not self._part.may_hold():
            return set(owned)
        if self._parking.full:
            return set(owned)
        most = self._subscription.window
        eighth = max(1, most // 8) - 1
        return {
            each
            for each in owned
            if each not in self._ready
            or consumer.window(each) >= (most - eighth if each in paused else most)
        }

    def _at_bound(self, full: set[Partition]) -> bool:
        """All that could be read is full, and attempts are under way that will make room."""
        owned = self._ownership.partitions.keys()
        at_bound = bool(full) and full == owned and self._scheduler.busy
        if not at_bound:
            self._full_since = None
        elif self._full_since is None:
            self._full_since = self._clock.monotonic()
        return at_bound

    def _is_brief(self) -> bool:
        """Nothing is paused yet, and it has been full for a moment only."""
        since, now = self._full_since, self._clock.monotonic()
        return since is not None and now - since < BRIEF and not self._commits.paused

    async def _room(self) -> None:
        """Until an eighth of what is held came down, or a moment is over."""
        self._scheduler.tell_after(max(1, self._lanes.held // 8))
        await happened(self._scheduler.landed, self._clock, BUSY)
