"""SIGKILL of one process of several, judged by a verifier that shares no code with the service."""

from __future__ import annotations

import json
import os
import random
import signal
from pathlib import Path
from typing import Any

import pytest

from service_process import free_ports, until
from verifying import CONNECTIONS, Load, acknowledged, stored, verifying
from workers_service import WorkersService

pytestmark = pytest.mark.nightly

WORKERS = 3
OWNER = 1
SHORT = Load(keys=100, per_key=10, kills=2, deadline=600)
FULL = Load(keys=200, per_key=100, kills=30, deadline=800)


def kill_and_verify(load: Load, folder: Path) -> tuple[dict[str, Any], dict[str, Any], int]:
    """The verifier's reports, of the webhook and of the log's own file, and how often it repeated."""
    seed = int(os.environ.get("SKYBRIDGE_SEED") or random.SystemRandom().randrange(10**9))
    print(f"SKYBRIDGE_SEED={seed}")
    chance = random.Random(seed)
    moments = sorted(chance.sample(range(1, load.events), load.kills))
    (webhook,) = free_ports(1)
    subscription = {
        "id": "verifier",
        "source": {"broker": "log", "topics": ["events"]},
        "start": "earliest",
        "sink": f"http://127.0.0.1:{webhook}/",
        "handshake": "off",
        "retry": {"schedule": ["20ms", "50ms", "100ms", "1s", "1s", "1s"], "hold": 6},
    }
    service = WorkersService(folder, WORKERS, subscriptions=[subscription])
    journal = folder / "acknowledged"
    journal.touch()
    service.process.start()
    with verifying(load, journal, service.events, webhook) as process:
        for n, moment in enumerate(moments):
            until(lambda at=moment: acknowledged(journal) >= at, load.deadline, f"event {moment}")
            service.until_all_up()
            victim = OWNER if n % 2 else chance.randrange(OWNER, WORKERS + 1)
            pid = service.pids()[victim - 1]
            os.kill(pid, signal.SIGKILL)
            service.until_all_up(other_than=pid)
        posted = json.loads(process.stdout.readline())
        assert service.process.stop() == 0
        process.stdin.close()
        delivered = json.loads(process.stdout.readline())
    print(posted, delivered)
    assert posted["in_time"], delivered
    return delivered, stored(folder / "log", journal), posted["repeats"]


def assert_kept(
    load: Load, delivered: dict[str, Any], stored: dict[str, Any], repeats: int
) -> None:
    assert delivered["acknowledged"] == stored["acknowledged"] == load.events
    assert (delivered["lost"], stored["lost"]) == (0, 0)
    assert (delivered["order_breaks"], stored["order_breaks"]) == (0, 0)
    assert (delivered["unacknowledged"], stored["unacknowledged"]) == (0, 0)
    # What is stored twice was repeated by its sender, or was on its way to the log when that died.
    assert stored["duplicated"] <= repeats + load.kills * CONNECTIONS


@pytest.mark.fault
def test_kills_of_a_gateway_process_and_of_the_owner_lose_nothing_and_keep_order(tmp_path):
    """Acknowledged means kept, whichever process took it and whichever died (reliability G1, G3, R3, R18)."""
    assert_kept(SHORT, *kill_and_verify(SHORT, tmp_path))


@pytest.mark.fault
@pytest.mark.nightly
@pytest.mark.timeout(1000)
def test_thirty_kills_of_processes_in_20000_events_lose_nothing_and_keep_order(tmp_path):
    """The full count of the same claim (reliability G1, G3, R3, R18)."""
    assert_kept(FULL, *kill_and_verify(FULL, tmp_path))
