"""Deadlines without a clock on the hot path: never early, late by at most two looks."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.gateway.limits import ListenerLimits
from app.gateway.timeouts import Phase, TimeoutWatch

LIMITS = ListenerLimits(head_timeout=4, body_timeout=16, keep_alive=40, linger=4)
LOOK = 0.5  # an eighth of the shortest
IDLE_LOOK = 1.0  # the longest
TIMEOUTS = {Phase.IDLE: 40, Phase.HEAD: 4, Phase.BODY: 16, Phase.UNREAD: 16, Phase.CLOSING: 4}


class Loop:
    """Time that a test moves; one timer."""

    def __init__(self) -> None:
        self.now = 0.0
        self.due: tuple[float, Callable[[], None]] | None = None

    def time(self) -> float:
        return self.now

    def call_later(self, delay: float, callback: Callable[[], None]) -> Any:
        self.due = (self.now + delay, callback)
        return SimpleNamespace(cancel=self._cancel)

    def _cancel(self) -> None:
        self.due = None

    def run_until(self, end: float) -> None:
        while self.due is not None and self.due[0] <= end:
            self.now, callback = self.due
            callback()
        self.now = end


class Peer:
    def __init__(self) -> None:
        self.loop = Loop()
        self.state: tuple[Phase, Hashable] = (Phase.IDLE, 0)
        self.expiries: list[tuple[float, Phase]] = []
        loop: Any = self.loop
        self.watch = TimeoutWatch(self, LIMITS, loop)
        self.watch.start()

    def current_state(self) -> tuple[Phase, Hashable]:
        return self.state

    def expired(self, phase: Phase) -> None:
        self.expiries.append((self.loop.now, phase))


@pytest.mark.parametrize("phase", TIMEOUTS)
@given(begins=st.floats(0, 30))
def test_a_phase_expires_at_its_timeout_and_at_most_two_looks_later(
    phase: Phase, begins: float
) -> None:
    peer = Peer()
    peer.loop.run_until(begins)
    peer.state = (phase, "begun")
    late = IDLE_LOOK + max(LOOK, IDLE_LOOK * (phase is Phase.IDLE))
    peer.loop.run_until(begins + TIMEOUTS[phase] + late)
    at, expired = peer.expiries[0]
    assert expired is phase
    assert begins + TIMEOUTS[phase] <= at <= begins + TIMEOUTS[phase] + late


def test_an_idle_connection_is_looked_at_once_a_second() -> None:
    """Hundreds of clients keep a connection, and each look is a wake-up."""
    peer, looks = Peer(), 0
    while peer.loop.now < 20:
        assert peer.loop.due is not None
        peer.loop.run_until(peer.loop.due[0])
        looks += 1
    assert looks == 20


def test_a_busy_connection_never_expires() -> None:
    """Publishing has a time-out of its own."""
    peer = Peer()
    peer.state = (Phase.BUSY, None)
    peer.loop.run_until(1000)
    assert peer.expiries == []


def test_steps_forward_begin_the_time_anew() -> None:
    peer = Peer()
    for number in range(20):
        peer.state = (Phase.HEAD, number)
        peer.loop.run_until(peer.loop.now + 3)
    assert peer.expiries == []


def test_stop_leaves_no_timer() -> None:
    peer = Peer()
    peer.watch.stop()
    assert peer.loop.due is None
