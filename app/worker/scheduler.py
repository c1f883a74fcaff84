"""Send deliveries: at most one request in flight per lane. Decide, send, conclude.

There is no task per message. A sender is a task that lives as long as a lane is ready, so under load the
``concurrency`` senders keep taking the next lane. All code runs on the event loop, so state changes only at an
``await``."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import cast

from app.delivery.endpoint import BreakerState
from app.delivery.lanes import Lane, Lanes
from app.interfaces import BatchSink, Sink, SinkAnswer
from app.model.message import Partition
from app.model.pull import Pull
from app.worker.batching import BatchSender
from app.worker.conclusions import Conclusions
from app.worker.delivery import SETTLED, Delivery, Verdict
from app.worker.delivery_policy import DeliveryPolicy, verdict_of
from app.worker.gate import EndpointState
from app.worker.parking import KeyParking
from app.worker.request_bounds import bounds_of, requests_in_flight
from app.worker.shared import LEASE_RECHECK, DispatcherContext, DispatcherPart
from app.worker.timing import SendRate

EMPTIED = 2.0  # seconds after a delivery during which a full pull queue counts as being emptied


@dataclass(eq=False, repr=False)
class Scheduler(DispatcherPart):
    """Sends the deliveries of one subscription as the lanes, the endpoint and the bounds allow.

    ``lanes`` are the held deliveries; other parts may read them. ``concluded`` is set once as many attempts have
    ended as ``notify_after`` requested."""

    _sink: Sink
    lanes: Lanes[Delivery]
    _gate: EndpointState
    _parking: KeyParking
    _conclusions: Conclusions

    def __post_init__(self, shared: DispatcherContext) -> None:
        super().__post_init__(shared)
        subscription, sink = shared.subscription, self._sink
        self._name = f"{subscription.id} sender"
        self._concurrency = requests_in_flight(subscription)
        self._timeout = subscription.timeout
        self._is_pulled = isinstance(subscription.sink, Pull)
        self._endpoint = self._gate.endpoint
        self._policy = DeliveryPolicy(shared, self._gate, self._parking)
        self._pace = SendRate(subscription, sink, shared.clock)
        self._batching: BatchSender | None = None
        if (bounds := bounds_of(subscription)) is not None:
            parts = (self.lanes, self._pace, self._conclusions, self._policy)
            self._batching = BatchSender(shared, cast("BatchSink", sink), *parts, bounds)
        self._senders = 0
        self.concluded = asyncio.Event()
        self._left_to_notify = 0
        sink.when_ready(self._sink_is_ready)

    @property
    def accepts_messages(self) -> bool:
        """Return True if the dispatcher may read more from the log.

        Reading goes on while a full pull queue is being emptied, because a pause would discard prefetched messages.
        It also goes on if the endpoint is doubtful and every held event was tried, so that an untried event can
        probe it."""
        if self.only_sink_waits:
            return True
        if self._gate.halted or self._endpoint.flow is not BreakerState.PAUSED:
            return self._gate.is_open
        return self._endpoint.doubtful and all(head.attempts for head in self.lanes.heads())

    @property
    def busy(self) -> bool:
        """Return True if a request is in flight or about to be sent."""
        return self.lanes.sending > 0 or (self.lanes.ready > 0 and self._gate.is_open)

    @property
    def only_sink_waits(self) -> bool:
        """Return True if only the sink delays deliveries, and briefly: a full pull queue that is being emptied."""
        lately = self._clock.monotonic() - self._policy.delivered_at < EMPTIED
        return lately and not self._gate.halted and self._endpoint.waits_for_sink

    def add(self, delivery: Delivery, before: Callable[[Delivery], bool] | None = None) -> None:
        """Hold a delivery and queue it in its lane; ``before`` selects its place as in ``Lanes.add``."""
        self._budget.hold(delivery.size)
        self.lanes.add(delivery.lane, delivery, before)

    def park(self, delivery: Delivery) -> None:
        """Queue a delivery after its key, which is parked. The delivery uses memory until its row is stored."""
        self._budget.hold(delivery.size)
        self._parking.add(delivery)

    def drop(self, partitions: set[Partition]) -> None:
        """Drop the held deliveries of these partitions. Requests in flight end by themselves."""
        for delivery in self.lanes.drop(lambda each: each.message.partition in partitions):
            self._conclusions.release(delivery)

    def busy_with(self, partitions: set[Partition]) -> bool:
        """Return True if a request with events of these partitions is in flight."""
        return any(each.message.partition in partitions for each in self.lanes.in_flight())

    def notify_after(self, attempts: int) -> None:
        """Clear ``concluded`` and set it again after this number of attempts has ended."""
        self._left_to_notify = attempts
        self.concluded.clear()

    def act(self, now: float) -> float | None:
        """Start senders for what is due at ``now`` and return the time of the next action, or None."""
        self.lanes.wake(now)
        self.wake()
        due = self.lanes.next_due()
        leaves = self._next_request_at(now) if self._gate.is_open else None
        if leaves is None or leaves <= now:  # returning ``now`` would make the timekeeper spin
            return due
        return leaves if due is None else min(due, leaves)

    def wake(self) -> None:
        """Start as many senders as may send now."""
        if not self._gate.is_open or not self.lanes.ready or self.rate_limited():
            return
        if self._batching is not None:
            self._begin_request()
            return
        wanted = min(self._most, self.lanes.sending + self.lanes.ready)
        while self._senders < wanted and self._budget.may_send():
            if not self._start_sender(None):
                return

    def rate_limited(self) -> bool:
        """Return True if the rate of the target allows no attempt now, and schedule the next check for when it
        does."""
        wait = self._pace.wait()
        if wait:
            self._timekeeper.wake_at(self._clock.monotonic() + wait)
        return wait > 0.0

    def probe(self, lane: Lane[Delivery]) -> None:
        """Send the head of this lane, ready or waiting, as the probe."""
        self._start_sender(self.lanes.take_lane(lane))

    def probe_parked(self, key: bytes) -> None:
        """Send the head of a lane that was parked until now as the probe, unless it is gone or in flight."""
        lane = self.lanes.find(key)
        if lane is None or self._gate.halted or self._endpoint.flow is not BreakerState.PROBING:
            self.no_probe()
        else:
            self.probe(lane)

    def no_probe(self) -> None:
        """End a probe for which no event was found; another probe may follow soon."""
        if self._endpoint.flow is BreakerState.PROBING:
            self._gate.nothing_sent(self._clock.monotonic() + LEASE_RECHECK)

    def park_holding(self) -> None:
        """Park waiting lanes that have used up the waits in memory, or whose partition has used half of its window.

        A lane can wait in memory beyond ``hold`` only while the endpoint was at fault, because it could not park
        then."""
        if self._policy.parks and self._gate.is_open:
            for lane in self.lanes.holding():
                if self._policy.waited_past_hold(lane.head) or lane.head.origin.owned.crowded():
                    self._conclusions.park_waiting(lane)

    @property
    def _most(self) -> int:
        """Return the number of attempts that may be in flight; after an outage it starts small."""
        allowed = self._endpoint.allowed
        return self._concurrency if allowed is None else min(self._concurrency, allowed)

    def _sink_is_ready(self) -> None:
        self._endpoint.sink_is_ready(self._clock.monotonic())
        self._timekeeper.wake_now()

    def _begin_request(self) -> None:
        """Start the next request of several events if it is due now, else schedule it."""
        now = self._clock.monotonic()
        at = self._next_request_at(now)
        if at is not None and at > now:
            self._timekeeper.wake_at(at)
        elif at is not None and self._budget.may_send():
            self._start_sender(None)

    def _next_request_at(self, now: float) -> float | None:
        """Return when the next request is due. Return None if no lane is ready or the bound of requests is reached."""
        if self._batching is None or self._senders >= self._most:
            return None
        return self._batching.next_request_at(now)

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
        finally:  # without an await after the last take, so that ``wake`` counts the senders right
            self._senders -= 1

    def _next(self) -> Lane[Delivery] | None:
        if (
            not self.lanes.ready
            or not self._gate.is_open
            or self.rate_limited()
            or not self._is_due()
        ):
            return None
        return self.lanes.take() if self._budget.may_send() else None

    def _is_due(self) -> bool:
        """Return True if a sender may take the next lane now."""
        if self._batching is None:
            return self.lanes.sending < self._most
        now = self._clock.monotonic()
        at = self._batching.next_request_at(now)
        self._timekeeper.wake_at(at)
        return at is not None and at <= now and self._senders <= self._most

    async def _deliver(self, lane: Lane[Delivery], *, probe: bool) -> None:
        now = self._clock.monotonic()
        head = lane.head
        self._budget.begin_attempt()
        try:
            if not head.origin.owned.holds():  # the lease is in doubt; a Revoked or Lost may follow
                self._conclusions.wait(lane, now + LEASE_RECHECK)
                self._gate.nothing_sent(now + LEASE_RECHECK, probe=probe)
            elif (verdict := self._policy.verdict_without_attempt(head)) is not None:
                self._gate.nothing_sent(now, probe=probe)
                await self._conclusions.carry_out(lane, verdict)
            elif not await self._sent_in_batch(lane, now, probe=probe):
                head.attempts += 1
                self._pace.begun(now)
                answer = await self._sink.send(head.outgoing(self._timeout))
                verdict = self._verdict(lane, answer, now, probe=probe)
                if verdict is SETTLED:
                    self._conclusions.delivered(lane)
                else:
                    await self._conclusions.carry_out(lane, verdict)
                if self._gate.is_open and (probe or self._endpoint.allowed is not None):
                    self._timekeeper.wake_now()  # the target answered, so more may be sent
        finally:
            self._budget.end_attempt()
        self._left_to_notify -= 1
        if self._left_to_notify <= 0:
            self.concluded.set()

    async def _sent_in_batch(self, lane: Lane[Delivery], now: float, *, probe: bool) -> bool:
        """Send the head in a request with others and return True, or return False if it must be sent alone.

        A probe is sent alone, except to a pull queue, where a transaction of many events costs as much as one of a
        single event."""
        if self._batching is None or (probe and not self._is_pulled):
            return False
        request = self._batching.gather(lane, now)
        self._timekeeper.wake_now()  # another request may be complete
        if request is None:
            return False
        await self._batching.attempt(request, now, probe=probe)
        self._left_to_notify -= len(request.items) - 1
        if self._endpoint.allowed is not None:
            self._timekeeper.wake_now()
        return True

    def _verdict(
        self, lane: Lane[Delivery], answer: SinkAnswer, started: float, *, probe: bool
    ) -> Verdict:
        now = self._clock.monotonic()
        outcome = self._policy.judge(answer)
        decided = self._policy.decide(lane, answer, outcome, now, probe=probe)
        decision = self._policy.keep_schedule(lane.head, decided)
        times = (started, now, self._clock.now())
        self._attempts.note(lane.head, answer, outcome, decision, times)
        lane.head.attempts -= not self._policy.counts(answer, outcome)
        return verdict_of(decision, outcome, answer)
