"""The conclusion of an attempt: what to do with its message now. Tested as a table, no sleeping.

=============  ==============================================  ====================================
fate           and                                             decision
=============  ==============================================  ====================================
delivered                                                      Settle
dead-letter                                                    DeadLetter(code of the answer)
disable                                                        Disable: the event stays unfinished
retry          Retry-After later than now                      PauseEndpoint until then, no step
retry          the schedule has a step left                    RetryAt, one step taken
retry          the schedule is used up                         DeadLetter(``schedule-exhausted``)
=============  ==============================================  ====================================

Beyond ``hold`` steps a key will be *parked* (delivery issue); its row goes between the last two. Until
then its lane is held, its later events wait behind it, and the partition pauses at the window
bound rather than lose order or patience.
A dead letter by 429 honours its Retry-After too: the endpoint asked, not the event (W6).
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from app.delivery.backoff import retry_after, wait
from app.delivery.outcomes import Fate, Outcome

EXHAUSTED = "schedule-exhausted"


class Settle(msgspec.Struct, frozen=True):
    """Finished: delivered."""


class RetryAt(msgspec.Struct, frozen=True):
    """Try again at this moment; a step of the schedule is taken."""

    at: float


class DeadLetterIt(msgspec.Struct, frozen=True):
    """Finished once its dead letter is stored. ``cause`` is a stable code."""

    cause: str


class PauseEndpoint(msgspec.Struct, frozen=True):
    """Nobody sends to this endpoint before ``until``; the event's schedule does not move."""

    until: float


class Disable(msgspec.Struct, frozen=True):
    """The target is gone for good (W5): the subscription stops until a person enables it."""

    cause: str


Decision = Settle | RetryAt | DeadLetterIt | PauseEndpoint | Disable
SETTLE = Settle()


class Policy(msgspec.Struct, frozen=True):
    """The part of a subscription's ``retry`` that decides; all in seconds."""

    schedule: Sequence[float]
    retry_after_max: float


def conclude(
    outcome: Outcome,
    *,
    steps: int,
    asked: float | None,
    now: float,
    jitter: float,
    policy: Policy,
) -> Decision:
    """``steps``: earlier failures that took one. ``asked``: the seconds a Retry-After asks for, None
    without one. ``now``: the moment on the clock that the decision's moments are to be read on.
    """
    match outcome.fate:
        case Fate.DELIVERED:
            return SETTLE
        case Fate.DEAD_LETTER:
            return DeadLetterIt(outcome.code)
        case Fate.DISABLE:
            return Disable(outcome.code)
        case Fate.RETRY:
            return _again(steps, asked, now, jitter, policy)


def _again(steps: int, asked: float | None, now: float, jitter: float, policy: Policy) -> Decision:
    if asked:  # a wait of nothing asks for nothing: the schedule spreads the attempts
        return PauseEndpoint(now + asked)
    seconds = wait(policy.schedule, steps, jitter)
    return DeadLetterIt(EXHAUSTED) if seconds is None else RetryAt(now + seconds)


def asked_wait(header: str | None, wall: float, policy: Policy) -> float | None:
    """The seconds that a Retry-After header asks for, at most ``retry_after_max``; ``wall`` is the
    wall clock, which its second form is written against."""
    until = None if header is None else retry_after(header, wall)
    return None if until is None else min(until - wall, policy.retry_after_max)
