"""What was tried: one wide line an attempt, a bounded memory of them, and the counters."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterator
from http import HTTPStatus
from itertools import islice
from typing import Any, ClassVar

import msgspec
from msgspec.structs import replace

from app.delivery.outcomes import Fate, Outcome
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
CLIP = 500  # bytes of an answer that a dead letter or an attempt quotes
DELIVERED, EXPIRED = "delivered", "expired"
FILTERED, FILTER_ERROR = "filtered", "filter_error"

_DELIVERED = Fate.DELIVERED.value
_STATUSES = {int(each): str(int(each)) for each in HTTPStatus}

_log = logging.getLogger("skybridge.attempts")


def answer_label(answer: SinkAnswer) -> str:
    """Of a closed set, for metrics: a status that HTTP registers, the class of any other (``2xx``), or the
    fault where no answer came."""
    status = answer.status
    if status is None:
        return answer.fault or "none"
    return _STATUSES.get(status) or f"{status // 100}xx"


class AttemptLog:
    """Of one subscription; outlives the dispatcher, so that a restart does not hide its reason.

    A delivered attempt is a line of level DEBUG, any other of INFO: an operator asks why something
    did not arrive, and the counters say how much did. Event data is never in it, nor what the
    target said, which may be the event again; that is in the remembered attempt, the one that is kept,
    and the dead letter. ``keep``: is given each attempt, for the store. ``notes``: whether an attempt is noted at
    all.
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
        self._answer_keys: dict[int | None, tuple[str, str]] = {}  # of statuses that were given
        self._attempted = counters.histogram("attempt_seconds")
        self._delivered = counters.histogram("delivery_seconds", LONG)
        self._recent: deque[Attempt] = deque(maxlen=REMEMBERED)

    def note(
        self,
        delivery: Delivery,
        answer: SinkAnswer,
        outcome: Outcome,
        decision: Decision,
        times: tuple[float, float, float],
        together: int = 1,
    ) -> None:
        """``times``: monotonic at the start and at the end, and the wall clock at the end.
        ``together``: how many events the request had."""
        self._made[self._subscription, outcome.label] += 1
        self._answers[self._answer_keys.get(answer.status) or self._answer_key(answer)] += 1
        started, ended, wall = times
        self._attempted[self._series].add(ended - started)
        message = delivery.message
        level, result, detail, next_try = logging.DEBUG, _DELIVERED, "", None
        if outcome.fate is Fate.DELIVERED:
            self._delivered[self._series].add(max(0.0, wall - message.time_ms / 1000))
        else:
            level, result = logging.INFO, (Fate.UNSENT if outcome.unsent else _fate(decision)).value
            detail, next_try = quote(answer), _next_try(decision, ended)
        attempt = Attempt(
            self._subscription,
            message.partition,
            message.position,
            delivery.name,
            delivery.attempts,
            int((wall - ended + started) * 1000),
            (ended - started) * 1000,
            result,
            answer.status,
            detail,
            next_try,
            together,
        )
        self._recent.append(attempt)
        if answer.exchange is None:
            self._keep(attempt)
        else:  # for the store alone, whose writer clips it: the memory of attempts would hold bodies
            self._keep(replace(attempt, exchange=answer.exchange))
        if _log.isEnabledFor(level):
            _log.log(level, "attempt", extra=_line(attempt, answer))

    def _answer_key(self, answer: SinkAnswer) -> tuple[str, str]:
        key = self._subscription, answer_label(answer)
        if answer.status is not None:
            self._answer_keys[answer.status] = key
        return key

    def finished(self, outcome: str, count: int = 1) -> None:
        """Messages are finished: ``delivered``, ``expired``, ``filtered``, ``filter_error``, ``skipped``."""
        self._ended[self._subscription, outcome] += count

    def passed_over(self, filtered: int, failed: int) -> None:
        """Count messages that the log did not hand out: those that did not match, and those that did not match because
        an expression failed."""
        for outcome, count in ((FILTERED, filtered), (FILTER_ERROR, failed)):
            if count:
                self.finished(outcome, count)

    def filter_failed(self, event: CloudEvent, expression: str, failure: Failure) -> None:
        """A filter expression failed on an event, whatever becomes of the event."""
        self._filter_errors.note(event.attributes, expression, failure.reason)

    def assigned(self) -> None:
        """The log gave partitions to this member, or all of them again."""
        self.counters.add("rebalances", self._subscription)

    def parked(self) -> None:
        """One message went from the log to the store, to be delivered from there."""
        self.counters.add("parked", self._subscription)

    def recent(self, limit: int) -> Iterator[Attempt]:
        """Return the newest first. Later attempts are not among them."""
        return islice(reversed(list(self._recent)), limit)


class OfferLog(AttemptLog):
    """Of a subscription that is pulled: what is a row of its queue was delivered to nobody yet. That is
    counted where it is acknowledged."""

    notes = False

    def note(self, *args: object, **kwargs: object) -> None:
        """No attempt to reach anybody."""

    def finished(self, outcome: str, count: int = 1) -> None:
        if outcome != DELIVERED:
            super().finished(outcome, count)


def _fate(decision: Decision) -> Fate:
    """What was decided of a failure: an answer that may be tried again need not be."""
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
    """Return the fields of a log entry. Event data and what the target said stay out of it."""
    line: dict[str, Any] = msgspec.to_builtins(
        replace(attempt, detail=f"{answer.fault} {answer.detail}".strip())
    )
    del line["exchange"]
    event: dict[str, str] = line.pop("event")
    return line | {f"event_{name}": text for name, text in event.items()}


def quote(answer: SinkAnswer) -> str:
    """What the target said, for a person: clipped, and readable whatever bytes it was."""
    parts = (answer.fault, answer.detail, answer.body[:CLIP].decode("utf-8", "replace"))
    return " ".join(part for part in parts if part)
