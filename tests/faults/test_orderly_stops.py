"""SIGTERM at random moments under a hundred open connections, judged by the verifier (issue 9)."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from restarting_service import end_and_verify
from service_process import ServiceProcess
from verifier_process import Load

pytestmark = pytest.mark.fault

GRACE = 26.0 + 30.0  # seconds: time to be unready, the drain bound, and what a busy machine adds
SHORT = Load(keys=100, per_key=10, kills=2, connections=100)
FULL = Load(keys=200, per_key=500, kills=100, connections=100)


def stop_and_verify(load: Load, folder: Path) -> None:
    """What the service has handled, its client has heard of: nothing is stored that was not answered, so that
    no sender repeats anything; and nothing that was answered is lost (reliability G1, G3, R4)."""
    slowest = 0.0

    def stop(service: ServiceProcess) -> None:
        nonlocal slowest
        began = time.monotonic()
        assert service.stop() == 0
        slowest = max(slowest, time.monotonic() - began)

    delivered, stored = end_and_verify(load, folder, stop)
    print(f"the slowest of {load.kills} stops took {slowest:.1f} s")
    assert slowest < GRACE
    assert delivered["acknowledged"] == stored["acknowledged"] == load.events
    assert (delivered["lost"], stored["lost"]) == (0, 0)
    assert (stored["duplicated"], stored["unacknowledged"]) == (0, 0), "handled, and not answered"
    assert (delivered["duplicated"], delivered["order_breaks"]) == (0, 0), "sent, and not noted"


def test_two_stops_under_load_lose_nothing_and_answer_all_they_handle(tmp_path: Path) -> None:
    stop_and_verify(SHORT, tmp_path)


@pytest.mark.nightly
@pytest.mark.timeout(0)  # each wait ends when nothing moves
def test_a_hundred_stops_under_load_lose_nothing_and_answer_all_they_handle(tmp_path: Path) -> None:
    """The full count of the same claim."""
    stop_and_verify(FULL, tmp_path)
