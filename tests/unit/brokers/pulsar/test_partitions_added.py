"""Partitions of which Pulsar speaks and that a member has no seat at yet."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from app.brokers.driver import JoinRequest
from app.brokers.pulsar.admin import PulsarAdmin
from app.brokers.pulsar.answers import PartitionStats
from app.brokers.pulsar.consumer import PulsarConsumer
from app.brokers.pulsar.ownership import OwnershipChecker
from app.brokers.pulsar.settings import PulsarSettings
from app.model.start import EARLIEST

WIRE = "persistent://public/default/t"


async def test_one_that_the_broker_is_silent_about_hides_none_behind_it() -> None:
    """It has statistics of partitions that were made and are there: 0 and 3 of 4."""
    settings = PulsarSettings(
        name="pulsar", service_url="pulsar://127.0.0.1:1", admin_url="http://127.0.0.1:1"
    )
    admin = PulsarAdmin(settings)
    connection: Any = SimpleNamespace(bridge=None)
    joining = JoinRequest("g", ["t"], EARLIEST)
    consumer = PulsarConsumer(
        settings, admin, connection, OwnershipChecker(settings, admin), joining
    )
    opened: list[str] = []

    async def opening(owned: Any) -> None:
        opened.append(owned.wire)

    consumer._open = opening
    stats = {f"{WIRE}-partition-{number}": PartitionStats() for number in (0, 3)}
    assert await consumer.apply_ownership("t", stats, 0.0)
    assert opened == list(stats)
    assert not await consumer.apply_ownership("t", {WIRE: PartitionStats()}, 0.0)
