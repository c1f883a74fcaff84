"""What the settings of a subscription say of one event, and of an answer to it."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from math import inf

from app.delivery.endpoint import BreakerState
from app.delivery.event_age import Ages
from app.delivery.lanes import Lane
from app.delivery.outcomes import AT_TOPICS, Fate, Outcome, judge
from app.delivery.plan import (
    SETTLE,
    DeadLetterIt,
    Decision,
    Expire,
    PauseEndpoint,
    Policy,
    WaitsIn,
    asked_wait,
    conclude,
    wait_unsent,
)
from app.interfaces import SinkAnswer
from app.worker.attempts import quote
from app.worker.delivery import SETTLED, Delivery, Verdict
from app.worker.gate import Gate
from app.worker.parking import Parking
from app.worker.shared import DispatcherPart, Shared

TOO_MANY = 429
LATELY = 10.0  # seconds after an answer in which the target counts as one that can be reached


@dataclass(eq=False, repr=False)
class DeliveryPolicy(DispatcherPart):
    """``parks``: whether a key that takes long may wait in the store (rule 4). ``delivered_at``: when something was
    delivered, last. ``answered_at``: when the target answered anything, last."""

    _gate: Gate
    _parking: Parking

    def __post_init__(self, shared: Shared) -> None:
        super().__post_init__(shared)
        subscription, retry = shared.subscription, shared.subscription.retry
        self._policy = Policy(retry.schedule, retry.retry_after_max, retry.hold)
        self._retried = frozenset(retry.statuses)
        if not isinstance(subscription.sink, str):
            self._retried |= AT_TOPICS
        self._ages = Ages(
            subscription.parked.retention,
            subscription.max_age,
            subscription.expirytime == "honour",
        )
        self._copies = subscription.on_foreign == "forward"
        self.parks = self._policy.parks
        self.delivered_at = self.answered_at = -inf
        self._unsent: dict[
            Hashable, int
        ] = {}  # attempts in a row that sent nothing, by lane that waits
        self._endpoint = self._gate.endpoint

    def early(self, delivery: Delivery) -> Verdict | None:
        """What is to become of it without another attempt."""
        if delivery.due:
            return delivery.last
        decoded, origin = delivery.decoded, delivery.origin
        if decoded is None and not self._copies:
            return Verdict(DeadLetterIt("foreign"), "foreign", delivery.foreign)
        if not self._ages.matters and origin.since_ms is None:
            return None
        wall = self._clock.now()
        if decoded is not None and self._ages.honour:
            expirytime = decoded.event.attributes.get("expirytime")
            if self._ages.expired(expirytime, wall):
                return Verdict(Expire())
        if not origin.ages:
            return None
        cause = self._ages.too_old(delivery.message.time_ms, origin.since_ms, wall)
        return Verdict(DeadLetterIt(cause), cause, delivery.last.detail) if cause else None

    def overstays(self, delivery: Delivery) -> bool:
        """Whether it waits in its lane though the waits that hold a lane are used up."""
        return delivery.steps > self._policy.hold

    def judge(self, answer: SinkAnswer) -> Outcome:
        return judge(answer.status, answer.fault, self._retried, unsent=answer.unsent)

    @staticmethod
    def counts(answer: SinkAnswer, outcome: Outcome) -> bool:
        """Return True if the attempt counts for its event: the sink tried to send it."""
        return not answer.hold and not outcome.unsent

    def asked(self, answer: SinkAnswer) -> float | None:
        """Seconds that the target, or the sink itself, asks to be left alone."""
        if answer.retry_after is not None:
            return asked_wait(answer.retry_after, self._clock.now(), self._policy)
        return answer.hold or None

    def decide(
        self,
        lane: Lane[Delivery],
        answer: SinkAnswer,
        outcome: Outcome,
        now: float,
        *,
        probe: bool = False,
    ) -> Decision:
        """The conclusion of this event, and what the answer says about the endpoint (rule 6)."""
        if outcome.unsent and not answer.hold:
            return self._unreached(lane, answer, outcome, now, probe=probe)
        self.sent(lane)
        if answer.status is not None:
            self.answered_at = now
        return self._reached(lane, answer, outcome, now, probe=probe)

    def sent(self, lane: Lane[Delivery]) -> None:
        """Let the waits of this lane begin at the first again: its request was sent."""
        if self._unsent:
            self._unsent.pop(lane.key, None)

    def _reached(
        self, lane: Lane[Delivery], answer: SinkAnswer, outcome: Outcome, now: float, *, probe: bool
    ) -> Decision:
        endpoint = self._endpoint
        if outcome.fate is Fate.DELIVERED:
            self.delivered_at = now
            endpoint.answered(probe=probe)
            return SETTLE
        asked = self.asked(answer)
        decision = self.concluded(lane, answer, outcome, now)
        if asked and (isinstance(decision, PauseEndpoint) or answer.status == TOO_MANY):
            cause = answer.detail if answer.hold else f"{outcome.code} with Retry-After"
            endpoint.asked_to_wait(now + asked, cause, by_sink=answer.hold > 0)
            self._timekeeper.at(now + asked)
            if answer.hold:
                return PauseEndpoint(now + asked, sent=False)
        elif not outcome.reached:
            self._gate.nothing_sent(now, probe=probe)
        elif not outcome.endpoint_fault:
            endpoint.answered(probe=probe)
        elif endpoint.failed(lane.key, outcome.code, now, self._jitter(), probe=probe):
            self._timekeeper.at(endpoint.until)
            return PauseEndpoint(endpoint.until)
        return decision

    def _unreached(
        self, lane: Lane[Delivery], answer: SinkAnswer, outcome: Outcome, now: float, *, probe: bool
    ) -> Decision:
        """Pause the endpoint, or let only this lane wait: while others are answered the target can be reached,
        and a balancer in front of it still sends some attempts to a backend that is gone."""
        flows = self._endpoint.flow is BreakerState.FLOWING
        if flows and not probe and now - self.answered_at < LATELY:
            return self.concluded(lane, answer, outcome, now)
        self._unsent.clear()
        cause = f"the target cannot be reached: {outcome.code} {answer.detail}".rstrip()
        until = self._endpoint.unreached(cause, now, self._jitter(), probe=probe)
        self._timekeeper.at(until)
        return PauseEndpoint(until)

    def concluded(
        self, lane: Lane[Delivery], answer: SinkAnswer, outcome: Outcome, now: float
    ) -> Decision:
        """Of the head of this lane, whatever it says about the endpoint."""
        if outcome.unsent and not answer.hold:
            failures = self._unsent[lane.key] = self._unsent.get(lane.key, 0) + 1
            return wait_unsent(failures, now, self._jitter(), self._place(lane))
        return conclude(
            outcome,
            steps=lane.head.steps,
            asked=self.asked(answer),
            now=now,
            jitter=self._jitter(),
            policy=self._policy,
            place=self._place(lane) if outcome.fate is Fate.RETRY else WaitsIn.LANE,
        )

    def _place(self, lane: Lane[Delivery]) -> WaitsIn:
        """Rules 4 to 6: where its wait may be."""
        origin = lane.head.origin
        if origin.since_ms is not None:
            return WaitsIn.STORE
        if self._gate.halted or self._endpoint.flow is BreakerState.PAUSED:
            return WaitsIn.LANE_ONLY
        if not self._parking.room(len(lane.items)):
            return WaitsIn.LANE_ONLY
        return WaitsIn.CROWDED if origin.owned.crowded() else WaitsIn.LANE


def verdict_of(decision: Decision, outcome: Outcome, answer: SinkAnswer) -> Verdict:
    if outcome.fate is Fate.DELIVERED:
        return SETTLED
    cause = decision.cause if isinstance(decision, DeadLetterIt) else outcome.code
    return Verdict(decision, cause, quote(answer), answer.status)
