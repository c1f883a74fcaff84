"""An allowance gives rate and burst, to the event, whatever the order of requests."""

from __future__ import annotations

import math
from collections.abc import Iterator

from hypothesis import given
from hypothesis import strategies as st

from app.access.quota import Allowance, Quota
from example_counts import examples

quotas = st.builds(Quota, rate=st.floats(0.01, 100_000), burst=st.integers(1, 100_000))
asks = st.lists(st.tuples(st.integers(1, 2_000), st.floats(0, 10)), max_size=200)
Asks = list[tuple[int, float]]


def asking(quota: Quota, asks: Asks) -> Iterator[tuple[Allowance, int, float]]:
    """The allowance, the events of each request, and its time."""
    allowance, now = Allowance(quota), 50.0
    for count, pause in asks:
        now += pause
        yield allowance, count, now


def test_a_new_caller_has_its_whole_burst():
    allowance = Allowance(Quota(10.0, 5))
    assert allowance.remaining(100.0) == 5
    assert [allowance.take(1, 100.0) for _ in range(5)] == [0.0] * 5
    assert allowance.remaining(100.0) == 0
    assert math.isclose(allowance.take(1, 100.0), 0.1)


def test_more_than_the_burst_never_fits():
    allowance = Allowance(Quota(1.0, 5))
    assert allowance.take(6, 0.0) == math.inf
    assert allowance.take(5, 0.0) == 0.0


def test_a_full_allowance_holds_no_more_than_the_burst():
    allowance = Allowance(Quota(100.0, 5))
    assert allowance.take(5, 0.0) == 0.0
    assert allowance.reset(0.0) == 0.05
    assert allowance.remaining(1000.0) == 5
    assert allowance.take(6, 1000.0) == math.inf


def test_another_quota_keeps_what_was_taken():
    allowance = Allowance(Quota(10.0, 10))
    assert allowance.take(10, 0.0) == 0.0
    allowance.apply(Quota(100.0, 100), 0.0)
    assert allowance.remaining(0.0) == 90
    assert allowance.take(90, 0.0) == 0.0
    allowance.apply(Quota(1.0, 50), 0.0)
    assert allowance.remaining(10.0) == 0
    assert allowance.reset(0.0) == 100.0


def test_what_cannot_be_refused_is_charged_and_paid_by_waiting():
    allowance = Allowance(Quota(10.0, 5))
    allowance.charge(5, 0.0)
    assert allowance.debt(0.0) == 0.0
    allowance.charge(20, 0.0)
    assert math.isclose(allowance.debt(0.0), 2.0)
    assert allowance.remaining(1.0) == 0
    assert math.isclose(allowance.take(1, 1.0), 1.1)
    assert allowance.debt(2.0) == 0.0
    assert allowance.remaining(2.1) == 1


def test_ten_times_the_rate_gets_rate_and_burst_over_a_minute():
    """As the guarantee says: rate x 60 + burst, within 2 %."""
    for rate, burst in ((500.0, 2_000), (50.0, 1), (0.5, 30)):
        allowance = Allowance(Quota(rate, burst))
        steps = int(60 * rate * 10)
        taken = sum(allowance.take(1, step / (rate * 10)) == 0.0 for step in range(steps + 1))
        assert abs(taken - (rate * 60 + burst)) <= 0.02 * (rate * 60 + burst)


@given(quotas, asks)
@examples(60)
def test_never_more_than_rate_and_burst(quota: Quota, asks: Asks):
    """Over every span of the run, not only from its beginning."""
    taken = []
    for allowance, count, now in asking(quota, asks):
        if allowance.take(count, now) == 0.0:
            taken.append((now, count))
    for first in range(len(taken)):
        total = 0
        for at, count in taken[first:]:
            total += count
            bound = quota.burst + (at - taken[first][0]) * quota.rate
            assert total <= bound * (1 + 1e-6) + 1e-6


@given(quotas, asks)
@examples(60)
def test_the_told_wait_is_enough_and_not_too_long(quota: Quota, asks: Asks):
    allowance, now = Allowance(quota), 50.0
    for count, pause in asks:
        now += pause
        before = (allowance.remaining(now), allowance.reset(now))
        wait = allowance.take(count, now)
        if wait == 0.0:
            continue
        assert (allowance.remaining(now), allowance.reset(now)) == before
        if wait == math.inf:
            assert count > quota.burst
            continue
        assert allowance.take(count, now + wait * 0.5 - 1e-6) > 0.0
        now += wait * (1 + 1e-9) + 1e-9
        assert allowance.take(count, now) == 0.0


@given(quotas, asks)
@examples(60)
def test_what_remains_can_be_taken_and_no_more(quota: Quota, asks: Asks):
    for allowance, count, now in asking(quota, asks):
        allowance.take(count, now)
        remaining = allowance.remaining(now)
        assert 0 <= remaining <= quota.burst
        assert allowance.take(remaining + 1, now) > 0.0
        assert remaining == 0 or allowance.take(remaining, now) == 0.0
