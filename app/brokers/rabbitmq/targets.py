"""Which targets there are: asked once each, and remembered; remembered for the wire they were found on."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from app.brokers.asking import BOUND, Asking
from app.brokers.portable import Submission
from app.brokers.rabbitmq.connection import Wire
from app.brokers.rabbitmq.errors import translate
from app.brokers.rabbitmq.frames import publish_method
from app.brokers.rabbitmq.settings import RabbitSettings
from app.brokers.rabbitmq.topology import Target, Topology
from app.errors import BrokerError, BrokerUnavailable
from app.model.receipt import Receipt
from app.routing.partitions import partition_of


class Batchers:
    """One target in use: what each of its partitions answers, and which takes records without a key."""

    __slots__ = ("channel", "found_on", "keyless", "methods", "receipts", "target")

    def __init__(self, broker: str, target: Target, found_on: int) -> None:
        self.target = target
        self.found_on = found_on  # number of the wire: behind another its queues may not be up
        self.keyless = 0
        self.receipts = [
            Receipt(broker, target.topic, number, "") for number in range(len(target.routing_keys))
        ]
        self.channel = 0  # that ``methods`` are for; their bytes hold its number
        self.methods: list[bytes] = []

    def method(self, channel: int, partition: int) -> bytes:
        """The publish method of one partition."""
        if channel != self.channel:
            exchange = self.target.exchange
            keys = self.target.routing_keys
            self.methods = [publish_method(channel, exchange, key) for key in keys]
            self.channel = channel
        return self.methods[partition]

    def partition(self, key: bytes | None) -> int:
        """Records without a key stay on one partition until a batch leaves (sticky)."""
        return self.keyless if key is None else partition_of(key, len(self.receipts))

    def move_on(self) -> None:
        self.keyless = (self.keyless + 1) % len(self.receipts)


class Targets(Asking[Batchers]):
    """Finds targets through the connection in use."""

    def __init__(
        self,
        settings: RabbitSettings,
        topology: Topology,
        join: Callable[[Batchers, Submission], None],
    ) -> None:
        """``join`` gets the submissions that waited for their target to be found."""
        super().__init__(settings.name, self._find, join, translate, remember_outages=False)
        self.known: dict[str, Batchers] = {}
        self.wire: Wire | None = None
        self._settings = settings
        self._topology = topology

    def refuse(self, name: str, error: BrokerError) -> None:
        """Do not bother the broker with this target for a moment."""
        self.known.pop(name, None)
        super().refuse(name, error)

    def forget(self, exchange: str) -> None:
        """The next publisher to it asks, and is told for certain."""
        for name, batchers in list(self.known.items()):
            if batchers.target.exchange == exchange:
                del self.known[name]

    async def _find(self, name: str) -> Batchers:
        wire = self.wire
        if wire is None:
            raise BrokerUnavailable("not connected", broker=self._settings.name)
        async with asyncio.timeout(self._settings.request_timeout):
            target = await self._topology.find(wire, name)
        if len(self.known) >= BOUND:
            self.known.clear()
        batchers = self.known[name] = Batchers(self._settings.name, target, wire.number)
        return batchers
