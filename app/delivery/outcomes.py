"""Classify the answer of a sink. Only this module decides what the status of a delivery attempt means.

The answer of a topic is expressed as an HTTP status (``sinks.topic``). The status 403 of a topic means a
missing right, which affects all events. So it is retried until an operator grants the right.

==================================  ===========  ==============  =====================================
answer                              fate         endpoint fault  reason
==================================  ===========  ==============  =====================================
2xx                                 delivered    no              webhook specification 2.2, 202 too
listed in ``retry.statuses``        retry        403 404 408 429 default list: 404 408 409 425 429
410                                 disable      no              webhook specification 2.2: the event
                                                                 stays unfinished
3xx                                 dead-letter  no              redirects are never followed.
415 and every other 4xx             dead-letter  no              webhook specification 2.2.
5xx, and what HTTP does not define  retry        yes             a fault of the server.
time-out of the answer, reset       retry        yes             the server may have the event.
name, address guard, connect, TLS,  retry, not   yes             no byte was sent: no step is used.
proxy, token, consent, paced        sent                         and the target is left alone.
its reply could not be published    retry        no              delivered means the reply is stored.
request that cannot be sent         dead-letter  no              a retry would fail again.
event that cannot be written        dead-letter  no              not in that format, version or broker
==================================  ===========  ==============  =====================================

*Endpoint fault* means that the answer counts against the endpoint as a whole (``endpoint``). The statuses 409
and 425 concern one event only. *Not sent* means that the attempt ended before the first byte of its request
(``UNSENT``, or ``SinkAnswer.unsent`` for a time-out). If ``retry.statuses`` lists a status that has a row of
its own, such as 410 or 415, the event is retried."""

from __future__ import annotations

import enum
from functools import lru_cache

import msgspec


class Fate(enum.Enum):
    """The meaning of an answer for its message, before the retry schedule is applied."""

    DELIVERED = "delivered"
    RETRY = "retry"
    DEAD_LETTER = "dead-letter"
    DISABLE = "disable"
    UNSENT = "unsent"  # the attempt sent nothing; the message is retried and no step is used


class AttemptOutcome(msgspec.Struct, frozen=True):
    """The classification of an answer.

    ``code`` is the stable cause of a dead letter (``status-415``, ``timeout``). ``label`` is a less detailed
    cause for counters (``4xx``). ``reached`` is False if nothing was sent."""

    fate: Fate
    code: str
    label: str
    endpoint_fault: bool = False
    reached: bool = True

    @property
    def unsent(self) -> bool:
        """Return True if no byte of the request was sent, so the same request can be sent later."""
        return not self.reached and self.fate is Fate.RETRY


class _Row(msgspec.Struct, frozen=True):
    statuses: range
    fate: Fate
    endpoint_fault: bool = False


_STATUSES = (
    _Row(range(200, 300), Fate.DELIVERED),
    _Row(range(300, 400), Fate.DEAD_LETTER),
    _Row(range(410, 411), Fate.DISABLE),
    _Row(range(400, 500), Fate.DEAD_LETTER),
    _Row(range(10_000), Fate.RETRY, endpoint_fault=True),
)
_ENDPOINT_STATUSES = frozenset({403, 404, 408, 429})
AT_TOPICS = frozenset({403})  # retried by topics in addition to the subscription's list
_SERVER_ERRORS = range(500, 600)
REPLY = "reply"
UNSENT = frozenset(
    {"dns", "blocked-address", "connect", "tls", "proxy", "token", "no-consent", "paced"}
)
"""The faults of attempts that ended before the first byte of the request was sent."""
UNSENDABLE = frozenset({"bad-request", "unwritable"})
"""The faults of events that no request can carry."""


@lru_cache(maxsize=4096)
def judge(
    status: int | None, fault: str, retried: frozenset[int], *, unsent: bool = False
) -> AttemptOutcome:
    """Return the classification of an answer by the table of this module.

    Args:
        status: the HTTP status, or None without an answer.
        fault: the fault of the attempt; it counts only without a status.
        retried: the statuses that the subscription retries.
        unsent: whether the sink knows that it sent no byte of the request.
    """
    if status is None:
        return _judge_fault(fault, unsent=unsent)
    code, label = f"status-{status}", f"{status // 100}xx"
    if status in retried:
        at_fault = status in _ENDPOINT_STATUSES or status in _SERVER_ERRORS
        return AttemptOutcome(Fate.RETRY, code, label, at_fault)
    row = next(row for row in _STATUSES if status in row.statuses)
    return AttemptOutcome(row.fate, code, label, row.endpoint_fault)


def _judge_fault(fault: str, *, unsent: bool) -> AttemptOutcome:
    if fault == REPLY:
        return AttemptOutcome(Fate.RETRY, fault, fault)
    if fault in UNSENDABLE:
        return AttemptOutcome(Fate.DEAD_LETTER, fault, fault, reached=False)
    reached = not unsent and fault not in UNSENT
    return AttemptOutcome(Fate.RETRY, fault, fault, endpoint_fault=True, reached=reached)
