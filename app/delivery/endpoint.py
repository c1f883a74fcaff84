"""The circuit breaker of one webhook endpoint.

::

              most attempts fail, Retry-After, unreachable   the time is over
    FLOWING ───────────────────────────────────► PAUSED ──────────────────────► PROBING
       ▲                                           ▲                               | one attempt
       |                 answered                  |    failed: a longer pause     |
       └───────────────────────────────────────────┴──────────────────────────────┘

While the state is not FLOWING, the worker consumes and copies nothing: the log is the buffer. Attempts that
end in a pause use no step of any event's schedule, so an outage causes no dead letters. *Most attempts* must
fail for several keys. One event that always fails goes through its own schedule and never stops other events.

An unreachable target pauses at once. No byte of a request was sent, so no event can be at fault. If other
attempts are answered at the same time, only a part of the target is unreachable. Then only the events of one
key wait, and the breaker does not change.

Some events may fail at any endpoint, and perhaps all events in memory are of this kind. After a few failed
probes in a row the endpoint is ``doubtful``. If memory has no event that was never tried, the worker then
consumes some new events.

A Retry-After is honoured to the second. A pause that the breaker chose starts at 1 s and doubles up to 60 s while
probes fail.

An operator may request the next probe at once (``retry``). A pause after a Retry-After ends early only by force. If
the requested probe fails, the earlier pause goes on, so that many requests change nothing. A request during a probe
counts if this probe fails, because the probe may have begun before the target was repaired.

After an answered probe the endpoint starts slowly. One attempt is in flight at first, then twice as many after each
full round of answers, up to the caller's own bound. So a recovering target does not get all events at once.
"""

from __future__ import annotations

import enum
from collections import deque
from collections.abc import Callable, Hashable

from app.delivery.backoff import doubling

RECENT = 20  # attempts that are considered
FEWEST = 10  # attempts before the share of failures counts
MOST = 0.8  # share of failed attempts that opens the breaker
KEYS = 3  # different keys among the failed attempts
FIRST_PAUSE, LONGEST_PAUSE = 1.0, 60.0  # seconds

_NONE: deque[Hashable | None] = deque(maxlen=0)  # stays empty


class BreakerState(enum.Enum):
    """The states of the circuit breaker."""

    FLOWING = "flowing"
    PAUSED = "paused"
    PROBING = "probing"


