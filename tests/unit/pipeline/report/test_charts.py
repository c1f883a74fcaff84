"""Axes hold what is drawn, bins cover the range, and numbers read as people write them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.pipeline.report import charts, words
from app.pipeline.report.charts import Series
from app.pipeline.report.spans import MOST, Span

BEGIN = datetime(2026, 11, 20, 10, 0, 7, tzinfo=UTC)
TWO, THREE = (Span(BEGIN, BEGIN + timedelta(seconds=n)) for n in (2, 3))


@given(st.floats(1e-6, 1e15))
def test_a_linear_axis_reaches_the_most_and_not_far_beyond(most: float) -> None:
    axis = charts.linear(most)
    assert most <= axis.high * 1.001
    assert axis.high <= most * 2.6
    assert 2 <= len(axis.ticks) <= charts.TICKS + 2


@given(st.lists(st.floats(-100, 1e9), max_size=20))
def test_a_logarithmic_axis_holds_every_value(values: list[float]) -> None:
    """Delays below nothing too: they are drawn at its foot."""
    axis = charts.logarithmic(values)
    assert all(0 <= axis.at(value) <= 1 for value in [*values, *axis.ticks])


@given(st.integers(1, 400 * 366 * 86_400 * 1_000))
def test_bins_cover_the_range_and_are_few(milliseconds: int) -> None:
    span = Span(BEGIN, BEGIN + timedelta(milliseconds=milliseconds))
    bins = span.bins()
    assert 1 <= len(bins) <= MOST
    assert bins[0] <= span.begin
    assert span.end <= bins[-1] + span.step
    assert span.end > bins[-1]


def test_columns_stand_upon_each_other_up_to_their_sum() -> None:
    """Heights are in proportion: 30 upon 10, of an axis to 40."""
    series = [Series("a", [10, 0], 0), Series("b", [30, 20], 1)]
    drawn = charts.stacked(TWO, series, label="events")
    found = [part for column in drawn.columns for part in column.parts]
    expected = [(0, 0.25), (1, 0.75), (1, 0.5)]
    assert found == [pytest.approx(part) for part in expected]


def test_a_column_of_delays_reaches_from_one_percentile_to_the_other() -> None:
    """On an axis from 100 ms to 10 s. Where there is nothing, no column is drawn."""
    drawn = charts.spread(
        THREE, Series("p50", [1.0, None, 0.1], 0), Series("p99", [10.0, None, 0.1], 1), label="x"
    )
    assert [column.parts for column in drawn.columns] == [
        [(None, pytest.approx(0.5)), (1, pytest.approx(0.5))],
        (),
        [(None, pytest.approx(0)), (1, pytest.approx(0))],
    ]
    assert drawn.columns[0].title.endswith("p50: 1 s\np99: 10 s")


@pytest.mark.parametrize(
    ("said", "text"),
    [
        (words.seconds(0.05), "50 ms"), (words.seconds(90), "1.5 min"), (words.seconds(None), words.NONE),
        (words.seconds(-2), "-2 s"), (words.seconds(0.0000021), "2.1 µs"), (words.size(1536), "1.5 KiB"),
        (words.size(17), "17 B"), (words.short(1_250_000), "1.25 M"), (words.number(1234567), "1,234,567"),
        (words.share(1, 3), "33.3 %"), (words.share(1, 1_000_000), "< 0.01 %"), (words.share(0, 5), "0 %"),
        (words.share(999_999, 1_000_000), "> 99.99 %"), (words.share(1, 0), words.NONE),
        (words.count(1, "record"), "1 record"), (words.count(2, "key has", "keys have"), "2 keys have"),
    ],
)  # fmt: skip
def test_words(said: str, text: str) -> None:
    assert said == text
