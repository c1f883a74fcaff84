"""Judge the answers of a target that has rules of its own for success.

==============================================  ==============  =====================================
answer                                          result          code
==============================================  ==============  =====================================
a status of success, and ``body`` is met        delivered       status-200.
a status of success, ``dead_letter_if`` is met  dead letter     answer-refused.
a status of success, ``body`` is not met        retry           answer-not-met.
2xx that ``status`` does not list               retry           status-204.
any other                                       by the general rules of delivery.
==============================================  ==============  =====================================

None of these is a fault of the endpoint: the target answered, about one event.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from app.delivery.outcomes import AttemptOutcome, Fate
from app.event.json_pointer import steps_of
from app.event.json_text import NOT_JSON, decode_value
from app.model.outlet import AnswerTest, Success

REFUSED, NOT_MET = "answer-refused", "answer-not-met"
_DELIVERED = range(200, 300)
_NOTHING = object()


class TargetAnswer(NamedTuple):
    """An answer of a target.

    Attributes:
        status: HTTP status.
        body: as much of the body as was read.
        whole: False if the body goes on beyond what was read, or is coded.
    """

    status: int
    body: bytes = b""
    whole: bool = True

    def document(self) -> Any:
        """Return the JSON of the body. Without JSON, return a value that is equal to no other value."""
        if not self.whole:
            return _NOTHING
        try:
            return decode_value(self.body)
        except (*NOT_JSON, ValueError):
            return _NOTHING


Judge = Callable[[TargetAnswer, int], Sequence[AttemptOutcome] | None]
"""A function that returns the outcome of each event of a request, from the answer and the number of events.

A single outcome is for all events. None means that the general rules of delivery apply."""


def delivered(status: int) -> AttemptOutcome:
    """Return the outcome of an event that the target has taken."""
    return AttemptOutcome(Fate.DELIVERED, f"status-{status}", f"{status // 100}xx")


def retried(code: str, status: int) -> AttemptOutcome:
    """Return the outcome of an event that is sent again by its schedule."""
    return AttemptOutcome(Fate.RETRY, code, f"{status // 100}xx")


def refused(code: str, status: int) -> AttemptOutcome:
    """Return the outcome of an event that becomes a dead letter at once."""
    return AttemptOutcome(Fate.DEAD_LETTER, code, f"{status // 100}xx")


def compile_success(settings: Success) -> Judge | None:
    """Return the judge of answers; None if the setting is empty."""
    if settings == Success():
        return None
    statuses = frozenset(settings.status) or frozenset(_DELIVERED)
    body, dead = settings.body, settings.dead_letter_if

    def judge(answer: TargetAnswer, _events: int) -> Sequence[AttemptOutcome] | None:
        if answer.status not in statuses:
            if answer.status not in _DELIVERED:
                return None
            return (retried(f"status-{answer.status}", answer.status),)
        if body is None and dead is None:
            return (delivered(answer.status),)
        document = answer.document()
        if dead is not None and is_met(dead, document):
            return (refused(REFUSED, answer.status),)
        if body is not None and not is_met(body, document):
            return (retried(NOT_MET, answer.status),)
        return (delivered(answer.status),)

    return judge


def is_met(test: AnswerTest, document: Any) -> bool:
    """Return True if the value at the pointer of a test is one of its values, with the same JSON type."""
    found = value_at(document, test.pointer)
    return any(_equal(found, value) for value in test.values)


def value_at(document: Any, pointer: str) -> Any:
    """Return the value at a JSON Pointer. If there is none, return a value that is equal to no other value."""
    for step in steps_of(pointer):
        if isinstance(document, dict) and step in document:
            document = document[step]
        elif isinstance(document, list) and step.isdecimal() and int(step) < len(document):
            document = document[int(step)]
        else:
            return _NOTHING
    return document


def _equal(one: Any, other: Any) -> bool:
    return isinstance(one, bool) == isinstance(other, bool) and bool(one == other)