class Endpoint:
    """Circuit breaker of one webhook endpoint. Times are monotonic seconds, and ``jitter`` is in [0, 1).

    ``flow`` is the state. ``until`` is the end of the pause, and ``cause`` its reason. ``allowed`` is the
    permitted number of attempts in flight during the slow start, else None.

    Args:
        most: the number of attempts in flight at which the slow start ends.
        on_pause: called when a pause begins or changes.
    """

    def __init__(self, most: int = 64, on_pause: Callable[[], None] = lambda: None) -> None:
        self._most = most
        self._on_pause = on_pause
        self._recent = (
            _NONE  # keys of failures, and None for answers; most endpoints have no attempt for long
        )
        self._failures_in_a_row = 0
        self._probes_failed = 0  # in a row
        self.flow = BreakerState.FLOWING
        self.until = 0.0
        self._not_before = 0.0  # end of the pause that the target asked for or the breaker chose
        self._asked_until = 0.0  # end of the pause that the target asked for with Retry-After
        self._earlier: float | None = None  # end of the pause before ``retry`` shortened it
        self._requested: tuple[float, bool] | None = None  # time and force of ``retry`` in a probe
        self.cause = ""
        self.allowed: int | None = None  # attempts in flight during the slow start; None: any
        self._answered = 0  # since ``allowed`` grew

    @property
    def doubtful(self) -> bool:
        """Return True if the failures may be caused by the events that were tried rather than by the
        target."""
        return self._probes_failed >= KEYS

    @property
    def waits_for_sink(self) -> bool:
        """Return True if the endpoint is paused only because the sink asked to wait. The target is then not
        at fault."""
        return self.flow is not BreakerState.FLOWING and self.until > self._not_before

    def answered(self, *, probe: bool) -> None:
        """Note that the target processed a request, with any decision about the event. If the attempt was a
        probe, the pause ends."""
        self._note(None)
        if probe:
            self._recent = _NONE
            self._failures_in_a_row = self._probes_failed = 0
            self._asked_until, self._earlier, self._requested = 0.0, None, None
            self.flow, self.cause = BreakerState.FLOWING, ""
            self.start_slowly()
        elif self.allowed is not None and self.flow is BreakerState.FLOWING:
            self._grow(self.allowed)

    def _note(self, attempt: Hashable | None) -> None:
        if self._recent is _NONE:
            self._recent = deque(maxlen=RECENT)
        self._recent.append(attempt)

    def failed(self, key: Hashable, code: str, now: float, jitter: float, *, probe: bool) -> bool:
        """Note a failed attempt. Return True if the endpoint is paused, so that the attempt uses no step of the
        event.

        Args:
            key: the key of the failed event.
            code: the code of the failure, for the cause.
            now: the monotonic time in seconds.
            jitter: a random number in [0, 1).
            probe: whether the attempt was the probe.
        """
        self._note(key)
        self._probes_failed += probe and self._earlier is None
        if not probe and self.flow is BreakerState.FLOWING and not self._most_failed():
            return False
        if probe or self.flow is BreakerState.FLOWING:
            self._pause_after_failure(f"most attempts fail, the last with {code}", now, jitter)
        return True

    def unreached(self, cause: str, now: float, jitter: float, *, probe: bool) -> float:
        """Pause, because an attempt ended before the first byte of its request. Return the end of the pause."""
        if probe or self.flow is BreakerState.FLOWING:
            self._pause_after_failure(cause, now, jitter)
        return self.until

    def asked_to_wait(self, until: float, cause: str, *, by_sink: bool = False) -> None:
        """Pause until ``until``, because the target (Retry-After) or the sink asked for it."""
        if not by_sink:  # a pause of the sink has no meaning for the tried events
            probing = self.flow is BreakerState.PROBING
            self._probes_failed += probing and self._earlier is None
            self._asked_until = until if probing else max(self._asked_until, until)
            self._not_before = max(self._not_before, until)
            if probing:
                self._earlier = None
        if self.flow is not BreakerState.PAUSED or until > self.until:
            self._pause(until, cause)
        if not by_sink:
            self._retry_again()

    def sink_is_ready(self, now: float) -> None:
        """End the pause that the sink requested."""
        if self.flow is BreakerState.PAUSED:
            self.until = max(now, min(self.until, self._not_before))

    def retry(self, now: float, *, force: bool) -> None:
        """End the pause now, or at the end of the wait that the target asked for unless ``force``."""
        until = now if force else max(now, self._asked_until)
        if self.flow is BreakerState.PROBING:
            self._requested = now, force
        if self.flow is BreakerState.PAUSED and until < self.until:
            self._earlier = self._earlier or self.until
            self._not_before = self.until = until

    def start_slowly(self) -> None:
        """Allow one attempt in flight at first."""
        self.allowed, self._answered = 1, 0

    def probe_if_due(self, now: float) -> bool:
        """Return True if the pause is over. The caller must then make exactly one attempt with
        ``probe=True``."""
        if self.flow is not BreakerState.PAUSED or now < self.until:
            return False
        self.flow = BreakerState.PROBING
        return True

    def probe_came_to_nothing(self, until: float) -> None:
        """Pause until ``until``, because the probe could not be sent to the target."""
        self._pause(until, self.cause)

    def nothing_to_probe(self) -> None:
        """Resume consumption, because no held event can be sent as a probe. A few more failures pause again at
        once."""
        self.flow, self.cause = BreakerState.FLOWING, ""
        self._earlier, self._requested = None, None

    def _grow(self, allowed: int) -> None:
        self._answered += 1
        if self._answered >= allowed:
            self.allowed, self._answered = allowed * 2, 0
            if self.allowed >= self._most:
                self.allowed = None

    def _pause_after_failure(self, cause: str, now: float, jitter: float) -> None:
        """Pause, after a requested probe until the earlier end of the pause."""
        until, self._earlier = self._earlier, None
        if until is None:
            self._failures_in_a_row += 1
            until = now + doubling(FIRST_PAUSE, LONGEST_PAUSE, self._failures_in_a_row, jitter)
        self._not_before = until
        self._pause(until, cause)
        self._retry_again()

    def _retry_again(self) -> None:
        """End the pause if it was requested during the probe that has failed now."""
        requested, self._requested = self._requested, None
        if requested is not None:
            now, force = requested
            self.retry(now, force=force)

    def _pause(self, until: float, cause: str) -> None:
        self.flow, self.until, self.cause = BreakerState.PAUSED, until, cause
        self._on_pause()

    def _most_failed(self) -> bool:
        failed = [key for key in self._recent if key is not None]
        return (
            len(self._recent) >= FEWEST
            and len(failed) >= MOST * len(self._recent)
            and len(set(failed)) >= KEYS
        )
