"""The time of day of a server that several processes use."""

from __future__ import annotations

import logging
from itertools import pairwise
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.interfaces.clock import MEASURE_EVERY, ServerClock
from virtual_clock import VirtualClock

HOUR = 3600.0


class Server:
    """A server whose clock is ahead of that of the machine, and a clock that asks it."""

    def __init__(self, ahead: float = 0.0) -> None:
        self.ahead = ahead
        self.machine = VirtualClock()
        self.clock = ServerClock(self.machine, "the server")

    def now(self) -> float:
        return self.machine.now() - self.machine.ahead + self.ahead

    def answer(self, there: float = 0.0, back: float = 0.0, width: float = 0.0) -> None:
        """Answer once. ``width`` is the precision of the server's answer, such as whole seconds."""
        question = self.clock.ask()
        self.machine.suspend(there)
        shown = self.now() // width * width if width else self.now()
        self.machine.suspend(back)
        self.clock.measured(shown, shown + width, question)

    @property
    def error(self) -> float:
        return abs(self.clock.now() - self.now())


def test_before_the_first_measurement_it_is_the_time_of_the_machine() -> None:
    server = Server(HOUR)
    assert server.clock.now() == server.machine.now()
    assert server.clock.is_due()


@given(
    st.floats(-HOUR, HOUR),
    st.lists(st.tuples(st.floats(0, 5), st.floats(0, 5)), min_size=1),
    st.floats(0, 100),
)
def test_it_is_never_further_from_the_server_than_half_of_the_fastest_answer(
    ahead: float, trips: list[tuple[float, float]], later: float
) -> None:
    server = Server(ahead)
    for trip in trips:
        server.answer(*trip)
    server.machine.suspend(later)
    drift = 1e-4 * sum(map(sum, trips))
    assert server.error <= min(map(sum, trips)) / 2 + drift + 1e-6


def test_a_slow_answer_does_not_replace_a_precise_one() -> None:
    server = Server(HOUR)
    server.answer()
    server.answer(4.0, 0.0)
    assert server.error < 1e-3


@pytest.mark.parametrize("step", [HOUR, -HOUR])
def test_a_step_of_the_server_is_followed_also_by_a_slow_answer(step: float) -> None:
    server = Server()
    server.answer()
    server.ahead = step
    server.answer(4.0, 4.0)
    assert server.error <= 4


def test_answers_in_whole_seconds_become_exact_and_time_does_not_go_back() -> None:
    """As in the header Date: the bounds of all answers are taken together."""
    server, dice, shown = Server(HOUR), Random(1), list[float]()
    for _ in range(200):
        server.machine.suspend(dice.uniform(0.1, 2))
        server.answer(dice.uniform(0.001, 0.01), dice.uniform(0.001, 0.01), width=1.0)
        shown.append(server.clock.now())
    assert server.error < 0.05
    settled = shown[20:]
    assert all(before <= after for before, after in pairwise(settled))


def test_a_measurement_is_due_again_after_a_while() -> None:
    server = Server()
    server.answer()
    assert not server.clock.is_due()
    server.machine.suspend(MEASURE_EVERY)
    assert server.clock.is_due()


def test_a_machine_that_was_suspended_asks_at_once() -> None:
    """Its monotonic clock stood still, so only its wall clock shows that time has passed."""
    server = Server()
    server.answer()
    server.machine.ahead = HOUR
    assert server.clock.is_due()
    server.ahead = HOUR
    server.answer()
    assert not server.clock.is_due()
    assert server.error < 1e-3


def test_a_suspension_between_question_and_answer_is_noticed() -> None:
    server = Server()
    question = server.clock.ask()
    server.machine.ahead = HOUR
    server.clock.measured(server.now(), server.now(), question)
    assert server.clock.is_due()


def test_clocks_that_differ_are_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    server = Server(-HOUR)
    with caplog.at_level(logging.WARNING):
        server.answer()
        server.answer()
    (message,) = caplog.messages
    assert "the clock of the server is 3600 s behind the clock of this machine" in message
    with caplog.at_level(logging.WARNING):
        for ahead in (-50.0, -70.0, 0.0, HOUR):
            server.ahead = ahead
            server.answer()
    assert len(caplog.messages) == 2
    assert "3600 s ahead of" in caplog.messages[-1]
