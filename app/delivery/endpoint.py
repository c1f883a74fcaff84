"""Whether the target of a subscription may be sent to at all (rule 6 of delivery).

::

              most attempts fail, Retry-After, unreachable   the time is over
    FLOWING ───────────────────────────────────► PAUSED ──────────────────────► PROBING
       ▲                                           ▲                               │ one attempt
       │                 answered                  │    failed: a longer pause     │
       └───────────────────────────────────────────┴──────────────────────────────┘

While it does not flow nothing is consumed and nothing is copied: the log is the buffer. Attempts
that end in a pause take no step of any event's schedule, so that an outage of the endpoint does not
turn into dead letters. *Most attempts* needs several keys: one event that always fails is that
event's trouble, goes through its own schedule, and never stops the others.

A target that cannot be reached pauses at once: no byte of a request was sent, so no event can be at fault.
While other attempts are answered it can be reached, and only part of what is behind it is gone: then the
caller lets the one lane wait, and nothing is noted here.

Some events may fail wherever the target stands, and be all that is held: then only an event that was
never tried can tell. Once a few probes have failed in a row it is ``doubtful``, and where none such is
held, some are taken.

A Retry-After is honoured to the second; a pause the breaker chose starts at 1 s and doubles up to
60 s while probes fail.

After a pause that an answered probe ended it starts slowly: one attempt at a time, and twice as many
each time that so many were answered, until the caller's own cap is reached. A target that just came
back is not met by all that waited for it.
"""

from __future__ import annotations

import enum
from collections import deque
from collections.abc import Hashable

from app.delivery.backoff import doubling

RECENT = 20  # attempts that are looked back on
FEWEST = 10  # attempts before anything is concluded from them
MOST = 0.8  # share of them that failed
KEYS = 3  # different keys among the failed
FIRST_PAUSE, LONGEST_PAUSE = 1.0, 60.0  # seconds


class BreakerState(enum.Enum):
    FLOWING = "flowing"
    PAUSED = "paused"
    PROBING = "probing"


class Endpoint:
    """The breaker of one subscription. ``now`` is monotonic seconds, ``jitter`` in [0, 1). ``most``:
    attempts at a time at which the slow start is over."""

    def __init__(self, most: int = 64) -> None:
        self._most = most
        self._recent: deque[Hashable | None] = deque(maxlen=RECENT)  # failed key, None: answered
        self._failures_in_a_row = 0
        self._probes_failed = 0  # in a row
        self.flow = BreakerState.FLOWING
        self.until = 0.0
        self._not_before = (
            0.0  # moment until which the target asks to wait, or the breaker chose to
        )
        self.cause = ""
        self.allowed: int | None = None  # attempts at a time while it starts slowly; None: any
        self._answered = 0  # since ``allowed`` grew

    @property
    def doubtful(self) -> bool:
        """Whether what failed may be the events that were tried, rather than the target."""
        return self._probes_failed >= KEYS

    @property
    def waits_for_sink(self) -> bool:
        """Whether only the sink asks to wait: the target is not at fault."""
        return self.flow is not BreakerState.FLOWING and self.until > self._not_before

    def answered(self, *, probe: bool) -> None:
        """The target dealt with a request, whether it liked the event or not."""
        self._recent.append(None)
        if probe:
            self._recent.clear()
            self._failures_in_a_row = self._probes_failed = 0
            self.flow, self.cause = BreakerState.FLOWING, ""
            self.allowed, self._answered = 1, 0
        elif self.allowed is not None and self.flow is BreakerState.FLOWING:
            self._grow(self.allowed)

    def failed(self, key: Hashable, code: str, now: float, jitter: float, *, probe: bool) -> bool:
        """The target is at fault. True: it is paused now, and this attempt is not held against the
        event."""
        self._recent.append(key)
        self._probes_failed += probe
        if not probe and self.flow is BreakerState.FLOWING and not self._most_failed():
            return False
        if probe or self.flow is BreakerState.FLOWING:
            self._failures_in_a_row += 1
            pause = doubling(FIRST_PAUSE, LONGEST_PAUSE, self._failures_in_a_row, jitter)
            self._not_before = now + pause
            self._pause(now + pause, f"most attempts fail, the last with {code}")
        return True

    def unreached(self, cause: str, now: float, jitter: float, *, probe: bool) -> float:
        """Pause, because an attempt ended before the first byte of its request. Return when the pause is
        over. The events that were tried are not in doubt."""
        if probe or self.flow is BreakerState.FLOWING:
            self._failures_in_a_row += 1
            pause = doubling(FIRST_PAUSE, LONGEST_PAUSE, self._failures_in_a_row, jitter)
            self._not_before = now + pause
            self._pause(now + pause, cause)
        return self.until

    def asked_to_wait(self, until: float, cause: str, *, by_sink: bool = False) -> None:
        """By Retry-After (W6), or by the sink: nobody sends before ``until``."""
        if not by_sink:  # it says nothing about the events that were tried
            self._probes_failed += self.flow is BreakerState.PROBING
            self._not_before = max(self._not_before, until)
        if self.flow is not BreakerState.PAUSED or until > self.until:
            self._pause(until, cause)

    def sink_is_ready(self, now: float) -> None:
        """What the sink waited for is there: of its pauses nothing is left."""
        if self.flow is BreakerState.PAUSED:
            self.until = max(now, min(self.until, self._not_before))

    def probe_if_due(self, now: float) -> bool:
        """True: the pause is over, and exactly one attempt may be made now, with ``probe=True``."""
        if self.flow is not BreakerState.PAUSED or now < self.until:
            return False
        self.flow = BreakerState.PROBING
        return True

    def probe_came_to_nothing(self, until: float) -> None:
        """The attempt never reached the target: another may be made at ``until``."""
        self._pause(until, self.cause)

    def nothing_to_probe(self) -> None:
        """No event is held that could be sent: consume again. The look back stays, so that a few
        more failures pause it at once."""
        self.flow, self.cause = BreakerState.FLOWING, ""

    def _grow(self, allowed: int) -> None:
        self._answered += 1
        if self._answered >= allowed:
            self.allowed, self._answered = allowed * 2, 0
            if self.allowed >= self._most:
                self.allowed = None

    def _pause(self, until: float, cause: str) -> None:
        self.flow, self.until, self.cause = BreakerState.PAUSED, until, cause

    def _most_failed(self) -> bool:
        failed = [key for key in self._recent if key is not None]
        return (
            len(self._recent) >= FEWEST
            and len(failed) >= MOST * len(self._recent)
            and len(set(failed)) >= KEYS
        )
