from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.delivery.outcomes import Fate, Outcome
from app.delivery.plan import (
    EXHAUSTED,
    DeadLetterIt,
    Disable,
    PauseEndpoint,
    Policy,
    RetryAt,
    Settle,
    asked_wait,
    conclude,
)

POLICY = Policy((0.1, 2.0, 60.0), 86_400.0)
RETRY = Outcome(Fate.RETRY, "status-503", "5xx")

TABLE = [
    (Outcome(Fate.DELIVERED, "status-204", "2xx"), 0, None, Settle()),
    (Outcome(Fate.DELIVERED, "status-204", "2xx"), 2, 30.0, Settle()),
    (Outcome(Fate.DEAD_LETTER, "status-415", "4xx"), 0, None, DeadLetterIt("status-415")),
    (Outcome(Fate.DISABLE, "status-410", "4xx"), 0, None, Disable("status-410")),
    (RETRY, 0, None, RetryAt(1000.05)),
    (RETRY, 1, None, RetryAt(1001.0)),
    (RETRY, 2, None, RetryAt(1030.0)),
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
    assert asked_wait(header, 1_700_000_000.0, POLICY) == seconds
