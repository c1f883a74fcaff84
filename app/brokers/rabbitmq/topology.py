"""What a topic is on RabbitMQ: an exchange, and a queue for each partition (ADR 0013).

A plain name (``orders``) is ours: the direct exchange ``orders``, and behind it the queues
``orders.0`` to ``orders.7``, bound by their numbers; a record goes to the number that murmur2 of its
key gives, as on every log. Two more spellings reach what others made:

``queue:NAME``                   that queue, as a topic of one partition
``exchange:NAME:ROUTING KEY``    publish there; the broker's bindings decide where it goes
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from typing import Any

import msgspec
from aio_pika import ExchangeType
from aio_pika.abc import AbstractChannel

from app.brokers.asking import unknown_topic
from app.brokers.rabbitmq.aiormq_adapter import amqp
from app.brokers.rabbitmq.connection import Wire
from app.brokers.rabbitmq.errors import is_out_of_reach, unequal_argument, words
from app.brokers.rabbitmq.settings import RabbitSettings
from app.errors import BrokerError, BrokerRefused, BrokerUnavailable
from app.routing.places import EXCHANGE, QUEUE

log = logging.getLogger(__name__)

HASH = ExchangeType.X_CONSISTENT_HASH
_NO_LIMIT_SINCE = (4, 0)  # before, no limit was the default and could not be said


class Target(msgspec.Struct, frozen=True):
    """Where records of a topic go: ``routing_keys`` has one for each partition."""

    topic: str
    exchange: str
    routing_keys: tuple[str, ...]

    @property
    def is_seen_whole(self) -> bool:
        """Whether its queues were asked for, and not its exchange alone."""
        return not self.topic.startswith(EXCHANGE)


def parse_exchange(topic: str) -> tuple[str, str] | None:
    """Exchange and routing key of the text of a target ``{exchange, routing_key}``."""
    if not topic.startswith(EXCHANGE):
        return None
    exchange, _, routing_key = topic.removeprefix(EXCHANGE).partition(":")
    return exchange, routing_key


class Topology:
    """Names, and how they are declared. Raises what aio-pika raises, or BrokerRefused."""

    def __init__(self, settings: RabbitSettings) -> None:
        self._settings = settings
        self.warnings: dict[str, str] = {}  # by queue; for ``check`` and for the log
        self._making: dict[str, asyncio.Event] = {}  # topics of which not all queues are there yet

    @property
    def by_group(self) -> bool:
        """Whether each group has queues of its own."""
        return "{group}" in self._settings.queue

    def queue(self, topic: str, partition: int, group: str) -> str:
        if topic.startswith(QUEUE):
            return topic.removeprefix(QUEUE)
        text = self._settings.queue
        for name, value in (("topic", topic), ("partition", partition), ("group", group)):
            text = text.replace(f"{{{name}}}", str(value))
        return text

    async def find(self, wire: Wire, topic: str) -> Target:
        """Where a topic's records go; made first where the settings say so."""
        named = parse_exchange(topic)
        if named is not None:
            await self._exchange_is_there(wire, named[0])
            return Target(topic, named[0], (named[1],))
        count = await self.partitions(wire, topic)
        if topic.startswith(QUEUE):
            return Target(topic, "", (topic.removeprefix(QUEUE),))
        return Target(topic, topic, tuple(str(number) for number in range(count)))

    async def lacks(self, wire: Wire, topic: str) -> str:
        """What is missing for records of a topic to be kept; empty when nothing is, or when it is made
        by the first of them. Makes nothing. Whether an exchange has a binding is told to nobody."""
        named = parse_exchange(topic)
        try:
            if named is not None and not named[0]:  # the default exchange: the key is a queue
                await self.depth(wire, named[1])
            elif named is not None:
                await self._exchange_is_there(wire, named[0])
            elif topic.startswith(QUEUE):
                await self.depth(wire, self.queue(topic, 0, ""))
            elif not self._settings.create_topics:
                await self._exchange_is_there(wire, topic)
                if not self.by_group:
                    await self._count(wire, topic)
        except BrokerRefused as error:
            if error.kind != "unknown-topic":
                raise
            return str(error)
        return ""

    async def queues_there(self, wire: Wire, topic: str) -> list[str]:
        """The queues of a topic that groups share, as far as they are there. Makes nothing."""
        if topic.startswith(EXCHANGE) or (self.by_group and not topic.startswith(QUEUE)):
            return []
        try:
            if topic.startswith(QUEUE):
                await self.depth(wire, self.queue(topic, 0, ""))
                return [self.queue(topic, 0, "")]
            return [self.queue(topic, n, "") for n in range(await self._count(wire, topic))]
        except BrokerRefused:
            return []

    async def partitions(self, wire: Wire, topic: str, group: str = "") -> int:
        """How many there are. BrokerRefused for a topic that is not there and may not be made."""
        if topic.startswith(EXCHANGE):
            raise BrokerRefused(f"{topic} can only be published to", kind="not-capable")
        if topic.startswith(QUEUE):
            await self.depth(wire, self.queue(topic, 0, group))
            return 1
        try:
            await self._exchange_is_there(wire, topic)
        except BrokerRefused:
            if not self._settings.create_topics:
                raise
            await self.create(wire, topic, self._settings.partitions)
        if self.by_group:
            return self._settings.partitions
        if (
            making := self._making.get(topic)
        ) is not None:  # else only those made so far were counted
            await making.wait()
        return await self._count(wire, topic)

    async def create(self, wire: Wire, topic: str, partitions: int) -> None:
        """No error when it is there already; what is there stays as it is."""
        self._making[topic] = making = asyncio.Event()
        try:
            await self._create(wire, topic, partitions)
        finally:
            making.set()
            if self._making.get(topic) is making:
                del self._making[topic]

    async def _create(self, wire: Wire, topic: str, partitions: int) -> None:
        async with wire.throwaway() as channel:
            await channel.declare_exchange(topic, ExchangeType.DIRECT, durable=True)
            if self._settings.kind == "quorum":
                await self._declare_dead_letters(channel, topic)
            if self._settings.hash_exchange:
                await self._declare_hash_exchange(channel, topic)
        if not self.by_group:
            await self.declare_queues(wire, topic, partitions, "")

    async def declare_queues(self, wire: Wire, topic: str, partitions: int, group: str) -> None:
        for number in range(partitions):
            queue = self.queue(topic, number, group)
            await self._declare_queue(wire, topic, queue)
            async with wire.throwaway() as channel:
                bound = await channel.get_queue(queue, ensure=False)
                await bound.bind(topic, str(number))
                if self._settings.hash_exchange:
                    await bound.bind(f"{topic}.hash", "1")

    async def inspect(self, wire: Wire, topic: str, queues: Sequence[str]) -> None:
        """Warn of queues that others made and that do not keep our promises: only a declaration that
        differs makes the broker tell how they were declared."""
        for queue in queues:
            try:
                await self._declare_queue(wire, topic, queue)
            except amqp.ChannelAccessRefused:  # only its owner may ask
                return

    async def depth(self, wire: Wire, queue: str) -> tuple[int, int]:
        """Messages ready, and consumers. BrokerRefused when it is not there."""
        try:
            return await wire.depth(queue)
        except amqp.ChannelNotFoundEntity as error:
            raise self._missing(f"queue {queue}", error) from error

    def arguments(self, wire: Wire, topic: str) -> dict[str, Any]:
        """Of a queue of ours: one active consumer, a dead-letter target, no delivery limit."""
        if self._settings.kind == "stream":
            return {"x-queue-type": "stream"}
        arguments: dict[str, Any] = {
            "x-queue-type": "quorum",
            "x-single-active-consumer": True,
            "x-dead-letter-exchange": "",
            "x-dead-letter-routing-key": self._dead_letters(topic),
        }
        if wire.version >= _NO_LIMIT_SINCE:
            arguments["x-delivery-limit"] = -1  # from then on a limit is the default
        return arguments

    async def _declare_queue(self, wire: Wire, topic: str, queue: str) -> None:
        try:
            async with wire.throwaway() as channel:
                arguments = self.arguments(wire, topic)
                await channel.declare_queue(queue, durable=True, arguments=arguments)
        except amqp.ChannelPreconditionFailed as error:
            argument = unequal_argument(error)
            if argument is None:
                raise
            self._warn(queue, f"queue {queue} already exists with another {argument}: {error}")

    def _warn(self, queue: str, text: str) -> None:
        if self.warnings.get(queue) != text:
            log.warning("%s", text)
        self.warnings[queue] = text

    async def _declare_dead_letters(self, channel: AbstractChannel, topic: str) -> None:
        await channel.declare_queue(
            self._dead_letters(topic), durable=True, arguments={"x-queue-type": "quorum"}
        )

    async def _declare_hash_exchange(self, channel: AbstractChannel, topic: str) -> None:
        arguments: dict[str, Any] = {"hash-header": "x-skybridge-key"}
        await channel.declare_exchange(f"{topic}.hash", HASH, durable=True, arguments=arguments)

    async def _exchange_is_there(self, wire: Wire, exchange: str) -> None:
        if not exchange:
            return  # the default exchange cannot be asked for, and is always there
        try:
            async with wire.throwaway() as channel:
                await channel.declare_exchange(exchange, passive=True)
        except amqp.ChannelNotFoundEntity as error:
            raise self._missing(f"exchange {exchange}", error) from error

    async def _count(self, wire: Wire, topic: str) -> int:
        """Queues are numbered without gaps, so the first that is missing is the count."""
        count = 0
        try:
            async with wire.throwaway() as channel:
                while True:
                    await channel.declare_queue(self.queue(topic, count, ""), passive=True)
                    count += 1
        except amqp.ChannelNotFoundEntity as error:
            if count and not is_out_of_reach(error):
                return count
            raise self._missing(f"queue {self.queue(topic, count, '')}", error) from error

    def _dead_letters(self, topic: str) -> str:
        return self._settings.dead_letters.replace("{topic}", topic)

    def _missing(self, what: str, error: amqp.ChannelNotFoundEntity) -> BrokerError:
        """For now, where the node that has it is down."""
        name = self._settings.name
        if is_out_of_reach(error):
            return BrokerUnavailable(f"RabbitMQ {name} answered: {words(error)}", broker=name)
        return unknown_topic("RabbitMQ", name, what)
