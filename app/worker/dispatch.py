"""One subscription: asks the log for batches, hands them to the courier, settles what is finished.

Only this task talks to the consumer. Each turn: settle, make ready what is newly ours, steer (which
partitions may be read), poll, act on what came. Nothing is settled before it is finished (rule 2); the
window of each partition bounds what is taken (rule 4); nothing is taken of a partition whose parked
keys are not known (rule 5), nor while the endpoint is at fault (rule 6).
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable

from app.delivery.endpoint import Flow
from app.errors import PositionOutOfRange
from app.interfaces import Clock, Consumer, Log, Notify, Sink, Store, Waiting, silence
from app.model.message import Assigned, ConsumerEvent, Lost, Partition, Revoked
from app.model.subscription import Subscription
from app.model.subscription_status import SubscriptionStatus
from app.worker.attempts import AttemptLog
from app.worker.budget import Budget
from app.worker.joining import start_at
from app.worker.settling import Settling
from app.worker.status import halt_words
from app.worker.waiting import happened
from app.worker.way_out import WayOut

BUSY, IDLE = 0.05, 0.5  # seconds a poll may wait while attempts are on the wire, and while none is
AT_REST = 30.0  # and while nothing is held, where a poll can be nudged: a thousand may be at rest
HAND_OVER = 4.0  # seconds to wait for attempts on the wire when a partition is taken from us; a log
# waits 5 s, and what is settled later than that is void
MOST_HELD = 64 * 2**20  # bytes held for one subscription; beyond them nothing is taken

_log = logging.getLogger("skybridge.worker")


class Dispatcher:
    """``group`` is the consumer group, ``kind`` that of the source's broker. ``copies``: the log of the
    subscription's dead-letter topic.

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
    ) -> None:
        self._subscription = subscription
        self._log = log
        self._store = store
        self._clock = clock
        self._group = group
        self._attempts = attempts
        self._hand_over = hand_over
        self._out = WayOut(
            subscription,
            log,
            store,
            sink,
            clock,
            group=group,
            attempts=attempts,
            kind=kind,
            copies=copies,
            jitter=jitter,
            budget=budget or Budget(),
            notify=notify,
        )
        self._courier, self._parking = self._out.courier, self._out.parking
        self._conclusions, self._ownership = self._out.conclusions, self._out.ownership
        self._consumer: Consumer | None = None
        self._settling = Settling(self._conclusions, clock)
        self._stopping = asyncio.Event()
        self._stopped = asyncio.Event()
        self._drain = hand_over
        self._state = "starting"
        self._trouble = ""

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
                wanted=self._out.intake.wanted(self._attempts.finished),
            )
            self._consumer = consumer
            try:
                await self._work(consumer)
            finally:
                self._state = "stopping"
                self._consumer = None
                await consumer.close()
        finally:
            self._out.end()
            self._state = "stopped"
            self._stopped.set()

    async def stop(self, drain: float) -> None:
        """Take nothing more, give attempts on the wire ``drain`` seconds, settle, leave (rule 11)."""
        self._drain = drain
        self._courier.halt("stopping")
        self._stopping.set()
        self._courier.landed.set()
        self._nudge()
        await self._stopped.wait()

    def enable(self) -> None:
        """Send again after a 410, or a pause; whoever asks has told the store."""
        self._courier.allow()
        self._nudge()

    def pause(self, cause: str) -> None:
        self._courier.halt(cause)
        self._nudge()

    def look(self, *, replays: bool = True) -> None:
        """The store changed: dead letters may have been given back (redrive), a replay asked for.
        ``replays``: whether the store has any of ours."""
        self._out.drain.look()
        if replays or self._out.replaying.busy:
            self._out.replaying.look()

    def status(self) -> SubscriptionStatus:
        courier = self._courier
        paused_for = None
        if courier.endpoint.flow is not Flow.FLOWING:
            paused_for = max(0.0, courier.endpoint.until - self._clock.monotonic())
        return SubscriptionStatus(
            id=self._subscription.id,
            sink=self._subscription.sink_text,
            broker=self._subscription.source.broker,
            group=self._group,
            state=self._state_word(),
            cause=self._trouble or self._out.trouble,
            partitions=tuple(sorted(self._ownership.partitions, key=str)),
            held=courier.lanes.held,
            in_flight=courier.lanes.flying,
            waiting=courier.lanes.waiting,
            window=self._window(),
            paused_for=paused_for,
            oldest=self._oldest(),
            parked_rows=self._parking.kept,
            parked_keys=len(self._parking.lanes),
        )

    def waiting(self, event_id: str) -> list[Waiting]:
        return self._courier.waiting(event_id)

    def _oldest(self) -> float | None:
        heads = (held for held in self._courier.lanes.heads() if not held.replayed)
        came = min((held.message.time_ms for held in heads), default=None)
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
        return self._courier.disabled and not self._conclusions.disabling

    def _state_word(self) -> str:
        if self._state != "running" or self._courier.flows:
            return self._state
        return "disabled" if self._courier.disabled else "paused"

    async def _halt_if_asked(self) -> None:
        halt = (await self._store.halts.all()).get(self._subscription.id)
        if halt is not None:
            self._courier.halt(halt_words(halt))
        elif self._subscription.paused:
            self._courier.halt("paused by its configuration")

    async def _work(self, consumer: Consumer) -> None:
        async with asyncio.TaskGroup() as tasks:
            lasting = self._out.begin(tasks, consumer)
            self._state = "running"
            await self._consume(consumer)
            self._state = "stopping"
            await self._land(self._ownership.partitions, self._drain)
            await self._out.cancel()
            for task in lasting:
                task.cancel()
        await self._settling.settle(consumer)

    async def _consume(self, consumer: Consumer) -> None:
        while not self._stopping.is_set():
            try:
                await self._turn(consumer)
            except PositionOutOfRange as error:
                self._courier.halt(f"position out of range: {error}")
                self._trouble = self._courier.halted
                _log.error("%s stops: %s", self._subscription.id, self._trouble)
                return

    async def _turn(self, consumer: Consumer) -> None:
        await self._settling.settle(consumer)
        await self._ownership.settle(consumer.holds)
        if self._courier.lanes.waiting:
            self._courier.park_holding()
        self._steer(consumer)
        wait = self._patience(consumer)
        if self._at_bound():
            await happened(self._courier.landed, self._clock, BUSY)
            self._courier.landed.clear()
            wait = 0.0
        event = await consumer.poll(wait)
        if event is not None:
            await self._act_on(event, consumer)

    def _patience(self, consumer: Consumer) -> float:
        """How long a poll may wait. Who makes work for a turn while nothing is held must nudge."""
        courier = self._courier
        if courier.busy:
            return BUSY
        at_work = courier.lanes.held or self._conclusions.finished or self._parking.unwritten
        waits = not self._ownership.settled or self._parking.full
        waits = waits or (
            bool(self._settling.paused) and not courier.halted
        )  # for room, or for its endpoint
        return AT_REST if consumer.nudges and not at_work and not waits else IDLE

    def _nudge(self) -> None:
        if self._consumer is not None:
            self._consumer.nudge()

    async def _act_on(self, event: ConsumerEvent, consumer: Consumer) -> None:
        match event:
            case Assigned(partitions, epoch):
                self._attempts.assigned()
                self._forget(set(partitions))
                self._ownership.assigned(partitions, epoch)
                await self._ownership.settle(consumer.holds)
            case Revoked(partitions):
                gone = set(partitions)
                self._out.drop(gone)
                await self._land(gone, self._hand_over)
                await self._settling.settle(consumer)
                self._forget(gone)
            case Lost(partitions):
                self._forget(set(partitions))
            case _:
                for message in event:
                    self._out.take(message)
                self._courier.wake()

    def _forget(self, gone: set[Partition]) -> None:
        self._out.forget(gone)
        self._settling.forget(gone)

    async def _land(self, partitions: set[Partition], seconds: float) -> None:
        """Wait for the attempts of these partitions that are on the wire, at most so long."""
        landed = self._courier.landed
        deadline = self._clock.monotonic() + seconds
        while self._out.busy(partitions) and (left := deadline - self._clock.monotonic()) > 0:
            landed.clear()
            await happened(landed, self._clock, min(left, BUSY))

    def _steer(self, consumer: Consumer) -> None:
        owned = self._ownership.partitions
        full = {partition for partition in owned if self._full(partition, consumer)}
        self._settling.hold_back(consumer, full)

    def _full(self, partition: Partition, consumer: Consumer) -> bool:
        """Whether nothing more may be taken of it; once full, until an eighth of it is free."""
        courier = self._courier
        if not courier.takes or courier.bytes_held > MOST_HELD or not courier.may_hold:
            return True
        if self._parking.full or not self._ownership.ready(partition):
            return True
        bound = self._subscription.window
        if partition in self._settling.paused:
            bound -= max(1, bound // 8) - 1
        return consumer.window(partition) >= bound

    def _at_bound(self) -> bool:
        """All that could be read is full, and attempts are under way that will make room."""
        paused = self._settling.paused
        return bool(paused) and paused == self._ownership.partitions and self._courier.busy
