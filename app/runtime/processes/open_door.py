"""The door as the owner of the log keeps it: a Kafka listener on the socket that the parent holds."""

from __future__ import annotations

import asyncio
import logging

from app.brokers.embedded import EmbeddedDriver
from app.brokers.portable import PortableLog
from app.interfaces import Clock
from app.kafka_listener.gate import CloudEventsGate
from app.kafka_listener.node import Node, Settings
from app.kafka_listener.sasl import Logins
from app.kafka_listener.server import KafkaListener
from app.runtime.processes.door import LARGEST, LOOPBACK, MECHANISM, USER, Door
from app.telemetry import Counters

GONE = 0.02  # seconds between looks at who is still connected

_log = logging.getLogger(__name__)


class OpenDoor:
    """Listens until ``stop``."""

    def __init__(self, server: KafkaListener) -> None:
        self._server = server

    async def stop(self, drain: float) -> None:
        """When the gateway processes have published what they took, or ``drain`` seconds are over."""
        try:
            async with asyncio.timeout(drain):
                while self._server.connections:  # noqa: ASYNC110 - it tells nobody
                    await asyncio.sleep(GONE)
        except TimeoutError:
            _log.warning("gateway processes are still connected to the log, which closes")
        await self._server.stop(1.0)


async def open_door(log: PortableLog, door: Door, clock: Clock) -> OpenDoor:
    """Of a log that has started. What passes is counted where it came in, not here."""
    driver = log.driver
    assert isinstance(driver, EmbeddedDriver)  # noqa: S101 - only these have doors
    node = Node(
        engine=driver.engine,
        coordinator=driver.coordinator,
        gate=CloudEventsGate([]),
        clock=clock,
        settings=Settings(host=LOOPBACK, port=0, max_batch=LARGEST),
        cluster=driver.engine.cluster,
        counters=Counters(),
        logins=await asyncio.to_thread(Logins, {USER: door.password}, (MECHANISM,)),
    )
    server = KafkaListener(node, bound=door.bound)
    await server.start()
    return OpenDoor(server)
