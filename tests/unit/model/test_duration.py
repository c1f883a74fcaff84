"""Durations and sizes as people write them."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError

from app.model.duration import Count, Duration, Size

DURATION = TypeAdapter[float](Duration)
SIZE = TypeAdapter[int](Size)
COUNT = TypeAdapter[int](Count)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("100ms", 0.1), ("15s", 15), ("1.5s", 1.5), ("1m30s", 90), ("1m 30s", 90), ("2h", 7200), ("7d", 604800), (3, 3), (0.25, 0.25), ("0s", 0)],
)  # fmt: skip
def test_a_duration_is_seconds(text: Any, seconds: float) -> None:
    """The retry schedule is read by people: 5m must not be 5 months or 5 milliseconds."""
    assert DURATION.validate_python(text) == pytest.approx(seconds)


@pytest.mark.parametrize(
    "text", ["", "15", "s", "-5s", "5 apples", "5M", "1s junk", "1e3s", "99999999999999999999h", 1e300, -1, True, None, float("nan"), float("inf")]
)  # fmt: skip
def test_what_is_no_duration_is_refused(text: Any) -> None:
    """ "15" without a unit is refused: seconds for one reader, minutes for the next."""
    with pytest.raises(ValidationError):
        DURATION.validate_python(text)


@pytest.mark.parametrize(
    ("text", "count"),
    [("64KiB", 65536), ("1 MiB", 1 << 20), ("2GiB", 2 << 30), ("1TiB", 1 << 40), ("10kB", 10_000), ("1MB", 10**6), ("7B", 7), ("7", 7), (7, 7)],
)  # fmt: skip
def test_a_size_is_bytes(text: Any, count: int) -> None:
    """Both families of units, never taken for one another."""
    assert SIZE.validate_python(text) == count


@pytest.mark.parametrize("text", ["", "64K", "1.5MiB", "-1", -1, True, "MiB", None])
def test_what_is_no_size_is_refused(text: Any) -> None:
    """64K may be 64,000 or 65,536: ask."""
    with pytest.raises(ValidationError):
        SIZE.validate_python(text)


@given(st.integers(0, 10**12), st.sampled_from(["KiB", "MiB", "GiB"]))
def test_sizes_are_exact(count: int, unit: str) -> None:
    """A bound is a bound to the byte, whatever its size."""
    power = {"KiB": 10, "MiB": 20, "GiB": 30}[unit]
    assert SIZE.validate_python(f"{count}{unit}") == count << power


def test_a_switch_is_no_number() -> None:
    """Python would take port: true for port 1."""
    with pytest.raises(ValidationError):
        COUNT.validate_python(True)


@pytest.mark.parametrize("adapter", [DURATION, SIZE])
def test_a_refusal_does_not_repeat_the_value(adapter: TypeAdapter[Any]) -> None:
    """It may have come out of ${env:} or ${file:} by mistake."""
    with pytest.raises(ValidationError) as refused:
        adapter.validate_python("hunter2")
    assert all("hunter2" not in each["msg"] for each in refused.value.errors())
