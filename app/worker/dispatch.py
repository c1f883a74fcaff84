"""One subscription: asks the log for batches, hands them to the courier, settles what is finished.

Only this task talks to the consumer. Each turn: settle, steer (which partitions may be read), poll,
act on what came. Nothing is settled before it is finished (rule 2); the window of each partition
bounds what is taken (rule 4); while the endpoint is at fault nothing is taken at all (rule 6).
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable

from app.delivery.endpoint import Flow
from app.errors import BrokerError, PositionOutOfRange
from app.interfaces import Clock, Consumer, Log, Sink, Store
from app.model.message import Assigned, Batch, ConsumerEvent, Lost, Partition, Revoked
from app.model.subscription import Subscription
from app.worker.attempts import AttemptLog
from app.worker.burial import Burial
from app.worker.courier import Courier
from app.worker.intake import Intake
from app.worker.joining import start_at
from app.worker.status import SubscriptionStatus
from app.worker.waiting import happened

BUSY, IDLE = 0.05, 0.5  # seconds a poll may wait while attempts are on the wire, and while none is
HAND_OVER = 4.0  # seconds to wait for attempts on the wire when a partition is taken from us; a log
# waits 5 s, and what is settled later than that is void
MOST_HELD = 64 * 2**20  # bytes held for one subscription; beyond them nothing is taken
RECOMMIT = 86_400.0  # seconds; a group that commits nothing for long is forgotten (rule 10)

_log = logging.getLogger("skybridge.worker")


class Dispatcher:
    """``group`` is the consumer group. ``copies``: the log of the subscription's dead-letter topic.

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
        copies: Log | None = None,
        jitter: Callable[[], float] = random.random,
        hand_over: float = HAND_OVER,
    ) -> None:
        self._subscription = subscription
        self._log = log
        self._store = store
        self._clock = clock
        self._group = group
        self._attempts = attempts
        self._hand_over = hand_over
        self._intake = Intake(subscription)
        self._burial = Burial(subscription, store, clock, jitter, copies)
        self._courier = Courier(subscription, sink, clock, self._burial, attempts, jitter)
        self._consumer: Consumer | None = None
        self._partitions: set[Partition] = set()
        self._paused: set[Partition] = set()
        self._stopping = asyncio.Event()
        self._stopped = asyncio.Event()
        self._drain = hand_over
        self._state = "starting"
        self._trouble = ""
        self._committed = clock.monotonic()

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
            )
            self._consumer = consumer
            try:
                await self._work(consumer)
            finally:
                self._state = "stopping"
                self._courier.end()
                self._consumer = None
                await consumer.close()
        finally:
            self._state = "stopped"
            self._stopped.set()

    async def stop(self, drain: float) -> None:
        """Take nothing more, give attempts on the wire ``drain`` seconds, settle, leave (rule 11)."""
        self._drain = drain
        self._courier.halt("stopping")
        self._stopping.set()
        self._courier.landed.set()
        await self._stopped.wait()

    def enable(self) -> None:
        """Send again after a 410, or a pause; whoever asks has told the store."""
        self._courier.allow()

    def pause(self, cause: str) -> None:
        self._courier.halt(cause)

    def status(self) -> SubscriptionStatus:
        courier = self._courier
        paused_for = None
        if courier.endpoint.flow is not Flow.FLOWING:
            paused_for = max(0.0, courier.endpoint.until - self._clock.monotonic())
        return SubscriptionStatus(
            subscription=self._subscription.id,
            sink=self._subscription.sink,
            state=self._state_word(),
            cause=self._cause(),
            partitions=tuple(sorted(self._partitions, key=str)),
            held=courier.lanes.held,
            in_flight=courier.lanes.flying,
            waiting=courier.lanes.waiting,
            window=self._window(),
            paused_for=paused_for,
            oldest=self._oldest(),
        )

    def _oldest(self) -> float | None:
        came = min((held.message.time_ms for held in self._courier.lanes.heads()), default=None)
        return None if came is None else max(0.0, self._clock.now() - came / 1000)

    def _window(self) -> int:
        """The longest of the partitions'; 0 while there is no consumer."""
        consumer = self._consumer
        if consumer is None:
            return 0
        return max((consumer.window(partition) for partition in self._partitions), default=0)

    def _state_word(self) -> str:
        if self._state != "running" or self._courier.flows:
            return self._state
        return "disabled" if self._courier.halted.startswith("disabled") else "paused"

    def _cause(self) -> str:
        courier = self._courier
        return self._trouble or courier.halted or courier.endpoint.cause or self._burial.trouble

    async def _halt_if_asked(self) -> None:
        disabled = (await self._store.disabled()).get(self._subscription.id)
        if disabled is not None:
            self._courier.halt(f"disabled: {disabled}")
        elif self._subscription.paused:
            self._courier.halt("paused by its configuration")

    async def _work(self, consumer: Consumer) -> None:
        async with asyncio.TaskGroup() as tasks:
            self._courier.begin(tasks, consumer.holds)
            time_keeper = tasks.create_task(self._courier.keep_time())
            self._state = "running"
            await self._consume(consumer)
            self._state = "stopping"
            await self._land(self._partitions, self._drain)
            self._courier.cancel()
            time_keeper.cancel()
        await self._settle(consumer)

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
        await self._settle(consumer)
        self._steer(consumer)
        wait = BUSY if self._courier.busy else IDLE
        if self._at_bound():
            await happened(self._courier.landed, self._clock, BUSY)
            self._courier.landed.clear()
            wait = 0.0
        event = await consumer.poll(wait)
        if event is not None:
            await self._act_on(event, consumer)

    async def _act_on(self, event: ConsumerEvent, consumer: Consumer) -> None:
        match event:
            case Assigned(partitions, epoch):
                self._forget(set(partitions))
                self._partitions.update(partitions)
                await self._store.own(
                    self._subscription.id, self._subscription.source.broker, partitions, epoch
                )
            case Revoked(partitions):
                gone = set(partitions)
                self._courier.drop(gone)
                await self._land(gone, self._hand_over)
                await self._settle(consumer)
                self._forget(gone)
            case Lost(partitions):
                self._forget(set(partitions))
            case _:
                self._take(event)

    def _take(self, batch: Batch) -> None:
        courier = self._courier
        for message in batch:
            held = self._intake.read(message)
            if isinstance(held, str):
                courier.finished.append(message)
                self._attempts.finished(held)
            else:
                courier.add(self._intake.lane(held), held)
        courier.wake()

    def _forget(self, gone: set[Partition]) -> None:
        """What is held, finished or paused of these partitions concerns others now."""
        courier = self._courier
        courier.drop(gone)
        courier.finished = [done for done in courier.finished if done.partition not in gone]
        self._partitions -= gone
        self._paused -= gone

    async def _land(self, partitions: set[Partition], seconds: float) -> None:
        """Wait for the attempts of these partitions that are on the wire, at most so long."""
        landed = self._courier.landed
        deadline = self._clock.monotonic() + seconds
        while self._courier.flying(partitions):
            landed.clear()
            if not await happened(landed, self._clock, deadline - self._clock.monotonic()):
                return

    async def _settle(self, consumer: Consumer) -> None:
        courier = self._courier
        now = self._clock.monotonic()
        if courier.finished:
            finished, courier.finished = courier.finished, []
            try:
                await consumer.settle(finished)
            except BrokerError:
                courier.finished += finished  # settling is idempotent
                raise
            self._committed = now
        elif now - self._committed >= RECOMMIT:
            self._committed = now
            await consumer.commit()

    def _steer(self, consumer: Consumer) -> None:
        wanted = {partition for partition in self._partitions if self._full(partition, consumer)}
        if resumed := self._paused - wanted:
            consumer.resume(resumed)
        if paused := wanted - self._paused:
            consumer.pause(paused)
        self._paused = wanted

    def _full(self, partition: Partition, consumer: Consumer) -> bool:
        """Whether nothing more may be taken of it; once full, until an eighth of it is free."""
        if not self._courier.flows or self._courier.bytes_held > MOST_HELD:
            return True
        bound = self._subscription.window
        if partition in self._paused:
            bound -= max(1, bound // 8) - 1
        return consumer.window(partition) >= bound

    def _at_bound(self) -> bool:
        """All that could be read is full, and attempts are under way that will make room."""
        full = bool(self._paused) and self._paused == self._partitions
        return full and self._courier.busy
