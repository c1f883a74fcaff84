"""Decide what to do with a message after an attempt. Pure, so that it is tested as a table.

=============  ==============================================  ====================================
fate           and                                             decision
=============  ==============================================  ====================================
delivered                                                      Settle
dead-letter                                                    DeadLetterIt(code of the answer)
disable                                                        Disable: the event stays unfinished
retry          Retry-After later than now                      PauseEndpoint until then, no step
retry          nothing was sent (``wait_unsent``)              RetryAt or Park, no step; or the
                                                               endpoint pauses (``endpoint``)
retry          the schedule is used up                         DeadLetterIt(``schedule-exhausted``)
retry          parked already                                  Park until then, one step used
retry          may not park                                    RetryAt, one step used
retry          ``hold`` steps are used, or half the window     Park until then, one step used
retry          otherwise                                       RetryAt, one step used
=============  ==============================================  ====================================

RetryAt holds the lane: the later events of the lane wait in memory, and the partition pauses when its window is full.
Park moves the wait and the lane to the store, and the partition goes on.

A try that an operator requested (``restored``) takes no step, and the event then waits as before.

A lane does not park if the whole schedule holds it, the endpoint is at fault, or the store is at its row bound. A
lane beyond ``hold`` then parks afterwards. The Retry-After of a 429 is honoured also if the
event becomes a dead letter, because the endpoint asked for it."""

from __future__ import annotations

import enum
from collections.abc import Sequence

import msgspec

from app.delivery.backoff import doubling, retry_after, scheduled_wait
from app.delivery.outcomes import AttemptOutcome, Fate

EXHAUSTED = "schedule-exhausted"
FIRST_UNSENT, LONGEST_UNSENT = 1.0, 60.0  # seconds between attempts that send nothing


class Settle(msgspec.Struct, frozen=True):
    """The decision to finish a delivered message."""


class Expire(msgspec.Struct, frozen=True):
    """The decision to finish a message without an attempt, because its ``expirytime`` is over (``event_age``)."""


class RetryAt(msgspec.Struct, frozen=True):
    """The decision to try again at ``at`` (monotonic seconds). ``step`` is True if a step of the schedule is used."""

    at: float
    step: bool = True


class Park(msgspec.Struct, frozen=True):
    """The decision to store the event and its followers, and to try again at ``at`` (monotonic seconds).

    ``step`` is True if a step of the schedule is used."""

    at: float
    step: bool = True


class DeadLetterIt(msgspec.Struct, frozen=True):
    """The decision to store a dead letter, which finishes the message. ``cause`` is a stable code."""

    cause: str


class PauseEndpoint(msgspec.Struct, frozen=True):
    """The decision to send nothing to this endpoint before ``until`` (monotonic seconds), using no step.

    ``sent`` is False if the sink did not try the event, which then keeps its turn."""

    until: float
    sent: bool = True


class Disable(msgspec.Struct, frozen=True):
    """The decision to stop the subscription until an operator resumes it, because the target answered 410."""

    cause: str


Decision = Settle | Expire | RetryAt | Park | DeadLetterIt | PauseEndpoint | Disable
SETTLE = Settle()


class RetryPolicy(msgspec.Struct, frozen=True):
    """The settings of ``retry`` that decide, with waits in seconds. ``hold`` is how many of them hold the lane."""

    schedule: Sequence[float]
    retry_after_max: float
    hold: int

    @property
    def parks(self) -> bool:
        """Return True if some waits of the schedule are beyond ``hold``, so that keys may park."""
        return self.hold < len(self.schedule)


class WaitPlace(enum.Enum):
    """The place where an event waits now, with the places where it may wait next."""

    LANE = "its lane, and beyond hold the store"
    CROWDED = "its lane, but half of the window is used: next is the store"
    LANE_ONLY = "its lane, and nowhere else now"
    STORE = "the store: it is parked, or was redriven"


def conclude(
    outcome: AttemptOutcome,
    *,
    steps: int,
    asked: float | None,
    now: float,
    jitter: float,
    policy: RetryPolicy,
    place: WaitPlace = WaitPlace.LANE,
) -> Decision:
    """Decide what to do with a message after an attempt.

    Args:
        outcome: the classification of the answer.
        steps: the number of earlier failures that used a step.
        asked: the seconds that Retry-After asks for; None without one.
        now: the monotonic time in seconds.
        jitter: a random number in [0, 1).
        policy: the retry settings.
        place: where the event waits now and may wait next.
    """
    match outcome.fate:
        case Fate.DELIVERED:
            return SETTLE
        case Fate.DEAD_LETTER:
            return DeadLetterIt(outcome.code)
        case Fate.DISABLE:
            return Disable(outcome.code)
        case Fate.RETRY | Fate.UNSENT:
            return _again(steps, asked, now, jitter, policy, place)


def _again(
    steps: int,
    asked: float | None,
    now: float,
    jitter: float,
    policy: RetryPolicy,
    place: WaitPlace,
) -> Decision:
    if asked:  # Retry-After of 0 s asks for nothing, so the schedule applies
        return PauseEndpoint(now + asked)
    seconds = scheduled_wait(policy.schedule, steps, jitter)
    if seconds is None:
        return DeadLetterIt(EXHAUSTED)
    return Park(now + seconds) if _parks(steps, policy, place) else RetryAt(now + seconds)


def restored(decision: Decision, due: float, place: WaitPlace) -> Decision:
    """Return the decision about a try that an operator requested before it was due at ``due`` (monotonic seconds).

    A failure takes no step of the schedule, and the event waits until ``due`` as before."""
    match decision:
        case RetryAt() | Park() | PauseEndpoint() | DeadLetterIt(cause="schedule-exhausted"):
            stored = place is WaitPlace.STORE
            return Park(due, step=False) if stored else RetryAt(due, step=False)
        case _:
            return decision


def wait_unsent(failures: int, now: float, jitter: float, place: WaitPlace) -> RetryAt | Park:
    """Return the wait of a lane whose last attempts sent nothing while other attempts were answered.

    No step is used, because the schedule counts requests that were sent.

    Args:
        failures: the number of such attempts in a row.
        now: the monotonic time in seconds.
        jitter: a random number in [0, 1).
        place: where the event waits now.
    """
    at = now + doubling(FIRST_UNSENT, LONGEST_UNSENT, failures, jitter)
    return Park(at, step=False) if place is WaitPlace.STORE else RetryAt(at, step=False)


def _parks(steps: int, policy: RetryPolicy, place: WaitPlace) -> bool:
    if place is WaitPlace.STORE:
        return True
    if place is WaitPlace.LANE_ONLY or not policy.parks:
        return False
    return place is WaitPlace.CROWDED or steps >= policy.hold


def retry_after_wait(header: str | None, wall: float, policy: RetryPolicy) -> float | None:
    """Return the seconds that a Retry-After header asks for, at most ``retry_after_max``, or None.

    Args:
        header: the value of the header.
        wall: the wall clock in seconds, for the date form of the header.
        policy: the retry settings.
    """
    until = None if header is None else retry_after(header, wall)
    return None if until is None else min(until - wall, policy.retry_after_max)
