"""Sends what is held, one attempt at a time in each lane, and concludes: decide, act, conclude.

There is no task a message: a sender is a task that lives as long as a lane is ready, so under load
the ``concurrency`` senders just keep taking the next lane. All of it runs on the event loop, so
between two awaits nothing changes underneath.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Hashable
from typing import cast

from app.bindings import http
from app.bindings.record import ContentMode, Decoded
from app.delivery.endpoint import Endpoint, Flow
from app.delivery.lanes import Lane, Lanes
from app.delivery.outcomes import Outcome, judge
from app.delivery.plan import (
    DeadLetterIt,
    Decision,
    Disable,
    PauseEndpoint,
    Policy,
    RetryAt,
    Settle,
    asked_wait,
    conclude,
)
from app.errors import StaleOwner
from app.interfaces import Clock, Sink, SinkAnswer, SinkRequest
from app.model.message import Message, Partition
from app.model.subscription import Subscription
from app.worker.attempts import DELIVERED, AttemptLog, quote
from app.worker.burial import Burial
from app.worker.intake import Held
from app.worker.waiting import happened

LEASE_RECHECK = 0.2  # seconds until a message whose partition is in doubt is looked at again
TOO_MANY = 429


class Courier:
    """``holds``: whether the message's partition is still ours, asked before each attempt (rule 5).

    ``finished``  messages to settle; whoever settles them empties it.
    ``lanes``     all that is held; to be looked at from outside, not touched.
    ``landed``    set whenever an attempt was concluded.
    """

    def __init__(
        self,
        subscription: Subscription,
        sink: Sink,
        clock: Clock,
        burial: Burial,
        attempts: AttemptLog,
        jitter: Callable[[], float],
    ) -> None:
        self._subscription = subscription
        self._sink = sink
        self._clock = clock
        self._burial = burial
        self._attempts = attempts
        self._jitter = jitter
        self._mode = ContentMode(subscription.content_mode)
        self._policy = Policy(subscription.retry.schedule, subscription.retry.retry_after_max)
        self._retried = frozenset(subscription.retry.statuses)
        self.lanes: Lanes[Held] = Lanes(subscription.concurrency)
        self._senders: set[asyncio.Task[None]] = set()
        self._alarm: float | None = None  # the moment the time keeper sleeps until
        self._retimed = asyncio.Event()
        self._holds: Callable[[Message], bool] = lambda _: False
        self._tasks: asyncio.TaskGroup | None = None
        self.endpoint = Endpoint()
        self.halted = ""  # why nothing may be sent at all; "" when it may
        self.finished: list[Message] = []
        self.landed = asyncio.Event()
        self.bytes_held = 0

    def begin(self, tasks: asyncio.TaskGroup, holds: Callable[[Message], bool]) -> None:
        """Senders become tasks of ``tasks``: a bug in one ends them all, rather than go unseen."""
        self._tasks, self._holds = tasks, holds

    def end(self) -> None:
        """Their tasks are over: nothing can be sent any more, whoever asks."""
        self._tasks = None

    @property
    def flows(self) -> bool:
        return not self.halted and self.endpoint.flow is Flow.FLOWING

    @property
    def busy(self) -> bool:
        """Whether something is on the wire, or about to be."""
        return self.lanes.flying > 0 or (self.flows and self.lanes.ready > 0)

    def add(self, lane: Hashable, held: Held) -> None:
        self.bytes_held += held.size
        self.lanes.add(lane, held)

    def drop(self, partitions: set[Partition]) -> None:
        """Forget what is held of these partitions. Attempts on the wire land by themselves."""
        for held in self.lanes.drop(lambda held: held.message.partition in partitions):
            self.bytes_held -= held.size
        for held in self.lanes.in_flight():
            held.gone = held.gone or held.message.partition in partitions

    def flying(self, partitions: set[Partition]) -> bool:
        """Whether an attempt of these partitions is still on the wire."""
        return any(held.message.partition in partitions for held in self.lanes.in_flight())

    def halt(self, cause: str) -> None:
        """No attempt begins any more; those on the wire go on."""
        self.halted = cause

    def allow(self) -> None:
        self.halted = ""
        self.wake()

    def wake(self) -> None:
        """Start as many senders as may send now."""
        if self.halted or self._tasks is None:
            return
        if self.endpoint.flow is not Flow.FLOWING:
            self._probe_if_due()
            return
        wanted = min(self._subscription.concurrency, self.lanes.flying + self.lanes.ready)
        while len(self._senders) < wanted:
            self._start_sender(None)

    def cancel(self) -> None:
        """End all senders now; what they had in flight stays unfinished."""
        for sender in self._senders:
            sender.cancel()

    async def keep_time(self) -> None:
        """Wakes lanes when their wait is over, and the endpoint when its pause is."""
        while True:
            self._retimed.clear()
            now = self._clock.monotonic()
            self.lanes.wake(now)
            self.wake()
            self._alarm = self._next_alarm()
            await happened(
                self._retimed, self._clock, None if self._alarm is None else self._alarm - now
            )

    def _next_alarm(self) -> float | None:
        moments = [self.lanes.next_due()]
        if self.endpoint.flow is Flow.PAUSED and not self.halted:
            moments.append(self.endpoint.until)
        return min((moment for moment in moments if moment is not None), default=None)

    def _alarm_at(self, moment: float) -> None:
        if self._alarm is None or moment < self._alarm:
            self._retimed.set()

    def _start_sender(self, probe: Lane[Held] | None) -> None:
        if self._tasks is None:
            return
        sender = self._tasks.create_task(self._send(probe), name=f"{self._subscription.id} sender")
        self._senders.add(sender)
        sender.add_done_callback(self._senders.discard)

    def _probe_if_due(self) -> None:
        now = self._clock.monotonic()
        if not self.endpoint.probe_if_due(now):
            return
        lane = self.lanes.take_oldest()
        if lane is not None:
            self._start_sender(lane)
        elif self.lanes.held:  # all of it is still on the wire
            self.endpoint.probe_came_to_nothing(now + LEASE_RECHECK)
        else:
            self.endpoint.nothing_to_probe()

    def _no_probe(self, until: float, *, probe: bool) -> None:
        if probe:
            self.endpoint.probe_came_to_nothing(until)
            self._alarm_at(until)

    async def _send(self, probe: Lane[Held] | None) -> None:
        try:
            if probe is not None:
                await self._deliver(probe, probe=True)
            while self.flows and (lane := self.lanes.take()) is not None:
                await self._deliver(lane, probe=False)
        finally:  # in the same step as the last take: a lane made ready later finds it gone
            self._senders.discard(cast("asyncio.Task[None]", asyncio.current_task()))

    async def _deliver(self, lane: Lane[Held], *, probe: bool) -> None:
        held, decoded = lane.head, lane.head.decoded
        now = self._clock.monotonic()
        if not self._holds(held.message):  # rule 5; a Revoked or Lost will say more
            self._wait(lane, now + LEASE_RECHECK)
            self._no_probe(now + LEASE_RECHECK, probe=probe)
        elif decoded is None:
            self._no_probe(now, probe=probe)
            await self._bury(lane, "foreign", held.foreign, None)
        else:
            await self._attempt(lane, decoded, now, probe=probe)
        self.landed.set()

    async def _attempt(
        self, lane: Lane[Held], decoded: Decoded, started: float, *, probe: bool
    ) -> None:
        held, subscription = lane.head, self._subscription
        held.attempts += 1
        message = http.encode(decoded, self._mode)
        answer = await self._sink.send(
            SinkRequest(subscription.sink, message.headers, message.body, subscription.timeout)
        )
        now = self._clock.monotonic()
        outcome = judge(answer.status, answer.fault, self._retried)
        decision = self._decide(lane, answer, outcome, now, probe=probe)
        self._attempts.note(held, answer, outcome, decision, (started, now, self._clock.now()))
        await self._conclude(lane, answer, decision)
        if probe and self.flows:
            self.wake()  # one came through: the others may follow

    def _decide(
        self, lane: Lane[Held], answer: SinkAnswer, outcome: Outcome, now: float, *, probe: bool
    ) -> Decision:
        """The conclusion of this event, and what the answer says about the endpoint (rule 6)."""
        asked = None
        if answer.retry_after is not None:
            asked = asked_wait(answer.retry_after, self._clock.now(), self._policy)
        decision = conclude(
            outcome,
            steps=lane.head.steps,
            asked=asked,
            now=now,
            jitter=self._jitter(),
            policy=self._policy,
        )
        if asked and (isinstance(decision, PauseEndpoint) or answer.status == TOO_MANY):
            self.endpoint.asked_to_wait(now + asked, outcome.code)
            self._alarm_at(now + asked)
        elif not outcome.reached:
            self._no_probe(now, probe=probe)
        elif not outcome.endpoint_fault:
            self.endpoint.answered(probe=probe)
        elif self.endpoint.failed(lane.key, outcome.code, now, self._jitter(), probe=probe):
            return PauseEndpoint(self.endpoint.until)
        return decision

    async def _conclude(self, lane: Lane[Held], answer: SinkAnswer, decision: Decision) -> None:
        match decision:
            case Settle():
                self._finish(lane)
                self._attempts.finished(DELIVERED)
            case RetryAt(at):
                lane.head.steps += 1
                self._wait(lane, at)
            case PauseEndpoint(until):
                self._give_back(lane)
                self._alarm_at(until)
            case DeadLetterIt(cause):
                await self._bury(lane, cause, quote(answer), answer.status)
            case Disable(cause):
                self.halt(f"disabled: {cause}")
                self._give_back(lane)
                await self._burial.disable(cause)

    async def _bury(self, lane: Lane[Held], cause: str, detail: str, status: int | None) -> None:
        held = lane.head
        if held.gone:
            self._release(lane)
            return
        stored = await self._burial.bury(
            held.message, cause=cause, detail=detail, attempts=held.attempts, status=status
        )
        if stored:
            self._finish(lane)
            self._attempts.buried(cause)
        elif self._holds(held.message):
            raise StaleOwner(f"{held.message.partition}: the store and the log differ on its owner")
        else:
            self._release(lane)

    def _finish(self, lane: Lane[Held]) -> None:
        self.finished.append(lane.head.message)
        self._release(lane)

    def _release(self, lane: Lane[Held]) -> None:
        self.bytes_held -= lane.head.size
        self.lanes.finish(lane)

    def _wait(self, lane: Lane[Held], until: float) -> None:
        if lane.head.gone:
            self._release(lane)
        else:
            self.lanes.hold(lane, until)
            self._alarm_at(until)

    def _give_back(self, lane: Lane[Held]) -> None:
        if lane.head.gone:
            self._release(lane)
        else:
            self.lanes.give_back(lane)
