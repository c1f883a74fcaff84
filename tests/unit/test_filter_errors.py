"""Filter expressions that fail: counted each time, told once a minute, without the data."""

from __future__ import annotations

import logging

import pytest

from app.telemetry import Counters, FilterErrors

EVENT = {"id": "7", "source": "/shop"}


def test_each_is_counted_and_one_a_minute_is_told(caplog: pytest.LogCaptureFixture) -> None:
    """Issue 16: six lost orders are six in the counter, and one entry with an example."""
    counters, now = Counters(), 100.0
    errors = FilterErrors(counters, "subscription", "billing", lambda: now)
    with caplog.at_level(logging.WARNING):
        for _ in range(6):
            errors.note(EVENT, "DATA('/total') > 100", "why")
        now += 59.9
        errors.note(EVENT, "DATA('/total') > 100", "why")
        assert len(caplog.messages) == 1
        now += 0.1
        errors.note({}, "x" * 9000, "why")
    first, second = caplog.messages
    assert counters.values()["filter_errors"] == {("subscription", "billing"): 8}
    assert "subscription billing" in first
    assert "'7' of '/shop'" in first
    assert "DATA('/total') > 100" in first
    assert "(7 since the last entry)" in second
    assert len(second) < 600
