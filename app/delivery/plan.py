"""The conclusion of an attempt: what to do with its message now. Tested as a table, no sleeping.

=============  ==============================================  ====================================
fate           and                                             decision
=============  ==============================================  ====================================
delivered                                                      Settle
dead-letter                                                    DeadLetter(code of the answer)
disable                                                        Disable: the event stays unfinished
retry          Retry-After later than now                      PauseEndpoint until then, no step
retry          nothing was sent (``wait_unsent``)              RetryAt or Park, no step; or the endpoint
                                                               pauses (``endpoint``)
retry          the schedule is used up                         DeadLetter(``schedule-exhausted``)
retry          it is parked already                            Park until then, one step taken
retry          it may not park                                 RetryAt, one step taken
retry          ``hold`` steps are used, or the window is half  Park until then, one step taken
               used
retry          otherwise                                       RetryAt, one step taken
=============  ==============================================  ====================================

RetryAt holds the lane: the events behind it wait in memory, and the partition pauses at the window
bound. Park moves the wait, and the lane with it, to the store, and the partition goes on without them
(rule 4). A subscription whose whole schedule holds never parks; nor does any while its endpoint is at
fault (rule 6), or its parked rows are at their bound (rule 5): a lane that is beyond ``hold`` then parks
afterwards.
A dead letter by 429 honours its Retry-After too: the endpoint asked, not the event (W6).
"""

from __future__ import annotations

import enum
from collections.abc import Sequence

import msgspec

from app.delivery.backoff import doubling, retry_after, scheduled_wait
from app.delivery.outcomes import AttemptOutcome, Fate

EXHAUSTED = "schedule-exhausted"
FIRST_UNSENT, LONGEST_UNSENT = 1.0, 60.0  # seconds between attempts that send nothing


class Settle(msgspec.Struct, frozen=True):
    """Finished: delivered."""


class Expire(msgspec.Struct, frozen=True):
    """Finished without an attempt: its own ``expirytime`` is over (``event_age``)."""


class RetryAt(msgspec.Struct, frozen=True):
    """Try again at this moment. ``step``: a step of the schedule is taken."""

    at: float
    step: bool = True


class Park(msgspec.Struct, frozen=True):
    """Its place until this moment is the store, and that of its followers too. ``step`` as of RetryAt."""

    at: float
    step: bool = True


class DeadLetterIt(msgspec.Struct, frozen=True):
    """Finished once its dead letter is stored. ``cause`` is a stable code."""

    cause: str


class PauseEndpoint(msgspec.Struct, frozen=True):
    """Nothing is sent to this endpoint before ``until``; the event's schedule does not move. ``sent``: False
    where the sink did not try the event, so that it keeps its turn."""

    until: float
    sent: bool = True


class Disable(msgspec.Struct, frozen=True):
    """The target is gone for good (W5): the subscription stops until a person enables it."""

    cause: str


Decision = Settle | Expire | RetryAt | Park | DeadLetterIt | PauseEndpoint | Disable
SETTLE = Settle()


class RetryPolicy(msgspec.Struct, frozen=True):
    """The part of a subscription's ``retry`` that decides; waits in seconds. ``hold``: how many of them
    hold the lane."""

    schedule: Sequence[float]
    retry_after_max: float
    hold: int

    @property
    def parks(self) -> bool:
        return self.hold < len(self.schedule)


class WaitPlace(enum.Enum):
    """Where the event waits now, and may wait next."""

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
    if asked:  # a wait of nothing asks for nothing: the schedule spreads the attempts
        return PauseEndpoint(now + asked)
    seconds = scheduled_wait(policy.schedule, steps, jitter)
    if seconds is None:
        return DeadLetterIt(EXHAUSTED)
    return Park(now + seconds) if _parks(steps, policy, place) else RetryAt(now + seconds)


def wait_unsent(failures: int, now: float, jitter: float, place: WaitPlace) -> RetryAt | Park:
    """Return the wait of a lane whose last ``failures`` attempts sent nothing while other attempts were
    answered. No step is taken: the schedule counts what the target was asked."""
    at = now + doubling(FIRST_UNSENT, LONGEST_UNSENT, failures, jitter)
    return Park(at, step=False) if place is WaitPlace.STORE else RetryAt(at, step=False)


def _parks(steps: int, policy: RetryPolicy, place: WaitPlace) -> bool:
    if place is WaitPlace.STORE:
        return True
    if place is WaitPlace.LANE_ONLY or not policy.parks:
        return False
    return place is WaitPlace.CROWDED or steps >= policy.hold


def retry_after_wait(header: str | None, wall: float, policy: RetryPolicy) -> float | None:
    """The seconds that a Retry-After header asks for, at most ``retry_after_max``; ``wall`` is the
    wall clock, which its second form is written against."""
    until = None if header is None else retry_after(header, wall)
    return None if until is None else min(until - wall, policy.retry_after_max)
