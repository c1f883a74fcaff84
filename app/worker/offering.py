"""One subscription whose events are pulled: from the log into the store, where consumers fetch them.

A message is finished for its log once it is a row (rule 2); from then on its lock tokens say who has it.
Each turn: what was taken is offered, a page a transaction, and settled; what was handed out too often is
buried; then the log is asked for more. At ``max_waiting`` rows, and while the store does not answer,
nothing is taken: the log is the buffer (rule 6).
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable

from app.bindings.table import BINDINGS
from app.delivery.backoff import doubling
from app.errors import BrokerError, PositionOutOfRange, StoreUnavailable
from app.interfaces import Clock, Consumer, Log, Notify, Store, silence
from app.model.message import Assigned, Batch, ConsumerEvent, Lost, Message, Partition, Revoked
from app.model.pull import Pull
from app.model.subscription import Subscription
from app.model.subscription_status import SubscriptionStatus
from app.sinks.dead_letter_topic import DeadLetterTopic
from app.store.wakeups import Wakeups
from app.worker.attempts import AttemptLog
from app.worker.intake import Intake
from app.worker.joining import start_at
from app.worker.offering_ranges import OfferingRanges
from app.worker.room import Room
from app.worker.settling import Settling
from app.worker.shelf import Shelf
from app.worker.status import halt_words
from app.worker.waiting import happened

IDLE = 0.5  # seconds a poll may wait
LOOK_EVERY = (
    1.0  # seconds between looks for room that another process made, and for what was redriven
)
SWEEP_EVERY = 5.0  # seconds between looks for what was handed out too often
FIRST_WAIT, LONGEST_WAIT = 0.5, 30.0  # seconds between tries at a store that does not answer

_log = logging.getLogger("skybridge.worker")


class Offering:
    """Stands where a ``Dispatcher`` stands for other sinks, and answers the same questions. ``copies``: the
    log of the dead-letter topic. ``wakeups``: shared with whoever hands out in this process.

    ``run`` until ``stop``; runs once.
    """

    def __init__(
        self,
        subscription: Subscription,
        log: Log,
        store: Store,
        clock: Clock,
        *,
        group: str,
        attempts: AttemptLog,
        wakeups: Wakeups,
        kind: str = "embedded",
        copies: Log | None = None,
        notify: Notify = silence,
        jitter: Callable[[], float] = random.random,
    ) -> None:
        sink, letters = subscription.sink, subscription.dead_letter
        if not isinstance(sink, Pull):
            raise TypeError(f"{subscription.id} is not pulled")
        topic = DeadLetterTopic(copies, letters.topic) if copies and letters else None
        self._subscription = subscription
        self._settings = sink.pull
        self._log = log
        self._store = store
        self._clock = clock
        self._group = group
        self._attempts = attempts
        self._wakeups = wakeups
        self._jitter = jitter
        lasting = log.capabilities.positions
        self._intake = Intake(
            subscription, BINDINGS[kind].decode, lasting=lasting, failed=attempts.filter_failed
        )
        self._shelf = Shelf(subscription, store, clock, attempts, topic, notify)
        self._room = Room(store.pulled, subscription.id, sink.pull.max_waiting, clock)
        self._ranges = OfferingRanges(
            subscription.id, log, store, clock, self._intake, self._shelf, attempts
        )
        self._consumer: Consumer | None = None
        self._epochs: dict[Partition, int] = {}
        self._settling = Settling(self._shelf, clock)
        self._stopping = asyncio.Event()
        self._stopped = asyncio.Event()
        self._state = "starting"
        self._halted = ""
        self._trouble = ""
        self._failures = 0
        self._again = self._sweep = clock.monotonic()

    async def run(self) -> None:
        """As ``Dispatcher.run``: returns when stopped, or when a position is out of range (rule 10: it
        asks); raises what else went wrong, and whoever runs us begins anew."""
        try:
            await self._halt_if_asked()
            subscription = self._subscription
            consumer = await self._log.subscribe(
                self._group,
                subscription.source.topics,
                start_at(subscription),
                client_id=f"skybridge-{subscription.id}",
                wanted=self._intake.wanted(self._attempts.finished),
            )
            self._consumer = consumer
            try:
                self._state = "running"
                await self._work(consumer)
            finally:
                self._state = "stopping"
                self._consumer = None
                await consumer.close()
        finally:
            self._state = "stopped"
            self._stopped.set()

    async def stop(self, drain: float) -> None:  # noqa: ARG002 - nothing is on the wire to anybody
        """Take nothing more, settle what is a row, leave (rule 11). The rest is still in the log."""
        self._stopping.set()
        self._nudge()
        await self._stopped.wait()

    def enable(self) -> None:
        """Offer again after a pause; whoever asks has told the store."""
        self._halted = ""
        self._nudge()

    def pause(self, cause: str) -> None:
        self._halted = cause
        self._nudge()

    def look(self) -> None:
        """The store changed: dead letters may have been given back (redrive), a replay asked for."""
        self._ranges.look()
        self._sweep = self._clock.monotonic()
        self._nudge()

    def _nudge(self) -> None:
        self._wakeups.tell(self._subscription.id)
        if self._consumer is not None:
            self._consumer.nudge()

    @property
    def disabled(self) -> bool:
        """Nobody is posted to, so nobody answers 410."""
        return False

    def status(self) -> SubscriptionStatus:
        """``waiting``: rows, of all processes, as they were counted last."""
        consumer, came = self._consumer, self._shelf.oldest_ms
        windows = (consumer.window(each) for each in self._epochs) if consumer else ()
        return SubscriptionStatus(
            id=self._subscription.id,
            sink=self._subscription.sink_text,
            broker=self._subscription.source.broker,
            group=self._group,
            state=self._state_word(),
            cause=self._trouble or self._halted or self._room.cause,
            partitions=tuple(sorted(self._epochs, key=str)),
            held=len(self._shelf),
            waiting=self._room.waiting,
            window=max(windows, default=0),
            oldest=None if came is None else max(0.0, self._clock.now() - came / 1000),
        )

    def _state_word(self) -> str:
        idle = self._halted or self._room.is_full
        return "paused" if self._state == "running" and idle else self._state

    async def _halt_if_asked(self) -> None:
        halt = (await self._store.halts.all()).get(self._subscription.id)
        if halt is not None:
            self._halted = halt_words(halt)
        elif self._subscription.paused:
            self._halted = "paused by its configuration"

    async def _work(self, consumer: Consumer) -> None:
        while not self._stopping.is_set():
            try:
                await self._turn(consumer)
            except PositionOutOfRange as error:
                self._halted = self._trouble = f"position out of range: {error}"
                _log.error("%s stops: %s", self._subscription.id, self._trouble)
                break
        await self._settling.settle(consumer)

    async def _turn(self, consumer: Consumer) -> None:
        word = self._wakeups.next(self._subscription.id)  # before the look
        await self._put_if_may(consumer)
        await self._settling.settle(consumer)
        self._steer(consumer)
        wait = LOOK_EVERY if consumer.nudges else IDLE
        if self._epochs and self._ranges.due and not self._holds_back:
            wait = 0.0
        elif self._holds_back:
            await happened(word, self._clock, LOOK_EVERY)
            wait = 0.0
        event = await consumer.poll(wait)
        if event is not None:
            await self._act_on(event)

    @property
    def _holds_back(self) -> bool:
        return bool(self._halted or self._trouble or len(self._shelf) or self._room.is_full)

    async def _put_if_may(self, consumer: Consumer) -> None:
        """What cannot be written now is tried again a little later; meanwhile nothing is taken."""
        if self._halted or self._clock.monotonic() < self._again:
            return
        try:
            await self._put(consumer.holds)
        except (StoreUnavailable, BrokerError) as error:
            self._failures += 1
            self._trouble = f"events to be pulled cannot be stored: {error}"
            _log.error("%s: %s", self._subscription.id, self._trouble)
            pause = doubling(FIRST_WAIT, LONGEST_WAIT, self._failures, self._jitter())
            self._again = self._clock.monotonic() + pause
        else:
            self._failures, self._trouble = 0, ""

    async def _put(self, holds: Callable[[Message], bool]) -> None:
        await self._shelf.bury(holds)
        while (len(self._shelf) or self._room.is_full) and (free := await self._room.free()):
            if not self._came(await self._shelf.offer(free, holds)):
                break
        if self._ranges.due and self._epochs and (free := await self._room.free()):
            self._came(await self._ranges.offer(self._epochs, free))
        now = self._clock.monotonic()
        if now >= self._sweep:
            if await self._shelf.bury_worn_out(self._settings.max_deliveries):
                self._wakeups.tell(self._subscription.id)
            if self._epochs and (free := await self._room.free()):
                self._came(await self._shelf.offer_again(self._epochs, free))
            self._sweep = now + SWEEP_EVERY

    def _came(self, count: int) -> int:
        if count:
            self._room.offered(count)
            self._wakeups.tell(self._subscription.id)
        return count

    async def _act_on(self, event: ConsumerEvent) -> None:
        match event:
            case Assigned(partitions, epoch):
                self._attempts.assigned()
                self._forget(set(partitions))
                self._epochs.update(dict.fromkeys(partitions, epoch))
                self._ranges.look()
                await self._store.owners.own(
                    self._subscription.id, self._subscription.source.broker, partitions, epoch
                )
            case Revoked(partitions) | Lost(partitions):  # what is a row is settled: see ``_turn``
                self._forget(set(partitions))
            case _:
                self._take(event)

    def _take(self, batch: Batch) -> None:
        for message in batch:
            held = self._intake.read(message)
            if isinstance(held, str):
                self._shelf.finished.append(message)
                self._attempts.finished(held)
            else:
                self._shelf.take(held)

    def _forget(self, gone: set[Partition]) -> None:
        """What is here of these partitions concerns others now."""
        self._shelf.drop(gone.__contains__)
        for partition in gone:
            self._epochs.pop(partition, None)
        self._settling.forget(gone)

    def _steer(self, consumer: Consumer) -> None:
        self._settling.hold_back(consumer, set(self._epochs) if self._holds_back else set())
