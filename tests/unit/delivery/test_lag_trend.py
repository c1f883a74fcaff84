"""Whether a lag grows, from samples."""

from __future__ import annotations

from collections.abc import Sequence

from app.delivery.lag_trend import SPAN, LagGrowth, LagTrend


def grown(samples: Sequence[int | None], every: float = SPAN / 4) -> LagGrowth:
    trend = LagTrend()
    for number, lag in enumerate(samples):
        trend.note(lag, 100 + number * every)
    return trend.growth(100 + len(samples) * every)


def test_a_lag_that_rises_in_every_minute_grows() -> None:
    assert grown([1, 9, 4, 7, 5, 20, 12, 15, 13, 30, 25, 40, 41, 90, 80, 70]) == LagGrowth(
        40, 4 * SPAN
    )


def test_a_lag_that_falls_once_below_an_earlier_minute_does_not_grow() -> None:
    assert grown([1, 9, 4, 7, 5, 20, 12, 15, 3, 30, 25, 40]) == LagGrowth()
    assert grown([9] * 40) == LagGrowth()


def test_growth_begins_again_after_a_fall() -> None:
    found = grown([50] * 4 + [60] * 4 + [1] * 4 + [2] * 4 + [3] * 4 + [4] * 4)
    assert found.records == 3
    assert found.seconds < 6 * SPAN


def test_an_unknown_lag_is_no_sample() -> None:
    assert grown([None] * 40) == LagGrowth()
    assert grown([1] * 4 + [None] * 8 + [2] * 4 + [3] * 4).records == 2
