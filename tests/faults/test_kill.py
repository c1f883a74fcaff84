"""SIGKILL at random moments, judged by a verifier that shares no code with the service."""

from __future__ import annotations

import json
import os
import random
from pathlib import Path
from typing import Any

import pytest

from service_process import ServiceProcess, free_ports, until
from verifying import CONNECTIONS, Load, acknowledged, stored, verifying

CONCURRENCY = 64  # deliveries in flight
COMMIT_EVERY = 1.0  # seconds

CONFIG = """
version: 1
installation: killed
server:
  events: {{host: 127.0.0.1, port: {events}}}
  admin: {{host: 127.0.0.1, port: {admin}}}
store: {{kind: sqlite, path: {folder}/store.db}}
brokers:
  log: {{kind: embedded, path: {folder}/log}}
routes:
  - name: everything
    to: {{broker: log, topic: events}}
subscriptions:
  - id: verifier
    source: {{broker: log, topics: [events]}}
    start: earliest
    sink: http://127.0.0.1:{webhook}/
    concurrency: {concurrency}
    retry: {{schedule: [20ms, 50ms, 100ms, 1s, 1s, 1s], hold: 6}}
webhooks: {{allow_private: ["127.0.0.0/8"]}}
timeouts: {{not_ready: 0s}}
"""


SHORT = Load(keys=100, per_key=20, kills=3, deadline=400)
FULL = Load(keys=200, per_key=100, kills=20, deadline=400)


def kill_and_verify(load: Load, folder: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """The verifier's reports: of the webhook, and of the log's own file."""
    seed = int(os.environ.get("SKYBRIDGE_SEED") or random.SystemRandom().randrange(10**9))
    print(f"SKYBRIDGE_SEED={seed}")
    moments = sorted(random.Random(seed).sample(range(1, load.events), load.kills))
    events, admin, webhook = free_ports(3)
    config, journal = folder / "skybridge.yaml", folder / "acknowledged"
    config.write_text(
        CONFIG.format(
            events=events, admin=admin, webhook=webhook, folder=folder, concurrency=CONCURRENCY
        )
    )
    journal.touch()
    service = ServiceProcess(config, folder, admin)
    service.start()
    with verifying(load, journal, events, webhook) as process:
        for moment in moments:
            until(lambda at=moment: acknowledged(journal) >= at, load.deadline, f"event {moment}")
            service.kill()
            service.start()
        posted = json.loads(process.stdout.readline())
        assert service.stop() == 0
        process.stdin.close()
        delivered = json.loads(process.stdout.readline())
    print(posted, delivered)
    assert posted["in_time"], delivered
    return delivered, stored(folder / "log", journal)


def assert_kept(load: Load, delivered: dict[str, Any], stored: dict[str, Any]) -> None:
    assert delivered["acknowledged"] == stored["acknowledged"] == load.events
    assert (delivered["lost"], stored["lost"]) == (0, 0)
    assert (delivered["order_breaks"], stored["order_breaks"]) == (0, 0)
    # A kill may leave one event a connection stored without its answer; the sender repeats it.
    assert stored["duplicated"] <= load.kills * CONNECTIONS
    # Rule 2: what was in flight, and what was finished since the last commit, comes again.
    open_at_a_kill = CONCURRENCY + delivered["busiest_second"] * COMMIT_EVERY
    assert delivered["duplicated"] <= stored["duplicated"] + load.kills * open_at_a_kill


@pytest.mark.fault
def test_three_kills_in_2000_events_lose_nothing_and_keep_the_order_of_every_key(tmp_path):
    """Acknowledged means kept, through SIGKILL at any moment (reliability G1, G3, R3, R4)."""
    assert_kept(SHORT, *kill_and_verify(SHORT, tmp_path))


@pytest.mark.fault
@pytest.mark.long
def test_twenty_kills_in_20000_events_lose_nothing_and_keep_the_order_of_every_key(tmp_path):
    """The full count of the same claim (reliability G1, G3, R3, R4)."""
    assert_kept(FULL, *kill_and_verify(FULL, tmp_path))
