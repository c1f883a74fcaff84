"""``rate_limit`` as people write it."""

from __future__ import annotations

import pytest

from app.model.rates import event_rate
from worker_doubles import a_subscription


@pytest.mark.parametrize(
    ("text", "rate"),
    [("100/s", (100, 1.0)), ("600/min", (600, 60.0)), (" 10000 / h ", (10_000, 3600.0))],
)
def test_a_rate_is_so_many_events_in_a_span(text, rate):
    assert event_rate(text) == rate


@pytest.mark.parametrize("text", ["", "100", "0/s", "-1/s", "1.5/s", "100/d", "9999999999/s"])
def test_what_is_no_rate_is_refused_where_it_is_written(text):
    """A limit that is misread would flood the target it is to spare."""
    with pytest.raises(ValueError, match="The value is not a rate"):
        event_rate(text)
    with pytest.raises(ValueError, match="The value is not a rate"):
        a_subscription(rate_limit=text)


def test_it_reads_back_as_it_was_written():
    """One set of names for file and API: what is exported can be pasted."""
    assert a_subscription(rate_limit="600/min").rate_limit == "600/min"
