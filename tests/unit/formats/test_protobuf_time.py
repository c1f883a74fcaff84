"""Timestamps of Protobuf: the same instant or a refusal, never another time."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.event.types import is_timestamp
from app.formats.protobuf_time import CannotHold, to_text, to_timestamp


@pytest.mark.parametrize(
    ("text", "seconds", "nanos", "back"),
    [
        ("1970-01-01T00:00:00Z", 0, 0, None),
        ("2018-04-05t17:31:00.000000001z", 1522949460, 1, "2018-04-05T17:31:00.000000001Z"),
        ("2018-04-05T17:31:00.500+02:30", 1522940460, 500_000_000, "2018-04-05T15:01:00.5Z"),
        ("1969-12-31T23:59:59.9-00:00", -1, 900_000_000, "1969-12-31T23:59:59.9Z"),
        ("0001-01-01T00:00:00Z", -62135596800, 0, None),
        ("9999-12-31T23:59:59.999999999Z", 253402300799, 999_999_999, None),
        ("0000-12-31T23:30:00-01:00", -62135595000, 0, "0001-01-01T00:30:00Z"),
        ("2026-01-01T00:00:00.1234567890000Z", 1767225600, 123456789, "2026-01-01T00:00:00.123456789Z"),
    ],
)  # fmt: skip
def test_a_time_is_the_same_instant(text: str, seconds: int, nanos: int, back: str | None) -> None:
    """Core 1.3; the offset is not held by the format, the instant is."""
    assert to_timestamp(text) == (seconds, nanos)
    assert to_text(seconds, nanos) == (back or text)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("2016-12-31T23:59:60Z", "leap"),
        ("2026-01-01T00:00:00.0000000001Z", "nanoseconds"),
        ("0000-06-01T00:00:00Z", "years"),
        ("9999-12-31T23:59:59-00:01", "years"),
        ("0001-01-01T00:00:00+00:01", "years"),
    ],
)
def test_what_cannot_be_held_is_refused(text: str, why: str) -> None:
    """A time that is a little wrong is worse than none."""
    assert is_timestamp(text)
    with pytest.raises(CannotHold, match=why):
        to_timestamp(text)


@pytest.mark.parametrize(
    ("seconds", "nanos"), [(-62135596801, 0), (253402300800, 0), (0, -1), (0, 10**9)]
)
def test_an_out_of_range_timestamp_is_refused(seconds: int, nanos: int) -> None:
    """Nothing stops a sender from putting any number there."""
    with pytest.raises(CannotHold):
        to_text(seconds, nanos)


@given(st.integers(-62135596800, 253402300799), st.integers(0, 10**9 - 1))
def test_every_timestamp_comes_back(seconds: int, nanos: int) -> None:
    """The text is canonical RFC 3339, and means the same number."""
    text = to_text(seconds, nanos)
    assert is_timestamp(text)
    assert to_timestamp(text) == (seconds, nanos)
