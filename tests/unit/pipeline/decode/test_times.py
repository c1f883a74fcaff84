"""``time`` as Arrow reads it; what it leaves to Spark is in ``tests/pipeline/test_decode.py``."""

from __future__ import annotations

from datetime import UTC, datetime

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.event.types import is_timestamp
from app.pipeline.decode.times import INSTANT, instants
from example_counts import examples

UNUSUAL = [
    "2026-12-31T23:59:60Z", "2026-11-20t10:00:00Z", "2026-11-20T10:00:00z", "2026-11-20T10:00:00+01:00",
    "2026-11-20T10:00:00-00:00", "2026-11-20T10:00:00.1234567Z", "0000-01-01T00:00:00Z",
]  # fmt: skip


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
def test_unusual_times_are_left_to_spark(text: str) -> None:
    assert is_timestamp(text)
    assert read("2026-11-20T10:00:00Z", text) == [datetime(2026, 11, 20, 10, tzinfo=UTC), None]


def test_no_times() -> None:
    assert read(None, None) == [None, None]
    assert read() == []
