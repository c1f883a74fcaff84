"""Stop and restart a service on its embedded log many times under the verifier's load."""

from __future__ import annotations

import json
import os
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

from configuration import configuration, route, subscription
from free_ports import free_ports
from service_process import ServiceProcess
from verifier_process import Load, count_acknowledged, report_on_log_file, running_verifier
from waiting import wait_until

CONCURRENCY = 64  # deliveries in flight
COMMIT_EVERY = 0.5  # seconds: the interval is 0.1, and a machine may be slow


def end_and_verify(
    load: Load,
    folder: Path,
    end: Callable[[ServiceProcess], object],
    begin: Callable[[ServiceProcess], object] = ServiceProcess.start,
    **more: Any,
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Run the verifier while the service ends at random moments, and return the reports of webhook
    and log file.

    Args:
        load: The verifier's load, with the count of endings as ``kills``.
        folder: The folder of the service and of the journal of acknowledged events.
        end: The function that ends the service.
        begin: The function that starts the service again.
        more: Further settings of the route.
    """
    seed = int(os.environ.get("SKYBRIDGE_SEED") or random.SystemRandom().randrange(10**9))
    print(f"SKYBRIDGE_SEED={seed}")
    moments = sorted(random.Random(seed).sample(range(1, load.events), load.kills))
    (webhook,), journal = free_ports(1), folder / "acknowledged"
    verifier = subscription(
        "verifier",
        f"http://127.0.0.1:{webhook}/",
        concurrency=CONCURRENCY,
        retry={"schedule": ["20ms", "50ms", "100ms", "1s", "1s", "1s"], "hold": 6},
    )
    settings = configuration(
        folder,
        installation="killed",
        routes=[route(name="everything", **more)],
        subscriptions=[verifier],
        timeouts={"drain": None},
    )
    journal.touch()
    service = ServiceProcess(settings, folder)
    begin(service)
    with running_verifier(load, journal, service.events_port, webhook) as process:
        for moment in moments:
            wait_until(
                lambda at=moment: count_acknowledged(journal) >= at,
                f"event {moment}",
                moved=lambda: count_acknowledged(journal),
            )
            end(service)
            begin(service)
        posted = json.loads(process.stdout.readline())
        assert service.stop() == 0
        process.stdin.close()
        delivered = json.loads(process.stdout.readline())
    print(posted, delivered)
    assert posted["in_time"], delivered
    return delivered, report_on_log_file(folder / "log", journal)
