"""The time of day of a server that several processes use."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from app.telemetry.server_clock import MEASURE_EVERY, ServerClock
from virtual_clock import VirtualClock

HOUR = 3600.0


def test_before_the_first_measurement_it_is_the_time_of_the_machine() -> None:
    own = VirtualClock()
    clock = ServerClock(own)
    assert clock.now() == own.now()
    assert clock.is_due()


@given(st.floats(-HOUR, HOUR), st.floats(0, 5), st.floats(0, 1), st.floats(0, 10 * HOUR))
def test_it_is_never_further_from_the_server_than_half_of_the_round_trip(
    off: float, trip: float, part: float, later: float
) -> None:
    own = VirtualClock()
    clock, began = ServerClock(own), own.monotonic()
    clock.measured(own.now() + off + part * trip, began, began + trip)
    own.suspend(later)
    assert abs(clock.now() - own.now() - off) <= trip / 2 + 1e-3


def test_a_slow_answer_does_not_replace_a_precise_one() -> None:
    own = VirtualClock()
    clock, at = ServerClock(own), own.monotonic()
    clock.measured(own.now() + HOUR, at, at)
    clock.measured(own.now() + HOUR, at, at + 4)
    assert abs(clock.now() - own.now() - HOUR) < 1e-3


def test_a_step_of_the_server_is_followed_also_by_a_slow_answer() -> None:
    own = VirtualClock()
    clock, at = ServerClock(own), own.monotonic()
    clock.measured(own.now() + HOUR, at, at)
    clock.measured(own.now() - HOUR, at, at + 4)
    assert abs(clock.now() - own.now() + HOUR) <= 2


def test_a_measurement_is_due_again_after_a_while() -> None:
    own = VirtualClock()
    clock, at = ServerClock(own), own.monotonic()
    clock.measured(own.now(), at, at)
    assert not clock.is_due()
    own.suspend(MEASURE_EVERY)
    assert clock.is_due()
