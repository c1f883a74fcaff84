"""Run a worker in the test's process, on its own log and store, with a target on loopback."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from app.interfaces import Log, Store
from app.interfaces.clock import SystemClock
from app.model.subscription import Subscription
from app.telemetry import Counters
from app.worker.supervisor import Supervisor
from webhook_target import to_loopback


def supervisor_of(
    document: Mapping[str, Any], log: Log, store: Store, counters: Counters
) -> Supervisor:
    """Return a supervisor of one subscription to a webhook on loopback; ``log`` is its broker."""
    return Supervisor(
        [Subscription.model_validate(document)],
        {"log": log},
        store,
        to_loopback,
        SystemClock(),
        counters,
        installation="e2e",
        kinds={"log": "embedded"},
    )
