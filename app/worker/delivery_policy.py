"""Decide about a delivery and about an answer to it, by the settings of the subscription."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from math import inf

from app.delivery.endpoint import BreakerState
from app.delivery.event_age import AgeLimits
from app.delivery.lanes import Lane
from app.delivery.outcomes import AT_TOPICS, AttemptOutcome, Fate, judge
from app.delivery.plan import (
    SETTLE,
    DeadLetterIt,
    Decision,
    Expire,
    Park,
    PauseEndpoint,
    RetryAt,
    RetryPolicy,
    WaitPlace,
    conclude,
    restored,
    retry_after_wait,
    wait_unsent,
)
from app.interfaces import SinkAnswer
from app.sinks.http_answer import SHORT
from app.worker.attempts import answer_text
from app.worker.delivery import SETTLED, Delivery, Verdict
from app.worker.gate import EndpointState
from app.worker.parking import KeyParking
from app.worker.shared import DispatcherContext, DispatcherPart

TOO_MANY = 429
LATELY = 10.0  # seconds after an answer during which the target counts as reachable


@dataclass(eq=False, repr=False)
class DeliveryPolicy(DispatcherPart):
    """Decides about the deliveries of one subscription by its settings and the state of its endpoint.

    ``parks`` is True if a waiting key may move to the store. ``delivered_at`` is the monotonic time of the last
    success, and ``answered_at`` that of the last answer of any kind."""

    _gate: EndpointState
    _parking: KeyParking

    def __post_init__(self, shared: DispatcherContext) -> None:
        super().__post_init__(shared)
        subscription, retry = shared.subscription, shared.subscription.retry
        self._policy = RetryPolicy(retry.schedule, retry.retry_after_max, retry.hold)
        self._retried = subscription.retried_statuses
        if not subscription.webhook_url:
            self._retried |= AT_TOPICS
        self._ages = AgeLimits(
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
        self._usual: tuple[SinkAnswer | None, AttemptOutcome | None] = None, None

    def verdict_without_attempt(self, delivery: Delivery) -> Verdict | None:
        """Return the verdict on a delivery that needs no further attempt, or None if it has to be sent.

        Such a delivery has a pending store write, is not an event, or is too old."""
        if delivery.store_pending:
            return delivery.last
        decoded, origin = delivery.decoded, delivery.origin
        if decoded is None and not self._copies:
            return Verdict(DeadLetterIt("foreign"), "foreign", delivery.decode_error)
        if not self._ages.matters and origin.parked_since_ms is None:
            return None
        wall = self._clock.now()
        if decoded is not None and self._ages.honour:
            expirytime = decoded.event.attributes.get("expirytime")
            if self._ages.expired(expirytime, wall):
                return Verdict(Expire())
        if not origin.age_limited:
            return None
        since_ms = origin.parked_since_ms
        parked_for = None if since_ms is None else self._store.clock.now() - since_ms / 1000
        cause = self._ages.too_old(wall - delivery.message.time_ms / 1000, parked_for)
        return Verdict(DeadLetterIt(cause), cause, delivery.last.detail) if cause else None

    def waited_past_hold(self, delivery: Delivery) -> bool:
        """Return True if the delivery has used up the waits for which events of its key may be held in memory."""
        return delivery.steps > self._policy.hold

    def judge(self, answer: SinkAnswer) -> AttemptOutcome:
        """Classify an answer: by the target's own rules if the sink knows them, else by its status."""
        usual, known = self._usual
        if answer is usual and known is not None:
            return known
        if answer.outcomes:
            return answer.outcomes[0]
        outcome = judge(answer.status, answer.fault, self._retried, unsent=answer.unsent)
        if outcome.fate is Fate.DELIVERED and len(answer.body) <= SHORT:
            self._usual = answer, outcome  # a target repeats its answer, and the sink the object
        return outcome

    @staticmethod
    def counts(answer: SinkAnswer, outcome: AttemptOutcome) -> bool:
        """Return True if the attempt counts for its event, because the sink tried to send it."""
        return not answer.hold and not outcome.unsent

    def asked(self, answer: SinkAnswer) -> float | None:
        """Return the seconds that the target (Retry-After) or the sink asks to wait, or None."""
        if answer.retry_after is not None:
            return retry_after_wait(answer.retry_after, self._clock.now(), self._policy)
        return answer.hold or None

    def delivered(self, lane: Lane[Delivery], now: float, *, probe: bool) -> None:
        """Update the state of the endpoint after the first event of a lane (the queue of one key) was delivered."""
        if self._unsent:
            self._unsent.pop(lane.key, None)
        self.answered_at = self.delivered_at = now
        self._endpoint.answered(probe=probe)

    def decide(
        self,
        lane: Lane[Delivery],
        answer: SinkAnswer,
        outcome: AttemptOutcome,
        now: float,
        *,
        probe: bool = False,
    ) -> Decision:
        """Decide about the first event of a lane (the queue of one key), and update the state of the endpoint by
        the answer."""
        if outcome.unsent and not answer.hold:
            return self._unreached(lane, answer, outcome, now, probe=probe)
        self.sent(lane)
        if answer.status is not None:
            self.answered_at = now
        return self._reached(lane, answer, outcome, now, probe=probe)

    def sent(self, lane: Lane[Delivery]) -> None:
        """Reset the count of unsent attempts of a lane (the queue of one key), because a request of the lane was
        sent."""
        if self._unsent:
            self._unsent.pop(lane.key, None)

    def _reached(
        self,
        lane: Lane[Delivery],
        answer: SinkAnswer,
        outcome: AttemptOutcome,
        now: float,
        *,
        probe: bool,
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
            self._timekeeper.wake_at(min(now + asked, endpoint.until))
            if answer.hold:
                return PauseEndpoint(now + asked, sent=False)
        elif not outcome.reached:
            self._gate.nothing_sent(now, probe=probe)
        elif not outcome.endpoint_fault:
            endpoint.answered(probe=probe)
        elif endpoint.failed(lane.key, outcome.code, now, self._jitter(), probe=probe):
            self._timekeeper.wake_at(endpoint.until)
            return PauseEndpoint(endpoint.until)
        return decision

    def _unreached(
        self,
        lane: Lane[Delivery],
        answer: SinkAnswer,
        outcome: AttemptOutcome,
        now: float,
        *,
        probe: bool,
    ) -> Decision:
        """Decide after an attempt that sent nothing: pause the endpoint, or let only the events of this key (its
        lane) wait. Only the key waits if the target answered others lately. A load balancer may still send some
        requests to a failed backend."""
        flows = self._endpoint.flow is BreakerState.FLOWING
        if flows and not probe and now - self.answered_at < LATELY:
            return self.concluded(lane, answer, outcome, now)
        self._unsent.clear()
        cause = f"the target cannot be reached: {outcome.code} {answer.detail}".rstrip()
        until = self._endpoint.unreached(cause, now, self._jitter(), probe=probe)
        self._timekeeper.wake_at(until)
        return PauseEndpoint(until)

    def keep_schedule(self, delivery: Delivery, decision: Decision) -> Decision:
        """Return the decision, in which a failed try that an operator requested restores the earlier due time. If
        the operator requested a try during this attempt, the next try is due now."""
        due, delivery.earlier_due = delivery.earlier_due, None
        requested, delivery.retry_requested = delivery.retry_requested, False
        if due is not None:
            stored = delivery.origin.parked_since_ms is not None
            decision = restored(decision, due, WaitPlace.STORE if stored else WaitPlace.LANE)
        if requested and isinstance(decision, RetryAt | Park):
            delivery.steps += decision.step
            delivery.earlier_due = decision.at
            return PauseEndpoint(self._clock.monotonic())  # back to the queue, and due at once
        return decision

    def concluded(
        self, lane: Lane[Delivery], answer: SinkAnswer, outcome: AttemptOutcome, now: float
    ) -> Decision:
        """Decide about the first event of a lane (the queue of one key) without updating the endpoint."""
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
            place=self._place(lane) if outcome.fate is Fate.RETRY else WaitPlace.LANE,
        )

    def _place(self, lane: Lane[Delivery]) -> WaitPlace:
        """Return where the first event of the lane waits now and may wait next."""
        origin = lane.head.origin
        if origin.parked_since_ms is not None:
            return WaitPlace.STORE
        if self._gate.halted or self._endpoint.flow is BreakerState.PAUSED:
            return WaitPlace.LANE_ONLY
        if not self._parking.has_room(len(lane.items)):
            return WaitPlace.LANE_ONLY
        return WaitPlace.CROWDED if origin.owned.crowded() else WaitPlace.LANE


def verdict_of(decision: Decision, outcome: AttemptOutcome, answer: SinkAnswer) -> Verdict:
    """Return the verdict for a decision, with the cause and the text of the answer."""
    if outcome.fate is Fate.DELIVERED:
        return SETTLED
    cause = decision.cause if isinstance(decision, DeadLetterIt) else outcome.code
    return Verdict(decision, cause, answer_text(answer), answer.status)
