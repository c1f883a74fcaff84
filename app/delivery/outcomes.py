"""What an answer of a sink means. Everything that reads a status code on the way out is here. A topic
answers as HTTP would (``sinks.topic``); its 403 is a right that is missing for every event, so it is
listed for topics, which are retried until somebody has mended it.

==================================  ===========  ==============  =====================================
answer                              fate         endpoint fault  clause
==================================  ===========  ==============  =====================================
2xx                                 delivered    no              W4, 202 included
listed in ``retry.statuses``        retry        403 404 408 429 rule 7; default 404 408 409 425 429
410                                 disable      no              W5, rule 7: its event stays unfinished
3xx                                 dead-letter  no              W3, rule 7: never followed, and the
                                                                 same request meets the same redirect
415 and every other 4xx             dead-letter  no              W7, rule 7
5xx, and what HTTP does not define  retry        yes             rule 7
time-out of the answer, reset       retry        yes             rule 7
name, address guard, connect, TLS,  retry, not   yes             rule 6: nothing was sent, so no step is
proxy, token, consent, paced        sent                         used and the target is left alone
its reply could not be published    retry        no              rule 2: delivered is when it is stored
request that cannot be sent         dead-letter  no              reliability 4.6: never a retry storm
event that cannot be written        dead-letter  no              4.7: in that format, version or broker
==================================  ===========  ==============  =====================================

*Endpoint fault* says that the answer counts against the endpoint as a whole (``endpoint``, rule 6);
409 and 425 speak of one event. *Not sent*: the attempt
ended before the first byte of its request (``UNSENT``, or ``SinkAnswer.unsent`` for a time-out). A listed status wins over its own row, 410 and 415 included.
"""

from __future__ import annotations

import enum
from functools import lru_cache

import msgspec


class Fate(enum.Enum):
    """What becomes of the message by the answer alone, before the schedule has its say."""

    DELIVERED = "delivered"
    RETRY = "retry"
    DEAD_LETTER = "dead-letter"
    DISABLE = "disable"
    UNSENT = (
        "unsent"  # of an attempt that sent nothing; the message is retried, and no step is used
    )


class AttemptOutcome(msgspec.Struct, frozen=True):
    """``code`` is stable: the cause of a dead letter (``status-415``, ``timeout``). ``label`` is the
    same with few values (``4xx``), for counters. ``reached``: False when nothing was sent at all."""

    fate: Fate
    code: str
    label: str
    endpoint_fault: bool = False
    reached: bool = True

    @property
    def unsent(self) -> bool:
        """Whether the same request can be sent later, because no byte of it was sent now."""
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
AT_TOPICS = frozenset({403})  # beside the subscription's own list
_SERVER_ERRORS = range(500, 600)
REPLY = "reply"
UNSENT = frozenset(
    {"dns", "blocked-address", "connect", "tls", "proxy", "token", "no-consent", "paced"}
)
"""Faults of attempts that ended before the first byte of the request."""
_UNSENDABLE = frozenset({"bad-request", "unwritable"})


@lru_cache(maxsize=4096)
def judge(
    status: int | None, fault: str, retried: frozenset[int], *, unsent: bool = False
) -> AttemptOutcome:
    """Return the row of the table above. ``fault`` counts only where there is no status; ``retried`` is
    the subscription's own list. ``unsent``: the sink knows that it sent no byte of the request."""
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
    if fault in _UNSENDABLE:
        return AttemptOutcome(Fate.DEAD_LETTER, fault, fault, reached=False)
    reached = not unsent and fault not in UNSENT
    return AttemptOutcome(Fate.RETRY, fault, fault, endpoint_fault=True, reached=reached)
