"""Requests of several events (``batch``): when the next one leaves, who is in it, what its answer means.

=================================  ================================================================
one answer                         and
=================================  ================================================================
delivered                          all are finished, those of a lane in their order
the endpoint is at fault, asks to  all are given back: none takes a step
wait, is gone, or cannot be reached
would bury the head of any lane    all are given back, to be tried at once in halves, until the one at
                                   fault is alone and buried
to be tried again                  the head of each lane takes a step and waits as always, those behind
                                   it follow it; next time in halves
was not sent, while others are     the head of each lane waits and takes no step
answered
=================================  ================================================================
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from msgspec.structs import replace

from app.delivery.lanes import Lane, Lanes
from app.delivery.outcomes import Fate, Outcome
from app.delivery.plan import DeadLetterIt, Decision, Disable, PauseEndpoint, Settle
from app.delivery.request_batching import BatchLimits, Gathering, Piece, leaves_at
from app.interfaces import JoiningSink, SinkAnswer
from app.worker.conclusions import Conclusions
from app.worker.delivery import Delivery
from app.worker.delivery_policy import DeliveryPolicy, verdict_of
from app.worker.shared import DispatcherPart
from app.worker.timing import Pace


@dataclass(eq=False, repr=False)
class Batching(DispatcherPart):
    _sink: JoiningSink
    _lanes: Lanes[Delivery]
    _pace: Pace
    _conclusions: Conclusions
    _policy: DeliveryPolicy
    _bounds: BatchLimits

    def leaves_at(self, now: float) -> float | None:
        """When the next request is to leave, perhaps past; None while nothing is ready."""
        self._lanes.stamp(now)
        return leaves_at(self._lanes, self._bounds)

    def gather(self, lane: Lane[Delivery], now: float) -> Gathering[Delivery] | None:
        """A request that begins with the head of a lane in flight; None: it goes alone."""
        first = self._piece(lane.head)
        if first is None:
            return None
        most = min(self._pace.room(now), self._bounds.events, self._sink.room())
        request = Gathering(self._lanes, replace(self._bounds, events=most), self._fitting)
        request.begin(lane, first)
        return request

    async def attempt(
        self, request: Gathering[Delivery], started: float, *, probe: bool = False
    ) -> None:
        for delivery in request.items:
            delivery.attempts += 1
            self._pace.begun(started)
        answer = await self._sink.send_together(request.pieces, self._subscription.timeout)
        now = self._clock.monotonic()
        outcome = self._policy.judge(answer)
        decisions = self._decisions(request, answer, outcome, now, probe=probe)
        self._note(request, answer, outcome, decisions, (started, now, self._clock.now()))
        if outcome.fate is Fate.DELIVERED:
            for lane in request.lanes:
                self._conclusions.delivered(lane)
            return
        for delivery in request.items:
            delivery.attempts -= not self._policy.counts(answer, outcome)
        decided = list(zip(request.lanes, decisions, strict=True))
        if answer.hold:  # each is put before the others again
            decided.reverse()
        await asyncio.gather(
            *(
                self._conclusions.carry_out_together(lane, verdict_of(decision, outcome, answer))
                for lane, decision in decided
            )
        )

    def _decisions(
        self,
        request: Gathering[Delivery],
        answer: SinkAnswer,
        outcome: Outcome,
        now: float,
        *,
        probe: bool,
    ) -> Sequence[Decision]:
        """One for each lane. The endpoint is told once, by the first."""
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
        if outcome.unsent:  # the target saw none of them
            return decisions
        _halve(request.items)
        if len(request.items) > 1 and any(isinstance(each, DeadLetterIt) for each in decisions):
            return [PauseEndpoint(now)] * len(decisions)
        return decisions

    def _note(
        self,
        request: Gathering[Delivery],
        answer: SinkAnswer,
        outcome: Outcome,
        decisions: Sequence[Decision],
        times: tuple[float, float, float],
    ) -> None:
        """One line an event."""
        if not self._attempts.notes:
            return
        count = len(request.items)
        for lane, decision in zip(request.lanes, decisions, strict=True):
            for delivery in self._lanes.on_the_wire(lane):
                self._attempts.note(delivery, answer, outcome, decision, times, count)

    def _fitting(self, delivery: Delivery) -> Piece | None:
        if not delivery.origin.owned.holds() or self._policy.early(delivery) is not None:
            return None
        return self._piece(delivery)

    def _piece(self, delivery: Delivery) -> Piece | None:
        return self._sink.piece(delivery.outgoing(self._subscription.timeout))


def _halve(items: Sequence[Delivery]) -> None:
    """They come again in requests of half as many at most: so one at fault is alone in the end, and the
    others are not held up by it for long."""
    for delivery in items:
        delivery.most = max(1, len(items) // 2)
