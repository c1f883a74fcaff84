"""``time``, the instant of ``time_text``. That Spark reads it so: ``tests/pipeline/test_decode.py``."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.event.types import is_timestamp
from app.pipeline.decode.times import INSTANT, instants
from example_counts import examples

TEN = datetime(2026, 11, 20, 10, tzinfo=UTC)
UNUSUAL = {
    "2026-11-20t10:00:00Z": TEN,
    "2026-11-20T10:00:00z": TEN,
    "2026-11-20T10:00:00+01:00": TEN - timedelta(hours=1),
    "2026-11-20T10:00:00.5-18:00": TEN + timedelta(hours=18, seconds=0.5),
    "2026-11-20T10:00:00-00:00": TEN,
    "2026-11-20T10:00:00.1234567Z": TEN + timedelta(microseconds=123456),
    "2026-11-20T10:00:00.12345+00:00": TEN + timedelta(microseconds=123450),
    "2026-12-31T23:59:60Z": None,
    "2026-11-20T10:00:00+18:01": None,
    "0000-01-01T00:00:00Z": None,
    "0001-01-01T00:00:00+01:00": None,
    "9999-12-31T23:59:59-01:00": None,
}
"""A leap second, an offset that Spark does not read, years that Python has not."""


def read(*texts: str | None) -> list[datetime | None]:
    found = instants(pa.array(texts, pa.string()))
    assert found.type == INSTANT
    return found.to_pylist()


@examples(300)
@given(st.datetimes(timezones=st.just(UTC)), st.integers(0, 6))
def test_usual_times_are_read(moment: datetime, digits: int) -> None:
    """To the microsecond, of every year that Python has."""
    fraction = f".{moment.microsecond:06}"[: digits + 1] if digits else ""
    text = f"{moment.year:04}-{moment:%m-%dT%H:%M:%S}{fraction}Z"
    assert is_timestamp(text)
    cut = moment.replace(microsecond=int(fraction[1:].ljust(6, "0") or 0))
    assert read(text, None) == [cut, None]


@pytest.mark.parametrize("text", UNUSUAL)
def test_unusual_times_are_read_or_have_no_instant(text: str) -> None:
    assert is_timestamp(text)
    assert read("2026-11-20T10:00:00Z", text, None) == [TEN, UNUSUAL[text], None]


def test_no_times() -> None:
    assert read(None, None) == [None, None]
    assert read() == []
