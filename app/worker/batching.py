"""Send several events in one request (``batch``): choose the time and the events, and apply the answer. A lane is
the queue of the events of one key.

=================================  ================================================================
answer                             effect
=================================  ================================================================
delivered                          All events are finished, those of a lane in their order.
endpoint at fault, Retry-After,    All events return to their lanes and use no step.
410, or unreachable
would dead-letter a lane's head    All events return and are sent at once in halves. In the end
                                   the faulty event is alone and becomes a dead letter.
retry                              The head of each lane uses a step and waits. The next events of
                                   the lane follow it. The next requests are half as large.
not sent, while others are         The head of each lane waits and uses no step.
answered
an outcome for each event          Each lane finishes its events up to the first that failed, which is
                                   decided by itself. The events after it follow it.
=================================  ================================================================
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile

from msgspec.structs import replace

from app.delivery.lanes import Lane, Lanes
from app.delivery.outcomes import AttemptOutcome, Fate
from app.delivery.plan import DeadLetterIt, Decision, Disable, PauseEndpoint, Settle
from app.delivery.request_batching import BatchBuilder, BatchLimits, Piece, next_request_at
from app.interfaces import BatchSink, SinkAnswer
from app.worker.attempts import AttemptTimes
from app.worker.conclusions import Conclusions
from app.worker.delivery import Delivery
from app.worker.delivery_policy import DeliveryPolicy, verdict_of
from app.worker.shared import DispatcherPart
from app.worker.timing import SendRate


@dataclass(eq=False, repr=False)
class BatchSender(DispatcherPart):
    """Sends requests with several events for one subscription."""

    _sink: BatchSink
    _lanes: Lanes[Delivery]
    _pace: SendRate
    _conclusions: Conclusions
    _policy: DeliveryPolicy
    _bounds: BatchLimits

    def next_request_at(self, now: float) -> float | None:
        """Return when the next request is due, which may be in the past. Return None while no key has an event to
        send."""
        self._lanes.stamp(now)
        return next_request_at(self._lanes, self._bounds)

    def gather(self, lane: Lane[Delivery], now: float) -> BatchBuilder[Delivery] | None:
        """Return a request whose first event is the first of this lane (the queue of one key). Return None if that
        event must be sent alone."""
        first = self._piece(lane.head)
        if first is None:
            return None
        most = min(self._pace.room(now), self._bounds.events, self._sink.room())
        request = BatchBuilder(self._lanes, replace(self._bounds, events=most), self._fitting)
        request.begin(lane, first)
        return request

    async def attempt(
        self, request: BatchBuilder[Delivery], started: float, *, probe: bool = False
    ) -> None:
        """Send the request and carry out the verdict on the events of each key."""
        for delivery in request.items:
            delivery.attempts += 1
            self._pace.begun(started)
        answer = await self._sink.send_together(request.pieces, self._subscription.timeout)
        now = self._clock.monotonic()
        times = (started, now, self._clock.now(), self._store.clock.now())
        if len(answer.outcomes) == len(request.items) > 1:
            await self._apply_each(request, answer, times, probe=probe)
            return
        outcome = self._policy.judge(answer)
        decisions = [
            self._policy.keep_schedule(lane.head, decision)
            for lane, decision in zip(
                request.lanes,
                self._decisions(request, answer, outcome, now, probe=probe),
                strict=True,
            )
        ]
        self._note(request, answer, outcome, decisions, times)
        if outcome.fate is Fate.DELIVERED:
            for lane in request.lanes:
                self._conclusions.delivered(lane)
            return
        for delivery in request.items:
            delivery.attempts -= not self._policy.counts(answer, outcome)
        decided = list(zip(request.lanes, decisions, strict=True))
        if answer.hold:  # each lane returns to the front, so the first comes last
            decided.reverse()
        await asyncio.gather(
            *(
                self._conclusions.carry_out_batch(lane, verdict_of(decision, outcome, answer))
                for lane, decision in decided
            )
        )

    async def _apply_each(
        self,
        request: BatchBuilder[Delivery],
        answer: SinkAnswer,
        times: AttemptTimes,
        *,
        probe: bool,
    ) -> None:
        """Apply an answer that has an outcome for each event, key by key."""
        outcomes = dict(zip(map(id, request.items), answer.outcomes, strict=True))
        failed = []
        for lane in request.lanes:
            sent = self._lanes.sent_items(lane)
            taken = [*takewhile(lambda each: outcomes[id(each)].fate is Fate.DELIVERED, sent)]
            if len(taken) < len(sent):
                self._conclusions.delivered_first(lane, taken)
            outcome = outcomes[id(lane.head)]
            decided = self._policy.decide(lane, answer, outcome, times[1], probe=probe)
            decision = self._policy.keep_schedule(lane.head, decided)
            if len(taken) < len(sent):
                verdict = verdict_of(decision, outcome, answer)
                failed.append(self._conclusions.carry_out_batch(lane, verdict))
            self._note_each(sent, taken, answer, outcomes, decision, times, len(request.items))
            if len(taken) == len(sent):
                self._conclusions.delivered(lane)
        await asyncio.gather(*failed)

    def _note_each(
        self,
        sent: Sequence[Delivery],
        taken: Sequence[Delivery],
        answer: SinkAnswer,
        outcomes: Mapping[int, AttemptOutcome],
        decision: Decision,
        times: AttemptTimes,
        count: int,
    ) -> None:
        """Record the attempts of the events of one key, each with its own outcome."""
        for n, delivery in enumerate(sent if self._attempts.notes else ()):
            given = Settle() if n < len(taken) else decision
            self._attempts.note(delivery, answer, outcomes[id(delivery)], given, times, count)

    def _decisions(
        self,
        request: BatchBuilder[Delivery],
        answer: SinkAnswer,
        outcome: AttemptOutcome,
        now: float,
        *,
        probe: bool,
    ) -> Sequence[Decision]:
        """Return one decision for each key (lane) of the request. The endpoint's state is updated once, by the
        first key."""
        first, *others = request.lanes
        decision = self._policy.decide(first, answer, outcome, now, probe=probe)
        if not outcome.unsent:
            for lane in others:
                self._policy.sent(lane)
        if isinstance(decision, Settle | PauseEndpoint):
            return [decision] * len(request.lanes)
        if isinstance(decision, Disable):
            return [decision, *(PauseEndpoint(now) for _ in others)]
        more = (self._policy.concluded(lane, answer, outcome, now) for lane in others)
        decisions = [decision, *more]
        if outcome.unsent:  # the target has seen no event of the request
            return decisions
        _halve(request.items)
        if len(request.items) > 1 and any(isinstance(each, DeadLetterIt) for each in decisions):
            return [PauseEndpoint(now)] * len(decisions)
        return decisions

    def _note(
        self,
        request: BatchBuilder[Delivery],
        answer: SinkAnswer,
        outcome: AttemptOutcome,
        decisions: Sequence[Decision],
        times: AttemptTimes,
    ) -> None:
        """Record one attempt per event of the request."""
        if not self._attempts.notes:
            return
        count = len(request.items)
        for lane, decision in zip(request.lanes, decisions, strict=True):
            for delivery in self._lanes.sent_items(lane):
                self._attempts.note(delivery, answer, outcome, decision, times, count)

    def _fitting(self, delivery: Delivery) -> Piece | None:
        if (
            not delivery.origin.owned.holds()
            or self._policy.verdict_without_attempt(delivery) is not None
        ):
            return None
        return self._piece(delivery)

    def _piece(self, delivery: Delivery) -> Piece | None:
        return self._sink.piece(delivery.outgoing(self._subscription.timeout))


def _halve(items: Sequence[Delivery]) -> None:
    """Limit the next requests of these events to half the size, so that a faulty event is alone in the end."""
    for delivery in items:
        delivery.max_batch = max(1, len(items) // 2)
