"""What the settings of a subscription say of one event, and of an answer to it."""

from __future__ import annotations

from collections.abc import Callable

from app.delivery.event_age import Ages
from app.delivery.outcomes import AT_TOPICS, Fate, Outcome, judge
from app.delivery.plan import (
    DeadLetterIt,
    Decision,
    Expire,
    Policy,
    WaitsIn,
    asked_wait,
    conclude,
)
from app.interfaces import Clock, SinkAnswer
from app.model.subscription import Subscription
from app.worker.attempts import quote
from app.worker.intake import Held, Verdict


class Rules:
    """``parks``: whether a key that takes long may wait in the store (rule 4)."""

    def __init__(
        self, subscription: Subscription, clock: Clock, jitter: Callable[[], float]
    ) -> None:
        self._clock = clock
        self._jitter = jitter
        retry = subscription.retry
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

    def early(self, held: Held) -> Verdict | None:
        """What is to become of it without another attempt."""
        if held.due:
            return held.last
        if held.decoded is None and not self._copies:
            return Verdict(DeadLetterIt("foreign"), "foreign", held.foreign)
        wall = self._clock.now()
        if held.decoded is not None and self._ages.honour:
            expirytime = held.decoded.event.attributes.get("expirytime")
            if self._ages.expired(expirytime, wall):
                return Verdict(Expire())
        if held.replayed:
            return None
        parked_ms = None if held.row is None else held.row.at_ms
        cause = self._ages.too_old(held.message.time_ms, parked_ms, wall)
        if not cause:
            return None
        last = held.row or held.last
        return Verdict(DeadLetterIt(cause), cause, "" if last is None else last.detail)

    def overstays(self, held: Held) -> bool:
        """Whether it waits in its lane though the waits that hold a lane are used up."""
        return held.steps > self._policy.hold

    def judge(self, answer: SinkAnswer) -> Outcome:
        return judge(answer.status, answer.fault, self._retried)

    def asked(self, answer: SinkAnswer) -> float | None:
        """Seconds that the target, or the sink itself, asks to be left alone."""
        if answer.retry_after is not None:
            return asked_wait(answer.retry_after, self._clock.now(), self._policy)
        return answer.hold or None

    def conclude(
        self, held: Held, outcome: Outcome, answer: SinkAnswer, now: float, place: WaitsIn
    ) -> Decision:
        """``place``: where its wait may be."""
        return conclude(
            outcome,
            steps=held.steps,
            asked=self.asked(answer),
            now=now,
            jitter=self._jitter(),
            policy=self._policy,
            place=place,
        )


def verdict_of(decision: Decision, outcome: Outcome, answer: SinkAnswer) -> Verdict:
    if outcome.fate is Fate.DELIVERED:
        return Verdict(decision)
    cause = decision.cause if isinstance(decision, DeadLetterIt) else outcome.code
    return Verdict(decision, cause, quote(answer), answer.status)
