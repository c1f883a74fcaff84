"""Send deliveries: at most one request in flight per lane (the queue of one key). Decide, send, conclude.

There is no task per message. A sink that can begin an attempt without a task (``Sink.begin``) reports its answer to
``_on_answer``, which begins the next attempt. Otherwise a sender, which is a task, takes one lane after the other as
long as any is ready. All code runs on the event loop, so state changes only at an ``await``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import cast

from app.delivery.endpoint import BreakerState
from app.delivery.lanes import Lane, Lanes
from app.interfaces import BatchSink, Sink, SinkAnswer
from app.model.message import Partition
from app.telemetry.light_event import LightEvent
from app.worker.attempt_runner import AttemptRunner
from app.worker.batching import BatchSender
from app.worker.conclusions import Conclusions
from app.worker.delivery import SETTLED, Delivery, Verdict
from app.worker.delivery_policy import DeliveryPolicy
from app.worker.gate import EndpointState
from app.worker.parking import KeyParking
from app.worker.request_bounds import bounds_of, requests_in_flight
from app.worker.shared import LEASE_RECHECK, DispatcherContext, DispatcherPart
from app.worker.timing import SendRate

EMPTIED = 2.0  # seconds after a delivery during which a full pull queue counts as being emptied


@dataclass(eq=False, repr=False)
class Scheduler(DispatcherPart):
    """Sends the deliveries of one subscription as the lanes, the endpoint and the bounds allow.

    ``lanes`` has the held deliveries, in one queue per key; other parts may read it. ``concluded`` is set once as
    many attempts have ended as ``notify_after`` requested."""

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
        self._endpoint = self._gate.endpoint
        self._policy = DeliveryPolicy(shared, self._gate, self._parking)
        self._pace = SendRate(subscription, sink, shared.clock)
        self._runner = AttemptRunner(
            shared, sink, self.lanes, self._gate, self._conclusions, self._policy, self._pace
        )
        self._batching: BatchSender | None = None
        if (bounds := bounds_of(subscription)) is not None:
            parts = (self.lanes, self._pace, self._conclusions, self._policy)
            self._batching = BatchSender(shared, cast("BatchSink", sink), *parts, bounds)
            self._runner.batching = self._batching
        self._senders = 0  # tasks, and attempts without a task
        self._ended = False
        self.concluded = LightEvent()
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
        """Hold a delivery and queue it by its key (in its lane); ``before`` selects its place as in ``Lanes.add``."""
        self._budget.hold(delivery.size)
        self.lanes.add(delivery.lane, delivery, before)

    def add_all(self, deliveries: Sequence[Delivery]) -> None:
        """Hold deliveries and queue them by their keys (in their lanes)."""
        size = 0
        for delivery in deliveries:
            size += delivery.size
            self.lanes.add(delivery.lane, delivery)
        self._budget.hold(size)

    def park(self, delivery: Delivery) -> None:
        """Queue a delivery after the parked events of its key. The delivery uses memory until its row is stored."""
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
        if not self._gate.is_open or not self.lanes.ready or self._misses_a_read():
            return
        if self.rate_limited():
            return
        if self._batching is not None:
            self._begin_request()
            return
        wanted = min(self._most, self.lanes.sending + self.lanes.ready)
        while self._senders < wanted and self._advance():
            pass

    def rate_limited(self) -> bool:
        """Return True if the rate of the target allows no attempt now, and schedule the next check for when it
        does."""
        wait = self._pace.wait()
        if wait:
            self._timekeeper.wake_at(self._clock.monotonic() + wait)
        return wait > 0.0

    def abort(self) -> None:
        """Begin no more attempts, and end those that were begun without a task. Their deliveries stay unfinished."""
        self._ended = True
        self._runner.abort()

    def probe(self, lane: Lane[Delivery]) -> None:
        """Send the first event of this lane (the queue of one key) as the probe, even if its next attempt is not
        due."""
        self._start_sender(self.lanes.take_lane(lane))

    def probe_parked(self, key: bytes) -> None:
        """Send the first event of a key that was parked until now as the probe, unless it is gone or in flight."""
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
        """Park waiting keys (lanes) that have used up the waits in memory, or whose partition has used half of its
        window. A key waits in memory beyond ``hold`` only after a fault of the endpoint, because keys cannot park
        during a fault."""
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
        """Start the next request with several events if it is due now, else schedule it."""
        now = self._clock.monotonic()
        at = self._next_request_at(now)
        if at is not None and at > now:
            self._timekeeper.wake_at(at)
        elif at is not None and self._budget.may_send():
            self._start_sender(None)

    def _next_request_at(self, now: float) -> float | None:
        """Return when the next request is due. Return None if no key has an event to send, or the bound of requests
        is reached."""
        if self._batching is None or self._senders >= self._most:
            return None
        return self._batching.next_request_at(now)

    def _start_sender(self, probe: Lane[Delivery] | None) -> bool:
        begun = self._scope.spawn(self._send(probe), self._name) is not None
        self._senders += begun
        return begun

    def _advance(self) -> bool:
        """Begin an attempt at the next lane, or start a sender for it. Return False if nothing may be sent now."""
        if not self._may_send() or not self._budget.may_send():
            return False
        return self._begin_counted() or self._start_sender(None)

    async def _send(self, probe: Lane[Delivery] | None) -> None:
        try:
            if probe is not None:
                await self._make(probe, probe=True)
            while self._may_send() and self._budget.may_send() and not self._begin_counted():
                if (lane := self.lanes.take()) is None:
                    return
                await self._make(lane, probe=False)
        finally:  # without an await after the last take, so that ``wake`` counts the senders right
            self._senders -= 1

    def _may_send(self) -> bool:
        """Return True if an attempt at the next lane (queue of one key) may begin, as far as this subscription is
        concerned."""
        lanes = self.lanes
        if not lanes.ready or self._ended or not self._gate.is_open or self._misses_a_read():
            return False
        if self._pace.wait() and self.rate_limited():
            return False
        if self._batching is not None:
            return self._is_due(self._batching)
        return self._endpoint.allowed is None or lanes.sending < self._most

    def _misses_a_read(self) -> bool:
        """Return True if the process was suspended and has not read the store since, and schedule the next check."""
        now = self._clock.monotonic()
        if unread := self._suspensions.unread(now):
            self._timekeeper.wake_at(now + LEASE_RECHECK)
        return unread

    def _is_due(self, batching: BatchSender) -> bool:
        """Return True if a sender may take the next lane (queue of one key) for a request with several events."""
        now = self._clock.monotonic()
        at = batching.next_request_at(now)
        self._timekeeper.wake_at(at)
        return at is not None and at <= now and self._senders <= self._most

    def _begin_counted(self) -> bool:
        """Begin an attempt without a task, as one more attempt in flight. Return False if it needs a task."""
        if not self._runner.begin_next(self._on_answer):
            return False
        self._budget.begin_attempt()
        self._senders += 1
        return True

    def _on_answer(self, lane: Lane[Delivery], started: float, answer: SinkAnswer) -> None:
        """Conclude an attempt that was begun without a task, and begin the next one."""
        try:
            verdict = self._runner.conclude(lane, answer, started)
            if verdict is SETTLED:
                self._conclusions.delivered(lane)
                self._follow()
            elif self._conclusions.carry_out_now(lane, verdict):
                self._follow()
            else:
                self._scope.spawn(self._carry_out(lane, verdict), self._name)
        except Exception as error:  # noqa: BLE001 - raised in a task, whose failure ends the dispatcher
            self._scope.spawn(_raise(error), self._name)

    def _follow(self) -> None:
        """Begin the next attempt in the place of one that was begun without a task and has ended."""
        self._note_end(probe=False)
        if (
            self._may_send()
            and self._budget.keeps_place()
            and self._runner.begin_next(self._on_answer)
        ):
            return
        self._budget.end_attempt()
        self._senders -= 1
        self._advance()

    async def _carry_out(self, lane: Lane[Delivery], verdict: Verdict) -> None:
        """Carry out a verdict, and go on as a sender."""
        try:
            await self._conclusions.carry_out(lane, verdict)
        finally:
            self._end_attempt(probe=False)
        await self._send(None)

    async def _make(self, lane: Lane[Delivery], *, probe: bool) -> None:
        self._budget.begin_attempt()
        try:
            self._left_to_notify -= await self._runner.make(lane, probe=probe) - 1
        finally:
            self._end_attempt(probe=probe)

    def _end_attempt(self, *, probe: bool) -> None:
        """Free the place of an attempt that has ended."""
        self._budget.end_attempt()
        self._note_end(probe=probe)

    def _note_end(self, *, probe: bool) -> None:
        """Note that an attempt has ended."""
        if (probe or self._endpoint.allowed is not None) and self._gate.is_open:
            self._timekeeper.wake_now()  # the target answered, so more may be sent
        self._left_to_notify -= 1
        if self._left_to_notify <= 0:
            self.concluded.set()


async def _raise(error: Exception) -> None:
    raise error
