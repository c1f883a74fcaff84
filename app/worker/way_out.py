"""What a message of one subscription meets on its way out: made, begun, emptied and ended together."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection

from app.bindings.table import BINDINGS
from app.delivery.lanes import Lanes
from app.interfaces import Clock, Consumer, Log, Notify, Sink, Store
from app.model.message import Message, Partition
from app.model.subscription import Subscription
from app.worker.attempts import AttemptLog
from app.worker.budget import Budget
from app.worker.burial import Burial
from app.worker.concluding import Conclusions
from app.worker.courier import Courier
from app.worker.drain_parked import Drain
from app.worker.expiry_alarm import ExpiryAlarm
from app.worker.intake import Held, Intake
from app.worker.ownership import Ownership
from app.worker.parking import Parking
from app.worker.replaying import Replaying
from app.worker.timing import Timekeeper
from app.worker.together import lanes_in_flight


class WayOut:
    """See ``dispatch.Dispatcher``, which moves messages along it."""

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
        kind: str,
        copies: Log | None,
        jitter: Callable[[], float],
        budget: Budget,
        notify: Notify,
    ) -> None:
        lasting = log.capabilities.positions
        timekeeper = Timekeeper(clock)
        lanes: Lanes[Held] = Lanes(lanes_in_flight(subscription))
        self._subscription = subscription
        self._attempts = attempts
        self._timekeeper = timekeeper
        self.intake = intake = Intake(
            subscription, BINDINGS[kind].decode, lasting=lasting, failed=attempts.filter_failed
        )
        self.burial = Burial(subscription, store, clock, jitter, copies, notify)
        self.parking = parking = Parking(subscription, store, clock, jitter, lasting=lasting)
        self.conclusions = Conclusions(
            clock, lanes, parking, self.burial, timekeeper, attempts, jitter
        )
        self.courier = courier = Courier(
            subscription, sink, clock, lanes, self.conclusions, timekeeper, attempts, jitter, budget
        )
        self.drain = drain = Drain(
            subscription, store, clock, intake, courier, parking, timekeeper, jitter
        )
        self.replaying = Replaying(
            subscription,
            log,
            store,
            clock,
            intake,
            courier,
            attempts,
            lambda: drain.epochs,
            jitter,
        )
        self.expiry = ExpiryAlarm(
            subscription, log, clock, notify, group=group, flows=lambda: courier.flows
        )
        self.ownership = Ownership(
            subscription,
            store,
            clock,
            jitter,
            self._load,
            generations=log.capabilities.generations,
        )

    def begin(self, tasks: asyncio.TaskGroup, consumer: Consumer) -> list[asyncio.Task[None]]:
        """Tasks that last until they are cancelled; the others end with what they do."""
        courier, half = self.courier, self._subscription.window / 2
        self.conclusions.begin(consumer.holds, courier.released, courier.halt)
        stored, passed_on = self.conclusions.stored, self.conclusions.passed_on
        self.parking.begin(tasks, consumer.holds, stored, passed_on)
        self.drain.begin(tasks)
        self.replaying.begin(tasks)
        courier.begin(
            tasks,
            consumer.holds,
            lambda partition: consumer.window(partition) >= half,
            self.drain.probe,
        )
        return [
            tasks.create_task(self._timekeeper.keep(self._act)),
            tasks.create_task(self.expiry.watch()),
        ]

    async def cancel(self) -> None:
        """End what is under way; it stays unfinished."""
        self.courier.cancel()
        self.parking.end()
        self.drain.end()
        await self.replaying.note()
        self.replaying.end()

    def end(self) -> None:
        """Its tasks are over, whatever ended them."""
        self.courier.end()
        self.parking.end()
        self.drain.end()
        self.replaying.end()

    def take(self, message: Message) -> None:
        """To its lane, behind its parked key, or finished by not being wanted."""
        held = self.intake.read(message)
        if isinstance(held, str):
            self.conclusions.finished.append(message)
            self._attempts.finished(held)
        elif self.parking.lanes.find(held.lane) is None:
            self.courier.add(held)
        else:
            self.courier.hold(held)
            self.parking.follow(held)

    def drop(self, gone: set[Partition]) -> None:
        """What is held or being parked of these partitions; what is on the wire lands by itself."""
        for held in self.parking.drop(gone):
            self.courier.released(held)
        self.courier.drop(gone)

    def forget(self, gone: set[Partition]) -> None:
        """All of these partitions concerns others now."""
        self.drop(gone)
        self.conclusions.finished = [
            done for done in self.conclusions.finished if done.partition not in gone
        ]
        self.ownership.drop(gone)
        self.drain.drop(gone)
        self.replaying.drop(gone)

    def busy(self, partitions: set[Partition]) -> bool:
        """Whether something of these partitions is on the wire, or on its way to the store."""
        return self.courier.flying(partitions) or self.parking.busy(partitions)

    @property
    def trouble(self) -> str:
        """What hinders it, in words for a person; the gravest first."""
        causes = (
            self.expiry.trouble,
            self.courier.halted,
            self.courier.endpoint.cause,
            self.ownership.trouble,
            self.burial.trouble,
            self.conclusions.trouble,
            self.parking.trouble,
            self.drain.trouble,
            self.replaying.trouble,
            self.parking.full_cause,
        )
        return next(filter(None, causes), "")

    async def _load(self, partitions: Collection[Partition], epoch: int) -> None:
        await self.drain.load(partitions, epoch)
        self.replaying.look()

    def _act(self, now: float) -> float | None:
        """What is due by the clock, and when something is next."""
        moments = (self.courier.act(now), self.drain.act(now))
        return min((moment for moment in moments if moment is not None), default=None)
