"""A member whose broker is out of reach."""

from __future__ import annotations

import asyncio

from app.brokers.driver import JoinRequest
from app.brokers.pulsar.bridge import Bridge
from app.brokers.pulsar.consumer import PulsarConsumer
from app.brokers.pulsar.settings import PulsarSettings
from app.model.message import Partition
from app.model.start import EARLIEST

SETTINGS = PulsarSettings(
    name="pulsar",
    service_url="pulsar://127.0.0.1:1",
    admin_url="http://127.0.0.1:1",
    reconnect_within=-1.0,
)


class Connection:
    """Never answers."""

    def __init__(self) -> None:
        self.bridge = Bridge(asyncio.get_running_loop())
        self.asked: list[str] = []

    async def consumer(self, wire: str, _group: str, _name: str, _listener: object) -> None:
        self.asked.append(wire)
        await asyncio.Event().wait()


class Owners:
    async def leave(self, _member: object) -> None:
        """Nobody asks."""


async def test_a_partition_out_of_reach_keeps_nobody_waiting() -> None:
    """Owners are asked for all members in turn: a look that waits lets the leases of the others run
    out, and what they deliver stands still (rule 5)."""
    connection = Connection()
    consumer = PulsarConsumer(
        SETTINGS, None, connection, Owners(), JoinRequest("g", ["t"], EARLIEST, client_id="c")
    )
    wires = [f"t-partition-{number}" for number in range(3)]
    for number, wire in enumerate(wires):
        consumer._owned_at(Partition("t", number), wire)
    before = asyncio.all_tasks()
    async with asyncio.timeout(60):
        await consumer.check_connections()
        await asyncio.sleep(0)
        await consumer.check_connections()
        await asyncio.sleep(0)
        assert sorted(connection.asked) == wires, "each once, while it is under way"
        await consumer.close()
    assert asyncio.all_tasks() == before
