"""The targets that the publisher uses. Each target is looked up once per connection, and then remembered."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from functools import partial

from app.brokers.portable import Submission
from app.brokers.rabbitmq.connection import RabbitConnection
from app.brokers.rabbitmq.errors import translate
from app.brokers.rabbitmq.frames import publish_method
from app.brokers.rabbitmq.settings import RabbitSettings
from app.brokers.rabbitmq.topology import RabbitTarget, Topology
from app.brokers.topic_resolver import BOUND, TopicResolver
from app.errors import BrokerError, BrokerUnavailable
from app.model.receipt import Receipt
from app.routing.partitions import partition_of

log = logging.getLogger(__name__)

ALL = ""
PAUSE_FACTOR = 20  # a pause is so many times as long as the count before it
MOST_METHODS = 1_000  # frames that one target keeps
RECREATE_EVERY = 1.0  # seconds between attempts to create the queues of one topic again


class TargetPartitions:
    """The partitions of one target: the frame and the receipt of each, and the partition that records without
    a key use now."""

    __slots__ = ("found_on", "keyless", "methods", "receipts", "target")

    def __init__(self, broker: str, target: RabbitTarget, found_on: int) -> None:
        self.target = target
        self.found_on = found_on  # number of the connection on which the target was looked up
        self.keyless = 0
        self.receipts = [
            Receipt(broker, target.topic, number, "") for number in range(len(target.routing_keys))
        ]
        self.methods: dict[tuple[int, int], bytes] = {}  # by the numbers of channel and partition

    def method(self, channel: int, partition: int) -> bytes:
        """Return the frame of the publish method for one partition."""
        place = channel, partition
        found = self.methods.get(place)
        if found is None:
            if len(self.methods) >= MOST_METHODS:
                self.methods.clear()
            target = self.target
            found = publish_method(channel, target.exchange, target.routing_keys[partition])
            self.methods[place] = found
        return found

    def partition(self, key: bytes | None) -> int:
        """Return the partition for a key. Records without a key stay on one partition until the next
        submission."""
        return self.keyless if key is None else partition_of(key, len(self.receipts))

    def grow(self, count: int) -> None:
        """Add partitions that were found later, so that there are ``count``."""
        target = self.target
        numbers = range(len(self.receipts), count)
        broker = self.receipts[0].broker
        self.receipts += [Receipt(broker, target.topic, number, "") for number in numbers]
        keys = target.routing_keys + tuple(map(str, numbers))
        self.target = RabbitTarget(target.topic, target.exchange, keys)

    def move_on(self) -> None:
        self.keyless = (self.keyless + 1) % len(self.receipts)


class RabbitTargets(TopicResolver[TargetPartitions]):
    """The targets of one cluster that the publisher has looked up, through the connection in use."""

    def __init__(
        self,
        settings: RabbitSettings,
        topology: Topology,
        join: Callable[[TargetPartitions, Submission], None],
    ) -> None:
        """Create the targets. ``join`` publishes a submission that waited for its target to be found."""
        super().__init__(settings.name, self._find, join, translate, remember_outages=False)
        self.known: dict[str, TargetPartitions] = {}
        self.connection: RabbitConnection | None = None
        self._settings = settings
        self._topology = topology
        self._looked = 0.0

    def refuse(self, name: str, error: BrokerError) -> None:
        """Fail the waiting submissions of a target, and new ones for the next two seconds. Forget the
        target."""
        self.known.pop(name, None)
        super().refuse(name, error)

    def forget(self, exchange: str) -> None:
        """Forget the targets of an exchange. The next submission looks them up again."""
        for name, batchers in list(self.known.items()):
            if batchers.target.exchange == exchange:
                del self.known[name]

    def refresh_if_due(self) -> None:
        """Count the queues of the topics in use again if that is due. Does not wait."""
        now = asyncio.get_running_loop().time()
        if now - self._looked >= self._settings.metadata_age:
            self._looked = now
            self.work_on(ALL, self._refresh)

    def on_returned(self, exchange: str) -> None:
        """Create the queues of a topic again, because a record was returned. Do nothing if the settings
        forbid that.

        The broker returns a record if a queue or its binding is missing.
        """
        for name, batchers in self.known.items():
            if batchers.target.exchange == exchange and batchers.target.is_numbered:
                self._topology.expire(name)
                if self.is_recreated(batchers):
                    self.work_on(name, partial(self._recreate, name))

    def is_recreated(self, batchers: TargetPartitions) -> bool:
        """Return True if Skybridge creates missing queues of the target again."""
        target = batchers.target
        return target.is_numbered and self._topology.recreates(target.topic)

    async def _refresh(self) -> None:
        """Count the queues of all topics in use. A failed request changes nothing.

        Topic templates may produce a thousand topics, so the count pauses between topics.
        """
        age, now = self._settings.metadata_age / 2, asyncio.get_running_loop().time
        for name, batchers in list(self.known.items()):
            connection = self.connection
            if connection is None or not batchers.target.is_numbered:
                continue
            begun = now()
            try:
                async with asyncio.timeout(self._settings.request_timeout):
                    layout = await self._topology.layout(connection, name, age=age)
            except Exception as error:  # noqa: BLE001 - the next count tries again
                log.info("topic %s: its queues could not be counted: %r", name, error)
            else:
                self._resize(name, batchers, layout.count)
            await asyncio.sleep(PAUSE_FACTOR * (now() - begun))

    async def _recreate(self, name: str) -> None:
        try:
            if self.connection is not None:
                async with asyncio.timeout(self._settings.request_timeout):
                    await self._topology.recreate(self.connection, name)
        except Exception as error:  # noqa: BLE001 - submissions to the topic get the error
            log.warning("topic %s: its queues could not be created again: %r", name, error)
            self.refuse(name, self._meaning(name, error))
        await asyncio.sleep(RECREATE_EVERY)  # so that a failed attempt is not repeated at once

    def _resize(self, name: str, batchers: TargetPartitions, count: int) -> None:
        if count > len(batchers.receipts):
            batchers.grow(count)
        elif count < len(batchers.receipts) and self.known.get(name) is batchers:
            del self.known[name]  # the topic was created again; the next submission looks it up

    async def _find(self, name: str) -> TargetPartitions:
        connection = self.connection
        if connection is None:
            raise BrokerUnavailable("not connected", broker=self._settings.name)
        async with asyncio.timeout(self._settings.request_timeout):
            target = await self._topology.find(connection, name)
        if len(self.known) >= BOUND:
            self.known.clear()
        batchers = self.known[name] = TargetPartitions(
            self._settings.name, target, connection.number
        )
        return batchers
