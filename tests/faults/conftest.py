"""A webhook and its own account, for every test that kills who delivers to it; probes that take their time."""

from __future__ import annotations

import pytest

from app.brokers.kafka import connection as kafka
from app.brokers.pulsar import admin as pulsar
from app.brokers.rabbitmq import connection as rabbitmq
from contract_tools import ANSWERED_WITHIN
from delivery_fixtures import ledger, target

__all__ = ["ledger", "target"]


@pytest.fixture
def patient_probes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two seconds are for readiness. Where a test claims what a broker says, and not how soon, its words must
    not be lost because the machine stood still."""
    for driver in (kafka, pulsar, rabbitmq):
        monkeypatch.setattr(driver, "PROBE_WITHIN", ANSWERED_WITHIN)
