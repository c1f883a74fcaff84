"""What is sent: one attempt at a time in each lane. Decide, act, conclude.

There is no task a message: a sender is a task that lives as long as a lane is ready, so under load
the ``concurrency`` senders just keep taking the next lane. All of it runs on the event loop, so
between two awaits nothing changes underneath.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import cast

from app.delivery.endpoint import BreakerState
from app.delivery.lanes import Lane, Lanes
from app.interfaces import JoiningSink, Sink, SinkAnswer
from app.model.message import Partition
from app.model.pull import Pull
from app.worker.batching import Batching
from app.worker.conclusions import Conclusions
from app.worker.delivery import SETTLED, Delivery, Verdict
from app.worker.delivery_policy import DeliveryPolicy, verdict_of
from app.worker.gate import Gate
from app.worker.parking import Parking
from app.worker.request_bounds import bounds_of, requests_in_flight
from app.worker.shared import LEASE_RECHECK, DispatcherPart, Shared
from app.worker.timing import Pace

EMPTIED = 2.0  # seconds since the last delivery in which a full queue counts as being emptied


@dataclass(eq=False, repr=False)
class Scheduler(DispatcherPart):
    """``lanes``   all that is held; to be looked at from outside, not touched.
    ``landed``  set when as many attempts were concluded as ``tell_after`` was told.
    """

    _sink: Sink
    lanes: Lanes[Delivery]
    _gate: Gate
    _parking: Parking
    _conclusions: Conclusions

    def __post_init__(self, shared: Shared) -> None:
        super().__post_init__(shared)
        subscription, sink = shared.subscription, self._sink
        self._name = f"{subscription.id} sender"
        self._concurrency = requests_in_flight(subscription)
        self._timeout = subscription.timeout
        self._is_pulled = isinstance(subscription.sink, Pull)
        self._endpoint = self._gate.endpoint
        self._policy = DeliveryPolicy(shared, self._gate, self._parking)
        self._pace = Pace(subscription, sink, shared.clock)
        self._batching: Batching | None = None
        if (bounds := bounds_of(subscription)) is not None:
            parts = (self.lanes, self._pace, self._conclusions, self._policy)
            self._batching = Batching(shared, cast("JoiningSink", sink), *parts, bounds)
        self._senders = 0
        self.landed = asyncio.Event()
        self._untold = 0
        sink.when_ready(self._sink_is_ready)

    @property
    def takes(self) -> bool:
        """Whether more may be taken from the log (rule 6). A queue that was full a moment ago, and is emptied, has
        room again soon: a pause would throw away what was read ahead."""
        if self.waits:
            return True
        if self._gate.halted or self._endpoint.flow is not BreakerState.PAUSED:
            return self._gate.is_open
        return self._endpoint.doubtful and all(head.attempts for head in self.lanes.heads())

    @property
    def busy(self) -> bool:
        """Whether something is on the wire, or about to be."""
        return self.lanes.flying > 0 or (self.lanes.ready > 0 and self._gate.is_open)

    @property
    def waits(self) -> bool:
        """Whether only the sink stops it, and for a moment: a queue that is full, and is being emptied."""
        lately = self._clock.monotonic() - self._policy.delivered_at < EMPTIED
        return lately and not self._gate.halted and self._endpoint.waits_for_sink

    def add(self, delivery: Delivery, before: Callable[[Delivery], bool] | None = None) -> None:
        """``before``: as ``Lanes.add`` takes it."""
        self._part.hold(delivery.size)
        self.lanes.add(delivery.lane, delivery, before)

    def park(self, delivery: Delivery) -> None:
        """Behind its key, which is parked. It costs memory until it is a row."""
        self._part.hold(delivery.size)
        self._parking.follow(delivery)

    def drop(self, partitions: set[Partition]) -> None:
        """Forget what is held of these partitions. Attempts on the wire land by themselves."""
        for delivery in self.lanes.drop(lambda each: each.message.partition in partitions):
            self._conclusions.release(delivery)

    def busy_with(self, partitions: set[Partition]) -> bool:
        """Whether an attempt of these partitions is still on the wire."""
        return any(each.message.partition in partitions for each in self.lanes.in_flight())

    def tell_after(self, attempts: int) -> None:
        """``landed`` is to be set once so many more were concluded."""
        self._untold = attempts
        self.landed.clear()

    def act(self, now: float) -> float | None:
        """What is due now, and when something is next."""
        self.lanes.wake(now)
        self.wake()
        due = self.lanes.next_due()
        leaves = self._leaves_at(now) if self._gate.is_open else None
        if leaves is None or leaves <= now:  # never now: we would ask again and again until it may
            return due
        return leaves if due is None else min(due, leaves)

    def wake(self) -> None:
        """Start as many senders as may send now."""
        if not self._gate.is_open or not self.lanes.ready or self.paced():
            return
        if self._batching is not None:
            self._begin_request()
            return
        wanted = min(self._most, self.lanes.flying + self.lanes.ready)
        while self._senders < wanted and self._part.may_send():
            if not self._start_sender(None):
                return

    def paced(self) -> bool:
        """Whether the target's rate lets nothing begin now; then it is looked at again when it does."""
        wait = self._pace.wait()
        if wait:
            self._timekeeper.at(self._clock.monotonic() + wait)
        return wait > 0.0

    def probe(self, lane: Lane[Delivery]) -> None:
        """Send the head of this lane, ready or waiting, as the probe."""
        self._start_sender(self.lanes.take_this(lane))

    def probe_parked(self, key: bytes) -> None:
        """The same of a lane that was parked until now. It may be gone, or in flight."""
        lane = self.lanes.find(key)
        if lane is None or self._gate.halted or self._endpoint.flow is not BreakerState.PROBING:
            self.no_probe()
        else:
            self.probe(lane)

    def no_probe(self) -> None:
        """Nothing came of it: there was no such event."""
        if self._endpoint.flow is BreakerState.PROBING:
            self._gate.nothing_sent(self._clock.monotonic() + LEASE_RECHECK)

    def park_holding(self) -> None:
        """Rule 4: a lane that holds while half of the window is used parks, also one that waits; and one
        whose wait is beyond ``hold``, for it had no other place while the endpoint was at fault."""
        if self._policy.parks and self._gate.is_open:
            for lane in self.lanes.holding():
                if self._policy.overstays(lane.head) or lane.head.origin.owned.crowded():
                    self._conclusions.park_waiting(lane)

    @property
    def _most(self) -> int:
        """Attempts at a time; after an outage fewer at first."""
        allowed = self._endpoint.allowed
        return self._concurrency if allowed is None else min(self._concurrency, allowed)

    def _sink_is_ready(self) -> None:
        self._endpoint.sink_is_ready(self._clock.monotonic())
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
        if self._batching is None or self._senders >= self._most:
            return None
        return self._batching.leaves_at(now)

    def _start_sender(self, probe: Lane[Delivery] | None) -> bool:
        begun = self._scope.spawn(self._send(probe), self._name) is not None
        self._senders += begun
        return begun

    async def _send(self, probe: Lane[Delivery] | None) -> None:
        try:
            if probe is not None:
                await self._deliver(probe, probe=True)
            while (lane := self._next()) is not None:
                await self._deliver(lane, probe=False)
        finally:  # in the same step as the last take: a lane made ready later finds it gone
            self._senders -= 1

    def _next(self) -> Lane[Delivery] | None:
        if not self.lanes.ready or not self._gate.is_open or self.paced() or not self._is_due():
            return None
        return self.lanes.take() if self._part.may_send() else None

    def _is_due(self) -> bool:
        """Whether a sender may go on with the next."""
        if self._batching is None:
            return self.lanes.flying < self._most
        now = self._clock.monotonic()
        at = self._batching.leaves_at(now)
        self._timekeeper.at(at)
        return at is not None and at <= now and self._senders <= self._most

    async def _deliver(self, lane: Lane[Delivery], *, probe: bool) -> None:
        now = self._clock.monotonic()
        head = lane.head
        self._part.sent()
        try:
            if not head.origin.owned.holds():  # rule 5; a Revoked or Lost will say more
                self._conclusions.wait(lane, now + LEASE_RECHECK)
                self._gate.nothing_sent(now + LEASE_RECHECK, probe=probe)
            elif (verdict := self._policy.early(head)) is not None:
                self._gate.nothing_sent(now, probe=probe)
                await self._conclusions.carry_out(lane, verdict)
            elif not await self._sent_together(lane, now, probe=probe):
                head.attempts += 1
                self._pace.begun(now)
                answer = await self._sink.send(head.outgoing(self._timeout))
                verdict = self._verdict(lane, answer, now, probe=probe)
                if verdict is SETTLED:
                    self._conclusions.delivered(lane)
                else:
                    await self._conclusions.carry_out(lane, verdict)
                if self._gate.is_open and (probe or self._endpoint.allowed is not None):
                    self._timekeeper.soon()  # one came through: the others may follow
        finally:
            self._part.landed()
        self._untold -= 1
        if self._untold <= 0:
            self.landed.set()

    async def _sent_together(self, lane: Lane[Delivery], now: float, *, probe: bool) -> bool:
        """Whether its head went in a request with others; False: it has to go alone. A probe does, except to a queue
        that is pulled: there a transaction of one event costs as much as one of many."""
        if self._batching is None or (probe and not self._is_pulled):
            return False
        request = self._batching.gather(lane, now)
        self._timekeeper.soon()  # there may be enough for another
        if request is None:
            return False
        await self._batching.attempt(request, now, probe=probe)
        self._untold -= len(request.items) - 1
        if self._endpoint.allowed is not None:
            self._timekeeper.soon()
        return True

    def _verdict(
        self, lane: Lane[Delivery], answer: SinkAnswer, started: float, *, probe: bool
    ) -> Verdict:
        now = self._clock.monotonic()
        outcome = self._policy.judge(answer)
        decision = self._policy.decide(lane, answer, outcome, now, probe=probe)
        times = (started, now, self._clock.now())
        self._attempts.note(lane.head, answer, outcome, decision, times)
        lane.head.attempts -= not self._policy.counts(answer, outcome)
        return verdict_of(decision, outcome, answer)
