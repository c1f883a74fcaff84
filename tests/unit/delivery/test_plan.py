from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.delivery.outcomes import AttemptOutcome, Fate
from app.delivery.plan import (
    EXHAUSTED,
    DeadLetterIt,
    Disable,
    Park,
    PauseEndpoint,
    RetryAt,
    RetryPolicy,
    Settle,
    WaitPlace,
    conclude,
    restored,
    retry_after_wait,
)

POLICY = RetryPolicy((0.1, 2.0, 60.0), 86_400.0, 2)
HOLDS = RetryPolicy((0.1, 2.0, 60.0), 86_400.0, 3)
RETRY = AttemptOutcome(Fate.RETRY, "status-503", "5xx")

TABLE = [
    (AttemptOutcome(Fate.DELIVERED, "status-204", "2xx"), 0, None, Settle()),
    (AttemptOutcome(Fate.DELIVERED, "status-204", "2xx"), 2, 30.0, Settle()),
    (AttemptOutcome(Fate.DEAD_LETTER, "status-415", "4xx"), 0, None, DeadLetterIt("status-415")),
    (AttemptOutcome(Fate.DISABLE, "status-410", "4xx"), 0, None, Disable("status-410")),
    (RETRY, 0, None, RetryAt(1000.05)),
    (RETRY, 1, None, RetryAt(1001.0)),
    (RETRY, 2, None, Park(1030.0)),
    (RETRY, 3, None, DeadLetterIt(EXHAUSTED)),
    (RETRY, 0, 30.0, PauseEndpoint(1030.0)),
    (RETRY, 3, 30.0, PauseEndpoint(1030.0)),
    (RETRY, 0, 0.0, RetryAt(1000.05)),
    (RETRY, 3, 0.0, DeadLetterIt(EXHAUSTED)),
]


@pytest.mark.parametrize(("outcome", "steps", "asked", "decision"), TABLE)
def test_an_attempt_concludes_as_the_table_says(outcome, steps, asked, decision):
    """Rules 4, 6 and 7: the table of ``plan``, row by row, with half a jitter."""
    concluded = conclude(outcome, steps=steps, asked=asked, now=1000.0, jitter=0.5, policy=POLICY)
    assert concluded == decision


@pytest.mark.parametrize(
    ("place", "steps", "policy", "decision"),
    [
        (WaitPlace.LANE, 1, POLICY, RetryAt(1001.0)),
        (WaitPlace.LANE, 2, POLICY, Park(1030.0)),
        (WaitPlace.LANE, 2, HOLDS, RetryAt(1030.0)),
        (WaitPlace.CROWDED, 0, POLICY, Park(1000.05)),
        (WaitPlace.CROWDED, 0, HOLDS, RetryAt(1000.05)),
        (WaitPlace.LANE_ONLY, 2, POLICY, RetryAt(1030.0)),
        (WaitPlace.STORE, 0, POLICY, Park(1000.05)),
        (WaitPlace.STORE, 0, HOLDS, Park(1000.05)),
        (WaitPlace.STORE, 3, POLICY, DeadLetterIt(EXHAUSTED)),
        (WaitPlace.CROWDED, 3, POLICY, DeadLetterIt(EXHAUSTED)),
    ],
)
def test_a_wait_is_in_the_lane_or_in_the_store(place, steps, policy, decision):
    """Rule 4: a key parks when its quick waits are over, or half of the window is used; one of which all
    waits hold never does; what is in the store goes back there."""
    concluded = conclude(
        RETRY, steps=steps, asked=None, now=1000.0, jitter=0.5, policy=policy, place=place
    )
    assert concluded == decision


@pytest.mark.parametrize("place", WaitPlace)
def test_an_endpoint_that_asks_to_wait_parks_nothing(place):
    """Rule 6: the log is the buffer, nothing is copied."""
    concluded = conclude(
        RETRY, steps=2, asked=30.0, now=1000.0, jitter=0.5, policy=POLICY, place=place
    )
    assert concluded == PauseEndpoint(1030.0)


@given(st.integers(0, 20), st.floats(0, 1, exclude_max=True), st.floats(0, 1e9))
def test_a_decision_never_goes_back_in_time(steps, jitter, now):
    decision = conclude(RETRY, steps=steps, asked=None, now=now, jitter=jitter, policy=POLICY)
    assert isinstance(decision, DeadLetterIt) if steps >= 3 else decision.at >= now


@pytest.mark.parametrize(
    ("header", "seconds"),
    [
        (None, None),
        ("soon", None),
        ("0", 0.0),
        ("30", 30.0),
        ("86401", 86_400.0),
        ("9" * 99, 86_400.0),
    ],
)
def test_a_retry_after_is_honoured_up_to_its_bound(header, seconds):
    """Rule 7: exactly, but no longer than ``retry_after_max``."""
    assert retry_after_wait(header, 1_700_000_000.0, POLICY) == seconds


@pytest.mark.parametrize(
    "failed",
    [RetryAt(1.0), Park(1.0), PauseEndpoint(1.0), DeadLetterIt(EXHAUSTED)],
)
def test_a_requested_try_that_fails_takes_no_step_and_waits_as_before(failed):
    assert restored(failed, 9.0, WaitPlace.STORE) == Park(9.0, step=False)
    assert restored(failed, 9.0, WaitPlace.LANE) == RetryAt(9.0, step=False)


@pytest.mark.parametrize("final", [Settle(), DeadLetterIt("status-415"), Disable("status-410")])
def test_a_requested_try_that_ends_the_event_ends_it(final):
    assert restored(final, 9.0, WaitPlace.STORE) == final
