"""Which targets there are: asked once each, and remembered; remembered for the wire they were found on."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from functools import partial

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

log = logging.getLogger(__name__)

ALL = ""
RESTS = 20  # times what a look took
MENDED_FOR = 1.0  # seconds between attempts to make the queues of one topic again


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

    def grow(self, count: int) -> None:
        """Take partitions in that were found later."""
        target = self.target
        numbers = range(len(self.receipts), count)
        broker = self.receipts[0].broker
        self.receipts += [Receipt(broker, target.topic, number, "") for number in numbers]
        keys = target.routing_keys + tuple(map(str, numbers))
        self.target = Target(target.topic, target.exchange, keys)
        self.channel = 0

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
        self._looked = 0.0

    def refuse(self, name: str, error: BrokerError) -> None:
        """Do not bother the broker with this target for a moment."""
        self.known.pop(name, None)
        super().refuse(name, error)

    def forget(self, exchange: str) -> None:
        """The next publisher to it asks, and is told for certain."""
        for name, batchers in list(self.known.items()):
            if batchers.target.exchange == exchange:
                del self.known[name]

    def look(self) -> None:
        """Count the queues of the topics in use again, where that is due. Does not wait."""
        now = asyncio.get_running_loop().time()
        if now - self._looked >= self._settings.metadata_age:
            self._looked = now
            self.work_on(ALL, self._refresh)

    def came_back(self, exchange: str) -> None:
        """Make the queues of the topic again, where the settings say so: a record was returned from there, so one
        is gone, or its binding."""
        for name, batchers in self.known.items():
            if batchers.target.exchange == exchange and batchers.target.is_numbered:
                self._topology.expire(name)
                if self.is_made(batchers):
                    self.work_on(name, partial(self._mend, name))

    def is_made(self, batchers: Batchers) -> bool:
        """Return True if queues that are missing there are made again by us."""
        target = batchers.target
        return target.is_numbered and self._topology.makes(target.topic)

    async def _refresh(self) -> None:
        """Count queues that may have come or gone. A failed question changes nothing. Templates may have made a thousand
        topics, so this rests for most of the time."""
        age, now = self._settings.metadata_age / 2, asyncio.get_running_loop().time
        for name, batchers in list(self.known.items()):
            wire = self.wire
            if wire is None or not batchers.target.is_numbered:
                continue
            begun = now()
            try:
                async with asyncio.timeout(self._settings.request_timeout):
                    layout = await self._topology.layout(wire, name, age=age)
            except Exception as error:  # noqa: BLE001 - the next look asks again, and so does a publisher
                log.info("the queues of topic %s were not counted: %r", name, error)
            else:
                self._resize(name, batchers, layout.count)
            await asyncio.sleep(RESTS * (now() - begun))

    async def _mend(self, name: str) -> None:
        try:
            if self.wire is not None:
                async with asyncio.timeout(self._settings.request_timeout):
                    await self._topology.mend(self.wire, name)
        except Exception as error:  # noqa: BLE001 - it is said to those who publish there
            log.warning("topic %s was not made again: %r", name, error)
            self.refuse(name, self._meaning(name, error))
        await asyncio.sleep(MENDED_FOR)  # where it did not help, it is not tried at once

    def _resize(self, name: str, batchers: Batchers, count: int) -> None:
        if count > len(batchers.receipts):
            batchers.grow(count)
        elif count < len(batchers.receipts) and self.known.get(name) is batchers:
            del self.known[name]  # the whole topic was made again; the next publisher asks

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
