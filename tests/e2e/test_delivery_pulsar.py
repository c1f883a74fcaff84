"""From HTTP over a real Pulsar to a webhook: the service as a process, killed and restarted."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from delivery_installation import Installation
from delivery_scenarios import DeliveryScenarios
from webhook_target import WebhookTarget

pytestmark = [pytest.mark.pulsar, pytest.mark.fault]


@pytest.fixture
def house(tmp_path: Path, pulsar: tuple[str, str], target: WebhookTarget) -> Iterator[Installation]:
    service_url, admin_url = pulsar
    broker = {"kind": "pulsar", "service_url": service_url, "admin_url": admin_url}
    house = Installation(tmp_path, broker, target)
    yield house
    house.close()


@pytest.fixture
def apart(house: Installation) -> Installation:
    """Every subscription of Pulsar sees everything."""
    return house


class TestPulsar(DeliveryScenarios):
    """Partitioned topics under Failover subscriptions."""
