"""Make single attempts: check the lease, send, and decide about the answer.

A sink that can begin an attempt without a task (``Sink.begin``) reports its answer to a callback. Other attempts are
awaited."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import TypeAlias

from app.delivery.lanes import Lane, Lanes
from app.delivery.outcomes import Fate
from app.delivery.plan import SETTLE
from app.interfaces import BegunAttempt, Sink, SinkAnswer
from app.model.pull import Pull
from app.worker.batching import BatchSender
from app.worker.conclusions import Conclusions
from app.worker.delivery import SETTLED, Delivery, Verdict
from app.worker.delivery_policy import DeliveryPolicy, verdict_of
from app.worker.gate import EndpointState
from app.worker.shared import LEASE_RECHECK, DispatcherContext, DispatcherPart
from app.worker.timing import SendRate

OnAnswer: TypeAlias = Callable[[Lane[Delivery], float, SinkAnswer], None]
"""A function that receives the lane (the queue of one key) of an attempt, the monotonic time of its begin, and its
answer."""


@dataclass(eq=False, repr=False)
class AttemptRunner(DispatcherPart):
    """Makes the attempts of one subscription.

    ``batching`` sends several events in one request, if the subscription wants that."""

    _sink: Sink
    _lanes: Lanes[Delivery]
    _gate: EndpointState
    _conclusions: Conclusions
    _policy: DeliveryPolicy
    _pace: SendRate
    batching: BatchSender | None = field(default=None, init=False)

    def __post_init__(self, shared: DispatcherContext) -> None:
        super().__post_init__(shared)
        self._timeout = shared.subscription.timeout
        self._is_pulled = isinstance(shared.subscription.sink, Pull)
        self._begun: dict[Lane[Delivery], BegunAttempt] = {}  # attempts without a task

    def begin_next(self, on_answer: OnAnswer) -> bool:
        """Take the next lane (queue of one key), and begin an attempt without a task. Return False if it needs one,
        or if no lane may be taken."""
        sink, lanes = self._sink, self._lanes
        lane = lanes.next_to_take() if sink.begins and self.batching is None else None
        if lane is None:
            return False
        head = lane.items[0]
        if not head.origin.owned.holds() or self._policy.verdict_without_attempt(head) is not None:
            return False
        now = self._clock.monotonic()
        begun = sink.begin(head.decoded, self._timeout, partial(on_answer, lane, now))
        if begun is None:
            return False
        self._begun[lane] = begun
        lanes.take()
        head.attempts += 1
        self._pace.begun(now)
        return True

    def conclude(self, lane: Lane[Delivery], answer: SinkAnswer, started: float) -> Verdict:
        """Decide about the answer to an attempt without a task."""
        del self._begun[lane]
        return self._verdict(lane, answer, started, probe=False)

    def abort(self) -> None:
        """End the attempts without a task. Their deliveries stay unfinished."""
        while self._begun:
            self._begun.popitem()[1].abort()

    async def make(self, lane: Lane[Delivery], *, probe: bool) -> int:
        """Make an attempt at the first event of a lane that was taken, and carry out the verdict. Return the number
        of events that were in the request."""
        now = self._clock.monotonic()
        head = lane.head
        if not head.origin.owned.holds() or self._suspensions.unread(now):
            # the lease is in doubt, and a Revoked or Lost may follow; or a pause may be unknown
            self._conclusions.wait(lane, now + LEASE_RECHECK)
            self._gate.nothing_sent(now + LEASE_RECHECK, probe=probe)
            return 1
        if (verdict := self._policy.verdict_without_attempt(head)) is not None:
            self._gate.nothing_sent(now, probe=probe)
            await self._conclusions.carry_out(lane, verdict)
            return 1
        if together := await self._send_in_batch(lane, now, probe=probe):
            return together
        head.attempts += 1
        self._pace.begun(now)
        answer = await self._sink.send(head.outgoing(self._timeout))
        verdict = self._verdict(lane, answer, now, probe=probe)
        if verdict is SETTLED:
            self._conclusions.delivered(lane)
        else:
            await self._conclusions.carry_out(lane, verdict)
        return 1

    async def _send_in_batch(self, lane: Lane[Delivery], now: float, *, probe: bool) -> int:
        """Send the first event of the lane in a request with others, and return their number. Return 0 if it must be
        sent alone.

        A probe is sent alone, except to a pull queue, where a transaction of many events costs as much as one of a
        single event."""
        if self.batching is None or (probe and not self._is_pulled):
            return 0
        request = self.batching.gather(lane, now)
        self._timekeeper.wake_now()  # another request may be complete
        if request is None:
            return 0
        await self.batching.attempt(request, now, probe=probe)
        return len(request.items)

    def _verdict(
        self, lane: Lane[Delivery], answer: SinkAnswer, started: float, *, probe: bool
    ) -> Verdict:
        now = self._clock.monotonic()
        head, times = lane.items[0], (started, now, self._clock.now(), self._store.clock.now())
        outcome = self._policy.judge(answer)
        if outcome.fate is Fate.DELIVERED:
            self._policy.delivered(lane, now, probe=probe)
            self._attempts.note(head, answer, outcome, SETTLE, times)
            return SETTLED
        decided = self._policy.decide(lane, answer, outcome, now, probe=probe)
        decision = self._policy.keep_schedule(head, decided)
        self._attempts.note(head, answer, outcome, decision, times)
        head.attempts -= not self._policy.counts(answer, outcome)
        return verdict_of(decision, outcome, answer)
