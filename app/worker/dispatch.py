"""The dispatcher of one subscription: it polls the log, passes messages to the scheduler, and commits finished
messages.

Only the dispatcher's task uses the consumer. Each turn commits, prepares newly assigned partitions, pauses or
resumes partitions, polls, and handles the result. A message is committed only after it is finished. The window of
each partition bounds how much is read. A partition is read only after its parked keys are loaded, and only while
the endpoint is not at fault."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence

from app.errors import PositionOutOfRange
from app.interfaces import Consumer, RetryRequest, RetryResult, WaitingEvent
from app.model.message import ConsumerEvent, Message
from app.model.start import start_at
from app.model.subscription_status import PAUSED_BY_CONFIGURATION, SubscriptionStatus
from app.telemetry.light_event import LightEvent
from app.telemetry.slices import Turns
from app.worker.components import Components
from app.worker.delivery import Delivery
from app.worker.gate import halt_cause
from app.worker.intake import Backpressure
from app.worker.report import StatusReport

BUSY, IDLE = 0.05, 0.5  # seconds a poll may wait while attempts are on the wire, and while none is
AT_REST = 120.0  # and while nothing is held: there may be a thousand idle dispatchers, and new work ends the wait

_log = logging.getLogger("skybridge.worker")


class Dispatcher:
    """Delivers the messages of one subscription from ``run`` until ``stop``. Each dispatcher runs once.

    Args:
        components: the parts of this dispatcher.
        begun: called when the dispatcher has joined its group.
    """

    def __init__(self, components: Components, begun: Callable[[], None] = lambda: None) -> None:
        shared = components.shared
        self._components = components
        self._begun = begun
        self._subscription, self._store = shared.subscription, shared.store
        self._attempts, self._scope = shared.attempts, shared.scope
        self._timekeeper, self._budget = shared.timekeeper, shared.budget
        self._intake = Backpressure(shared, components)
        self._report = StatusReport(shared, components)
        self._turns = Turns()
        self._consumer: Consumer | None = None
        self._drain_time = components.hand_over
        self._stopping, self._stopped = LightEvent(), LightEvent()
        self._state = "starting"
        self._halt_overridden = (
            False  # by ``enable`` or ``pause``, which are newer than the store's answer
        )

    async def run(self) -> None:
        """Deliver until ``stop`` is called, or until a position is out of the log's range, which an operator has to
        mend.

        Raises any other error, single or grouped. After an error the supervisor makes a new dispatcher, because the
        broker may have ended the membership of this one."""
        try:
            await self._halt_if_asked()
            consumer = self._consumer = await self._subscribe()
            if consumer is None:
                return
            try:
                await self._work(consumer)
            except Exception:
                await self._commit_before_leaving(consumer)
                raise
            finally:
                self._state = "stopping"
                self._consumer = None
                await consumer.close()
        finally:
            self._budget.leave()
            self._state = "stopped"
            self._stopped.set()

    async def _subscribe(self) -> Consumer | None:
        """Join the group. If the configured start is outside the log, halt and return None."""
        subscription = self._subscription
        try:
            return await self._components.log.subscribe(
                self._components.group,
                subscription.source.topics,
                start_at(subscription.start),
                client_id=f"skybridge-{subscription.id}",
                wanted=self._components.reader.consumer_filter(self._attempts.count_filtered),
                shared=self._components.shared_group,
            )
        except PositionOutOfRange as error:
            cure = "set start to a position that the log has, a time, earliest or latest"
            self._halt_at(f"{error}; {cure}")
            return None

    def _halt_at(self, cause: str) -> None:
        """Deliver nothing more until an operator changes the subscription."""
        self._components.gate.halt(f"position out of range: {cause}")
        self._report.trouble = self._components.gate.halted
        _log.error("subscription %s stops: %s", self._subscription.id, self._report.trouble)

    async def stop(self, drain: float) -> None:
        """Stop polling, wait ``drain`` seconds for requests in flight, commit, and leave the group."""
        self._drain_time = drain
        self._components.gate.halt("stopping")
        self._stopping.set()
        self._components.scheduler.concluded.set()
        self._nudge()
        await self._stopped.wait()

    def enable(self) -> None:
        """Deliver again after a 410 or a pause. The caller has changed the store already."""
        self._halt_overridden = True
        if not self._stopping.is_set():
            self._components.gate.halt("")
            self._timekeeper.wake_now()
            self._nudge()

    def pause(self, cause: str) -> None:
        """Start no new attempts until ``enable`` is called; ``cause`` becomes part of the status."""
        self._halt_overridden = True
        self._components.gate.halt(cause)
        self._nudge()

    def look(self, *, replays: bool = True) -> None:
        """Look for redriven dead letters and for replays after a change of the store.

        Args:
            replays: whether the store has replays of this subscription.
        """
        self._components.redrive.look()
        if replays or self._components.replays.busy:
            self._components.replays.look()

    async def retry(self, request: RetryRequest) -> RetryResult:
        """Try waiting events before they are due.

        Raises:
            StoreUnavailable: nothing was changed.
        """
        result = await self._components.retry_now.run(request)
        if result.found:
            self._nudge()
        return result

    def status(self) -> SubscriptionStatus:
        return self._report.status(self._state, self._consumer)

    def waiting(self, event_id: str) -> list[WaitingEvent]:
        """Return the untried events with this id that are held in memory and not in the store."""
        return self._report.waiting(event_id)

    @property
    def disabled(self) -> bool:
        """Return True if the target answered 410 and the store has recorded that."""
        return self._components.gate.known_disabled

    async def _halt_if_asked(self) -> None:
        halt = (await self._store.halts.all()).get(self._subscription.id)
        if self._halt_overridden:
            return  # ``enable`` or ``pause`` is newer than the row
        if halt is not None:
            self._components.gate.halt(halt_cause(halt))
        elif self._subscription.paused:
            self._components.gate.halt(PAUSED_BY_CONFIGURATION)

    async def _work(self, consumer: Consumer) -> None:
        async with self._scope as scope:
            scope.spawn(self._timekeeper.run(self._act), f"{self._subscription.id} timekeeper")
            for watch in self._components.watches:
                scope.spawn(watch.watch(), f"{self._subscription.id} watch")
            self._state = "running"
            self._begun()
            try:
                await self._consume(consumer)
                self._state = "stopping"
                ownership = self._components.ownership
                await ownership.wait_until_idle({*ownership.partitions}, self._drain_time)
            finally:
                self._components.scheduler.abort()
            scope.cancel()
            await self._components.replays.save_all()
        await self._components.commits.settle(consumer)

    async def _commit_before_leaving(self, consumer: Consumer) -> None:
        """Commit what is finished after a failure, so that it is not delivered again. The failure may prevent that."""
        try:
            async with asyncio.timeout(self._components.hand_over):
                await self._components.commits.settle(consumer)
        except Exception as error:  # noqa: BLE001 - the failure before it counts
            _log.debug("%s: not committed: %s", self._subscription.id, error)

    def _act(self, now: float) -> float | None:
        """Do what is due at ``now`` and return the time of the next action, or None if none is scheduled."""
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
        full = self._intake.full_partitions(consumer)
        at_bound = self._intake.at_bound(full)
        if self._intake.briefly_full:
            await self._intake.wait_for_room(BUSY)
            return
        self._components.commits.hold_back(consumer, full)
        wait = self._patience()
        if at_bound:
            await self._intake.wait_for_room(BUSY)
            wait = 0.0
        event = await consumer.poll(wait)
        if event is not None:
            await self._act_on(event, consumer)

    def _patience(self) -> float:
        """Return the seconds that a poll may wait. Code that makes work while nothing is held must call ``_nudge``."""
        if self._components.scheduler.busy:
            return BUSY
        at_work = (
            self._components.lanes.held
            or len(self._components.commits)
            or self._components.parking.unwritten
        )
        waits = not self._components.ownership.all_ready or self._components.parking.full
        waits = waits or (
            bool(self._components.commits.paused) and not self._components.gate.halted
        )  # until there is room, or the endpoint recovers
        return IDLE if at_work or waits else AT_REST

    def _nudge(self) -> None:
        if self._consumer is not None:
            self._consumer.nudge()

    async def _act_on(self, event: ConsumerEvent, consumer: Consumer) -> None:
        if isinstance(event, tuple):
            await self._take(event)
            self._components.scheduler.wake()
        else:
            await self._components.ownership.apply_change(event, consumer)

    async def _take(self, messages: Sequence[Message]) -> None:
        """Queue wanted messages by key, after parked events of the same key, and finish the others."""
        parked, sources = self._components.parking.lanes, self._components.ownership.origins
        reader = self._components.reader
        live: list[Delivery] = []
        for message in messages:
            if message.decoded is None and self._turns.fills(reader.units):
                self._components.scheduler.add_all(live)
                live.clear()
                await asyncio.sleep(0)
            delivery = reader.read(message, sources[message.partition])
            if isinstance(delivery, str):
                self._components.commits.add(message)
                self._attempts.count_finished(delivery)
            elif parked.find(delivery.lane) is None:
                live.append(delivery)
            else:
                self._components.scheduler.park(delivery)
        self._components.scheduler.add_all(live)
