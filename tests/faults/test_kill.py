"""SIGKILL at random moments, judged by a verifier that shares no code with the service."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from disturbed import COMMIT_EVERY, CONCURRENCY, end_and_verify
from service_process import ServiceProcess
from verifying import Load

SHORT = Load(keys=100, per_key=10, kills=2, deadline=600)
FULL = Load(keys=200, per_key=100, kills=20, deadline=400)


def kill_and_verify(load: Load, folder: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    return end_and_verify(load, folder, ServiceProcess.kill)


def assert_kept(load: Load, delivered: dict[str, Any], stored: dict[str, Any]) -> None:
    assert delivered["acknowledged"] == stored["acknowledged"] == load.events
    assert (delivered["lost"], stored["lost"]) == (0, 0)
    assert (delivered["order_breaks"], stored["order_breaks"]) == (0, 0)
    # A kill may leave one event a connection stored without its answer; the sender repeats it.
    assert stored["duplicated"] <= load.kills * load.connections
    # Rule 2: what was in flight, and what was finished since the last commit, comes again.
    open_at_a_kill = CONCURRENCY + delivered["busiest_second"] * COMMIT_EVERY
    assert delivered["duplicated"] <= stored["duplicated"] + load.kills * open_at_a_kill


@pytest.mark.fault
def test_two_kills_in_1000_events_lose_nothing_and_keep_the_order_of_every_key(tmp_path):
    """Acknowledged means kept, through SIGKILL at any moment (reliability G1, G3, R3, R4)."""
    assert_kept(SHORT, *kill_and_verify(SHORT, tmp_path))


@pytest.mark.fault
@pytest.mark.long
def test_twenty_kills_in_20000_events_lose_nothing_and_keep_the_order_of_every_key(tmp_path):
    """The full count of the same claim (reliability G1, G3, R3, R4)."""
    assert_kept(FULL, *kill_and_verify(FULL, tmp_path))
