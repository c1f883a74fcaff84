"""What is sent: one attempt at a time in each lane. Decide, act, conclude.

There is no task a message: a sender is a task that lives as long as a lane is ready, so under load
the ``concurrency`` senders just keep taking the next lane. All of it runs on the event loop, so
between two awaits nothing changes underneath.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import cast

from app.delivery.endpoint import Endpoint, Flow
from app.delivery.lanes import Lane, Lanes
from app.delivery.outcomes import Fate, Outcome
from app.delivery.parked_lanes import ParkedLane
from app.delivery.plan import (
    Decision,
    PauseEndpoint,
    WaitsIn,
)
from app.interfaces import Clock, Outgoing, Sink, SinkAnswer, Waiting
from app.model.message import Message, Partition
from app.model.subscription import Subscription
from app.worker.attempts import AttemptLog
from app.worker.budget import Budget
from app.worker.concluding import LEASE_RECHECK, Conclusions
from app.worker.intake import Held, name_of
from app.worker.rules import Rules, verdict_of
from app.worker.status import disabled_words
from app.worker.timing import Pace, Timekeeper
from app.worker.together import Together

TOO_MANY = 429

_log = logging.getLogger("skybridge.worker")


class Courier:
    """``holds``: whether the message's partition is still ours, asked before each attempt (rule 5).
    ``crowded``: whether half of the window of a partition is used (rule 4).

    ``lanes``     all that is held; to be looked at from outside, not touched.
    ``landed``    set whenever an attempt was concluded.
    """

    def __init__(
        self,
        subscription: Subscription,
        sink: Sink,
        clock: Clock,
        lanes: Lanes[Held],
        conclusions: Conclusions,
        timekeeper: Timekeeper,
        attempts: AttemptLog,
        jitter: Callable[[], float],
        budget: Budget,
    ) -> None:
        self._subscription = subscription
        self._sink = sink
        self._clock = clock
        self._conclusions = conclusions
        self._timekeeper = timekeeper
        self._attempts = attempts
        self._jitter = jitter
        self._rules = Rules(subscription, clock, jitter)
        self._pace = Pace(subscription, sink)
        self._together: Together | None = None
        if subscription.batch is not None:
            self._together = Together(
                subscription, sink, clock, lanes, self._pace, conclusions, attempts, self
            )
        self._part = budget.join(self.wake)
        self._senders: set[asyncio.Task[None]] = set()
        self._slot = 0.0  # when the target's rate allows the next attempt; 0.0: now
        self._holds: Callable[[Message], bool] = lambda _: False
        self._crowded: Callable[[Partition], bool] = lambda _: False
        self._probe_parked: Callable[[ParkedLane], None] = lambda _: None
        self._tasks: asyncio.TaskGroup | None = None
        self.lanes = lanes
        self.endpoint = Endpoint(subscription.concurrency)
        self.halted = ""  # why nothing may be sent at all; "" when it may
        self.landed = asyncio.Event()
        self.bytes_held = 0

    def begin(
        self,
        tasks: asyncio.TaskGroup,
        holds: Callable[[Message], bool],
        crowded: Callable[[Partition], bool],
        probe_parked: Callable[[ParkedLane], None],
    ) -> None:
        """Senders become tasks of ``tasks``: a bug in one ends them all, rather than go unseen."""
        self._tasks, self._holds = tasks, holds
        self._crowded, self._probe_parked = crowded, probe_parked
        self._sink.when_ready(self._sink_is_ready)

    def end(self) -> None:
        """Their tasks are over: nothing can be sent any more, whoever asks."""
        self._tasks = None
        self._part.leave()

    @property
    def disabled(self) -> bool:
        """By its target's 410 (W5)."""
        return self.halted.startswith("disabled")

    @property
    def flows(self) -> bool:
        return not self.halted and self.endpoint.flow is Flow.FLOWING

    @property
    def takes(self) -> bool:
        """Whether more may be taken from the log (rule 6)."""
        if self.halted or self.endpoint.flow is not Flow.PAUSED:
            return self.flows
        return self.endpoint.doubtful and not any(map(_untried, self.lanes.heads()))

    @property
    def busy(self) -> bool:
        """Whether something is on the wire, or about to be."""
        return self.lanes.flying > 0 or (self.flows and self.lanes.ready > 0)

    @property
    def may_hold(self) -> bool:
        """Whether the process has room for more of ours."""
        return self._part.may_hold()

    def add(self, held: Held) -> None:
        self.hold(held)
        self.lanes.add(held.lane, held)

    def hold(self, held: Held) -> None:
        """It costs from now on, wherever it is held."""
        self.bytes_held += held.size
        self._part.hold(held.size)

    def released(self, held: Held) -> None:
        """It is held no more."""
        self.bytes_held -= held.size
        self._part.release(held.size)
        if held.landed is not None:
            held.landed(held)

    def drop(self, partitions: set[Partition]) -> None:
        """Forget what is held of these partitions. Attempts on the wire land by themselves."""
        for held in self.lanes.drop(lambda held: held.message.partition in partitions):
            held.gone = True
            self.released(held)
        for held in self.lanes.in_flight():
            held.gone = held.gone or held.message.partition in partitions

    def flying(self, partitions: set[Partition]) -> bool:
        """Whether an attempt of these partitions is still on the wire."""
        return any(held.message.partition in partitions for held in self.lanes.in_flight())

    def waiting(self, event_id: str) -> list[Waiting]:
        """The events of this id that are held, are no rows of the store and were not tried yet."""
        return [
            Waiting(
                subscription=self._subscription.id,
                partition=held.message.partition,
                position=held.message.position,
                event=name,
                behind=name_of(head) if ahead else None,
                parked=False,
            )
            for head, *others in self.lanes.queues()
            for ahead, held in enumerate((head, *others))
            if held.row is None and not held.attempts and (name := name_of(held)).id == event_id
        ]

    def halt(self, cause: str) -> None:
        """No attempt begins any more; those on the wire go on."""
        was_disabled, self.halted = self.disabled, cause
        if self.disabled and not was_disabled:
            _log.warning("%s", disabled_words(self._subscription.id, cause))

    def allow(self) -> None:
        self.halted = ""
        self._timekeeper.soon()

    def act(self, now: float) -> float | None:
        """What is due now, and when something is next."""
        self.lanes.wake(now)
        self.wake()
        moments = (self.lanes.next_due(), None if self.halted else self._next_begin(now))
        return min((moment for moment in moments if moment is not None), default=None)

    def _next_begin(self, now: float) -> float | None:
        """When something may begin that could not now; None: we are woken. Never ``now`` itself, or we
        would ask again and again until it may."""
        if self._slot:
            return self._slot
        if self.endpoint.flow is Flow.PAUSED:
            return self.endpoint.until
        at = self._leaves_at(now) if self.flows else None
        return None if at is None or at <= now else at

    def wake(self) -> None:
        """Start as many senders as may send now."""
        if self.halted or self._tasks is None or self._paced():
            return
        if self.endpoint.flow is not Flow.FLOWING:
            self._probe_if_due()
            return
        if self._together is not None:
            self._begin_request()
            return
        wanted = min(self._most, self.lanes.flying + self.lanes.ready)
        while len(self._senders) < wanted and self._part.may_send():
            self._start_sender(None)

    def _sink_is_ready(self) -> None:
        self.endpoint.sink_is_ready(self._clock.monotonic())
        self._timekeeper.soon()

    def _begin_request(self) -> None:
        """One of several events, if one is to leave now. It calls for the next when it is gathered."""
        now = self._clock.monotonic()
        at = self._leaves_at(now)
        if at is not None and at > now:
            self._timekeeper.at(at)
        elif at is not None and self._part.may_send():
            self._start_sender(None)

    def _leaves_at(self, now: float) -> float | None:
        """When the next request is to leave; None where nothing is ready, or as many as may be are on
        the wire."""
        if self._together is None or len(self._senders) >= self._most:
            return None
        return self._together.leaves_at(now)

    def probe(self, key: bytes) -> bool:
        """Send the head of this lane, whose events were parked until now, as the probe; False: it
        cannot be sent now."""
        lane = self.lanes.find(key)
        barred = self.halted or self._tasks is None or self.endpoint.flow is not Flow.PROBING
        if barred or lane is None:
            return False
        self._start_sender(self.lanes.take_this(lane))
        return True

    def no_probe(self) -> None:
        """Nothing came of it: there was no such event."""
        if self.endpoint.flow is Flow.PROBING:
            self._nothing_sent(self._clock.monotonic() + LEASE_RECHECK, probe=True)

    def park_holding(self) -> None:
        """Rule 4: a lane that holds while half of the window is used parks, also one that waits; and one
        whose wait is beyond ``hold``, for it had no other place while the endpoint was at fault."""
        if self._rules.parks and self.flows:
            for lane in self.lanes.holding():
                if self._rules.overstays(lane.head) or self._crowded(lane.head.message.partition):
                    self._conclusions.park_waiting(lane)

    def cancel(self) -> None:
        """End all senders now; what they had in flight stays unfinished."""
        for sender in self._senders:
            sender.cancel()

    @property
    def _most(self) -> int:
        """Attempts at a time; after an outage fewer at first."""
        allowed = self.endpoint.allowed
        return (
            self._subscription.concurrency
            if allowed is None
            else min(self._subscription.concurrency, allowed)
        )

    def _paced(self) -> bool:
        """Whether the target's rate lets nothing begin now; then we are woken when it does."""
        now = self._clock.monotonic()
        wait = self._pace.wait(now)
        self._slot = now + wait if wait else 0.0
        if wait:
            self._timekeeper.at(self._slot)
        return wait > 0.0

    def _start_sender(self, probe: Lane[Held] | None) -> None:
        if self._tasks is None:
            return
        sending = self._send(probe)
        try:
            sender = self._tasks.create_task(sending, name=f"{self._subscription.id} sender")
        except RuntimeError:  # they are ending, of whatever it is: nothing begins any more
            sending.close()
            self._tasks = None
            return
        self._senders.add(sender)
        sender.add_done_callback(self._senders.discard)

    def _probe_if_due(self) -> None:
        now = self._clock.monotonic()
        if not self.endpoint.probe_if_due(now):
            return
        new = self.lanes.oldest(_untried) if self.endpoint.doubtful else None
        lane, parked = new or self.lanes.oldest(), self._conclusions.parked.lanes.oldest()
        if not new and parked is not None and (lane is None or parked.since < lane.since):
            self._probe_parked(parked)
        elif lane is not None:
            self._start_sender(self.lanes.take_this(lane))
        elif self.lanes.held:  # all of it is still on the wire
            self._nothing_sent(now + LEASE_RECHECK, probe=True)
        else:
            self.endpoint.nothing_to_probe()
            self._timekeeper.soon()

    def _nothing_sent(self, until: float, *, probe: bool) -> None:
        if probe:
            self.endpoint.probe_came_to_nothing(until)
            self._timekeeper.at(until)

    async def _send(self, probe: Lane[Held] | None) -> None:
        try:
            if probe is not None:
                await self._deliver(probe, probe=True)
            while (lane := self._next()) is not None:
                await self._deliver(lane, probe=False)
        finally:  # in the same step as the last take: a lane made ready later finds it gone
            self._senders.discard(cast("asyncio.Task[None]", asyncio.current_task()))

    def _next(self) -> Lane[Held] | None:
        if not self.flows or self._paced() or not self._is_due():
            return None
        return self.lanes.take() if self._part.may_send() else None

    def _is_due(self) -> bool:
        """Whether a sender may go on with the next."""
        if self._together is None:
            return self.lanes.flying < self._most
        now = self._clock.monotonic()
        at = self._together.leaves_at(now)
        self._timekeeper.at(at)
        return at is not None and at <= now and len(self._senders) <= self._most

    async def _deliver(self, lane: Lane[Held], *, probe: bool) -> None:
        now = self._clock.monotonic()
        self._part.sent()
        try:
            if not self._holds(lane.head.message):  # rule 5; a Revoked or Lost will say more
                self._conclusions.wait(lane, now + LEASE_RECHECK)
                self._nothing_sent(now + LEASE_RECHECK, probe=probe)
            elif (verdict := self._rules.early(lane.head)) is not None:
                self._nothing_sent(now, probe=probe)
                await self._conclusions.carry_out(lane, verdict)
            elif self._together is None or probe or not await self._sent_together(lane, now):
                await self._attempt(lane, now, probe=probe)
        finally:
            self._part.landed()
        self.landed.set()

    async def _sent_together(self, lane: Lane[Held], now: float) -> bool:
        """Whether its head went in a request with others; False: it has to go alone."""
        assert self._together is not None  # noqa: S101 - asked before
        request = self._together.gather(lane, now)
        self._timekeeper.soon()  # there may be enough for another
        if request is None:
            return False
        await self._together.attempt(request, now)
        if self.endpoint.allowed is not None:
            self._timekeeper.soon()
        return True

    def may_go(self, held: Held) -> bool:
        return self._holds(held.message) and self._rules.early(held) is None

    def judge(self, answer: SinkAnswer) -> Outcome:
        return self._rules.judge(answer)

    async def _attempt(self, lane: Lane[Held], started: float, *, probe: bool) -> None:
        held = lane.head
        held.attempts += 1
        self._pace.begun(started)
        answer = await self._sink.send(
            Outgoing(held.message, held.decoded, self._subscription.timeout)
        )
        now = self._clock.monotonic()
        outcome = self.judge(answer)
        decision = self.decide(lane, answer, outcome, now, probe=probe)
        self._attempts.note(held, answer, outcome, decision, (started, now, self._clock.now()))
        await self._conclusions.carry_out(lane, verdict_of(decision, outcome, answer))
        if self.flows and (probe or self.endpoint.allowed is not None):
            self._timekeeper.soon()  # one came through: the others may follow

    def decide(
        self,
        lane: Lane[Held],
        answer: SinkAnswer,
        outcome: Outcome,
        now: float,
        *,
        probe: bool = False,
    ) -> Decision:
        """The conclusion of this event, and what the answer says about the endpoint (rule 6)."""
        asked = self._rules.asked(answer)
        decision = self.concluded(lane, answer, outcome, now)
        if asked and (isinstance(decision, PauseEndpoint) or answer.status == TOO_MANY):
            cause = answer.detail if answer.hold else f"{outcome.code} with Retry-After"
            self.endpoint.asked_to_wait(now + asked, cause, by_sink=answer.hold > 0)
            self._timekeeper.at(now + asked)
        elif not outcome.reached:
            self._nothing_sent(now, probe=probe)
        elif not outcome.endpoint_fault:
            self.endpoint.answered(probe=probe)
        elif self.endpoint.failed(lane.key, outcome.code, now, self._jitter(), probe=probe):
            self._timekeeper.at(self.endpoint.until)
            return PauseEndpoint(self.endpoint.until)
        return decision

    def concluded(
        self, lane: Lane[Held], answer: SinkAnswer, outcome: Outcome, now: float
    ) -> Decision:
        """Of the head of this lane, whatever it says about the endpoint."""
        place = self._place(lane) if outcome.fate is Fate.RETRY else WaitsIn.LANE
        return self._rules.conclude(lane.head, outcome, answer, now, place)

    def _place(self, lane: Lane[Held]) -> WaitsIn:
        """Rules 4 to 6: where its wait may be."""
        if lane.head.row is not None:
            return WaitsIn.STORE
        if self.halted or self.endpoint.flow is Flow.PAUSED:
            return WaitsIn.LANE_ONLY
        if not self._conclusions.parked.room(len(lane.items)):
            return WaitsIn.LANE_ONLY
        return WaitsIn.CROWDED if self._crowded(lane.head.message.partition) else WaitsIn.LANE


def _untried(held: Held) -> bool:
    return not held.attempts
