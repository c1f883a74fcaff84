"""Log, remember and count the attempts of a subscription: one log line and one record per attempt."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterator
from http import HTTPStatus
from itertools import islice
from typing import Any, ClassVar

import msgspec
from msgspec.structs import replace

from app.delivery.outcomes import AttemptOutcome, Fate
from app.delivery.plan import (
    DeadLetterIt,
    Decision,
    Disable,
    Park,
    PauseEndpoint,
    RetryAt,
)
from app.event.value import CloudEvent
from app.filters.cesql.values import Failure
from app.interfaces import Attempt, SinkAnswer
from app.telemetry import Counters, FilterErrors
from app.telemetry.histograms import LONG
from app.worker.delivery import Delivery

REMEMBERED = 1_000
AttemptTimes = tuple[float, float, float, float]
"""The times of an attempt in seconds: its start and end by the monotonic clock, and its end by two clocks of the day. These
are the clock of the machine and that of the store."""

_NONE: deque[Attempt] = deque(maxlen=0)  # stays empty
CLIP = 500  # bytes of an answer that a dead letter or an attempt quotes
DELIVERED, EXPIRED = "delivered", "expired"
FILTERED, FILTER_ERROR = "filtered", "filter_error"

_DELIVERED = Fate.DELIVERED.value
_STATUSES = {int(each): str(int(each)) for each in HTTPStatus}

_log = logging.getLogger("skybridge.attempts")


def answer_label(answer: SinkAnswer) -> str:
    """Return the metric label of an answer, from a closed set of values.

    The label is the status if HTTP registers it, the class of another status (``2xx``), or the fault if no answer
    came."""
    status = answer.status
    if status is None:
        return answer.fault or "none"
    return _STATUSES.get(status) or f"{status // 100}xx"


class AttemptLog:
    """Logs, remembers and counts the attempts of one subscription. It outlives the dispatcher, so that its last
    error stays visible.

    A successful attempt is logged at level DEBUG, any other at INFO. A log line never contains event data or the
    target's answer, because the answer may repeat the event. The remembered attempt, the stored attempt and the
    dead letter quote the answer.

    ``notes`` is False for a log that ignores attempts. ``failures`` is the number of failed attempts since the last
    success. ``failing_since`` is when the first of them ended, in monotonic seconds.

    Args:
        keep: receives each attempt for the store.
    """

    notes: ClassVar[bool] = True

    def __init__(
        self,
        subscription: str,
        counters: Counters,
        keep: Callable[[Attempt], None] = lambda _: None,
    ) -> None:
        self._subscription, self._series = subscription, (subscription,)
        self.counters = counters
        self._keep = keep
        self._filter_errors = FilterErrors(counters, "subscription", subscription)
        self._made, self._ended = counters.series("attempts"), counters.series("deliveries")
        self._answers = counters.series("answers")
        self._answer_keys: dict[int | None, tuple[str, str]] = {}  # metric keys by status
        self._attempted = counters.histogram("attempt_seconds")
        self._delivered = counters.histogram("delivery_seconds", LONG)
        self._recent = _NONE  # most of thousands of subscriptions have no attempt for long
        self.failures, self.failing_since = 0, 0.0

    def note(
        self,
        delivery: Delivery,
        answer: SinkAnswer,
        outcome: AttemptOutcome,
        decision: Decision,
        times: AttemptTimes,
        together: int = 1,
    ) -> None:
        """Count, remember and log one attempt of a delivery.

        Args:
            delivery: the delivery, with its number of attempts.
            answer: the answer of the sink.
            outcome: the classification of the answer.
            decision: what was decided about the delivery.
            times: when it was made.
            together: the number of events in the request.
        """
        self._made[self._subscription, outcome.label] += 1
        self._answers[self._answer_keys.get(answer.status) or self._answer_key(answer)] += 1
        started, ended, wall, stored = times
        self._attempted[self._series].add(ended - started)
        message = delivery.message
        level, result, detail, next_try = logging.DEBUG, _DELIVERED, "", None
        if outcome.fate is Fate.DELIVERED:
            self._delivered[self._series].add(max(0.0, wall - message.time_ms / 1000))
            self.failures = 0
        else:
            self._count_failure(ended)
            level, result = logging.INFO, (Fate.UNSENT if outcome.unsent else _fate(decision)).value
            detail, next_try = answer_text(answer), _next_try(decision, ended)
        attempt = Attempt(
            self._subscription,
            message.partition,
            message.position,
            delivery.name,
            delivery.attempts,
            int((stored - ended + started) * 1000),
            (ended - started) * 1000,
            result,
            answer.status,
            detail,
            next_try,
            together,
        )
        if self._recent is _NONE:
            self._recent = deque(maxlen=REMEMBERED)
        self._recent.append(attempt)
        if answer.exchange is None:
            self._keep(attempt)
        else:  # only the store gets the bodies, so that the remembered attempts stay small
            self._keep(replace(attempt, exchange=answer.exchange))
        if _log.isEnabledFor(level):
            _log.log(level, "attempt", extra=_line(attempt, answer))

    def _count_failure(self, now: float) -> None:
        self.failing_since = self.failing_since if self.failures else now
        self.failures += 1

    def failing_for(self, now: float) -> float:
        """Return the seconds since the first failure after the last success, or 0 after a success."""
        return max(0.0, now - self.failing_since) if self.failures else 0.0

    def _answer_key(self, answer: SinkAnswer) -> tuple[str, str]:
        key = self._subscription, answer_label(answer)
        if answer.status is not None:
            self._answer_keys[answer.status] = key
        return key

    def count_finished(self, outcome: str, count: int = 1) -> None:
        """Count finished messages by outcome: ``delivered``, ``expired``, ``filtered``, ``filter_error`` or
        ``skipped``."""
        self._ended[self._subscription, outcome] += count

    def count_filtered(self, filtered: int, failed: int) -> None:
        """Count messages that the log filtered out.

        Args:
            filtered: the number that did not match.
            failed: the number that did not match because a filter expression failed.
        """
        for outcome, count in ((FILTERED, filtered), (FILTER_ERROR, failed)):
            if count:
                self.count_finished(outcome, count)

    def count_filter_error(self, event: CloudEvent, expression: str, failure: Failure) -> None:
        """Count and log the failure of a filter expression on an event."""
        self._filter_errors.note(event.attributes, expression, failure.reason)

    def count_rebalance(self) -> None:
        """Count an assignment of partitions to this group member."""
        self.counters.add("rebalances", self._subscription)

    def count_parked(self) -> None:
        """Count a message that was moved from the log to the store."""
        self.counters.add("parked", self._subscription)

    def recent(self, limit: int) -> Iterator[Attempt]:
        """Return the newest attempts first, as of the time of the call."""
        return islice(reversed(list(self._recent)), limit)


class OfferLog(AttemptLog):
    """The attempt log of a pull subscription. It does not count deliveries, because adding a row to the queue
    delivers nothing.

    The acknowledgement of a pulled event counts the delivery."""

    notes = False

    def note(self, *args: object, **kwargs: object) -> None:
        """Ignore the attempt, because no consumer was reached."""

    def count_finished(self, outcome: str, count: int = 1) -> None:
        if outcome != DELIVERED:
            super().count_finished(outcome, count)


def _fate(decision: Decision) -> Fate:
    """Return the fate that was decided. A retryable answer may still end in a dead letter."""
    match decision:
        case DeadLetterIt():
            return Fate.DEAD_LETTER
        case Disable():
            return Fate.DISABLE
        case _:
            return Fate.RETRY


def _next_try(decision: Decision, now: float) -> float | None:
    match decision:
        case RetryAt(moment) | Park(moment) | PauseEndpoint(moment):
            return max(0.0, moment - now)
        case _:
            return None


def _line(attempt: Attempt, answer: SinkAnswer) -> dict[str, Any]:
    """Return the fields of a log entry, without event data and without the target's answer."""
    line: dict[str, Any] = msgspec.to_builtins(
        replace(attempt, detail=f"{answer.fault} {answer.detail}".strip())
    )
    del line["exchange"]
    event: dict[str, str] = line.pop("event")
    return line | {f"event_{name}": text for name, text in event.items()}


def answer_text(answer: SinkAnswer) -> str:
    """Return the fault, the detail and the clipped body of an answer as readable text."""
    parts = (answer.fault, answer.detail, answer.body[:CLIP].decode("utf-8", "replace"))
    return " ".join(part for part in parts if part)
