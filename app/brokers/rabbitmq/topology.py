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
from collections.abc import Iterable, Sequence

import msgspec

from app.brokers.asking import CREATE, unknown_topic
from app.brokers.rabbitmq.aiormq_adapter import amqp
from app.brokers.rabbitmq.connection import Wire
from app.brokers.rabbitmq.declarations import Declarations
from app.brokers.rabbitmq.errors import is_out_of_reach, words
from app.brokers.rabbitmq.layout import Layout, Layouts, Look
from app.brokers.rabbitmq.settings import RabbitSettings
from app.errors import BrokerError, BrokerRefused, BrokerUnavailable
from app.routing.places import EXCHANGE, QUEUE

log = logging.getLogger(__name__)

SETTLES = 0.5
"""Seconds before a queue that was deleted is made again. RabbitMQ 3.10 takes one that follows at once for the one
before: its consumers are not told of an end, and get nothing of the new one."""


class Target(msgspec.Struct, frozen=True):
    """Where records of a topic go: ``routing_keys`` has one for each partition."""

    topic: str
    exchange: str
    routing_keys: tuple[str, ...]

    @property
    def is_seen_whole(self) -> bool:
        """Whether its queues were asked for, and not its exchange alone."""
        return not self.topic.startswith(EXCHANGE)

    @property
    def is_numbered(self) -> bool:
        """Whether it is a topic of ours, whose queues have numbers."""
        return not self.topic.startswith((EXCHANGE, QUEUE))


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
        self.declared = Declarations(settings)
        self._unmade: dict[str, str] = {}  # by topic: why queues that are missing were not made
        self._layouts = Layouts(settings.metadata_age)

    def by_group(self, topic: str) -> bool:
        """Return True if each group has queues of its own. A queue that others made has one name."""
        return "{group}" in self._settings.queue and not topic.startswith(QUEUE)

    def makes(self, topic: str) -> bool:
        """Return True if queues that publishers miss are made again, and nothing has refused it."""
        shared = self._settings.create_topics and not self.by_group(topic)
        return shared and topic not in self._unmade

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
            await self._exchange_is_there(wire, named[0], topic)
            return Target(topic, named[0], (named[1],))
        layout = await self.layout(wire, topic)
        if topic.startswith(QUEUE):
            return Target(topic, "", (topic.removeprefix(QUEUE),))
        return Target(topic, topic, tuple(str(number) for number in range(layout.count)))

    async def lacks(self, wire: Wire, topic: str) -> str:
        """What is missing for records of a topic to be kept; empty when nothing is, or when it is made
        by the first of them. Makes nothing. Whether an exchange has a binding is told to nobody."""
        named = parse_exchange(topic)
        try:
            if named is not None and not named[0]:  # the default exchange: the key is a queue
                await self.depth(wire, named[1])
            elif named is not None:
                await self._exchange_is_there(wire, named[0], topic)
            elif topic.startswith(QUEUE):
                await self.depth(wire, self.queue(topic, 0, ""))
            elif not self._settings.create_topics:
                layout = await self.layout(wire, topic, age=self._settings.metadata_age)
                return self.missing_words(topic, layout.missing, "")
            else:
                return self._unmade.get(topic, "")
        except BrokerRefused as error:
            if error.kind != "unknown-topic":
                raise
            return str(error)
        return ""

    async def queues_there(self, wire: Wire, topic: str) -> list[str]:
        """The queues of a topic that groups share, as far as they are there. Makes nothing."""
        if topic.startswith(EXCHANGE) or self.by_group(topic):
            return []
        try:
            if topic.startswith(QUEUE):
                await self.depth(wire, self.queue(topic, 0, ""))
                return [self.queue(topic, 0, "")]
            found = await self._numbers(wire, topic, "", Look())
            return [self.queue(topic, number, "") for number in sorted(found)]
        except BrokerRefused:
            return []

    async def partitions(self, wire: Wire, topic: str, group: str = "") -> int:
        """Return how many partitions there are. Raises as ``layout``."""
        return (await self.layout(wire, topic, group)).count

    async def layout(self, wire: Wire, topic: str, group: str = "", *, age: float = 0.0) -> Layout:
        """Return the queues of a topic. Make those that are missing where the settings say so. What was
        seen in the last ``age`` seconds is good enough. Raises BrokerRefused for a topic that is not there
        and may not be made."""
        if topic.startswith(EXCHANGE):
            raise BrokerRefused(f"{topic} can only be published to", kind="not-capable")
        own = group if self.by_group(topic) else ""

        async def ask(look: Look) -> Layout:
            return await self._look(wire, topic, own, look)

        return await self._layouts.of((topic, own), age, ask)

    def expire(self, topic: str, group: str = "") -> None:
        """Count the queues of the topic at the next question: one of them was not found."""
        self._layouts.expire((topic, group if self.by_group(topic) else ""))

    def missing_words(self, topic: str, numbers: Iterable[int], group: str) -> str:
        """Name queues that are missing, and the cure. Return "" if none is."""
        names = ", ".join(self.queue(topic, number, group) for number in numbers)
        if not names:
            return ""
        noun = "queues" if "," in names else "queue"
        why = self._unmade.get(topic, "")
        return why or str(self._unknown(f"{noun} {names}", topic))

    async def create(self, wire: Wire, topic: str, partitions: int) -> None:
        """No error when it is there already; what is there stays as it is."""
        async with self._layouts.changing((topic, "")):
            await self._create(wire, topic, partitions)

    async def mend(self, wire: Wire, topic: str) -> None:
        """Make the exchange, the queues and the bindings of a topic again: a record came back from it."""
        async with self._layouts.changing((topic, "")) as known:
            count = self._settings.partitions if known is None else known.count
            known_before = known is not None
            await self._make(wire, topic, "", range(count), known=known_before, again=True)

    async def _look(self, wire: Wire, topic: str, own: str, look: Look) -> Layout:
        """Count the queues. Those of a group are always made, others where the settings say so."""
        if topic.startswith(QUEUE):
            await self.depth(wire, self.queue(topic, 0, ""))
            return Layout(1)
        lost = None if look.there else await self._lost_exchange(wire, topic)
        may_make = self._settings.create_topics
        if lost is not None and not may_make:
            raise lost
        if self.by_group(topic) and not own:  # the queues belong to groups, which make them
            if lost is not None:
                await self._create(wire, topic, 0)
            return Layout(self._settings.partitions)
        least = max(look.least, self._settings.partitions if own else 0)
        found = await self._numbers(wire, topic, own, look._replace(least=least))
        if not found and not own and not may_make:
            raise self._unknown(f"queue {self.queue(topic, 0, '')}", topic)
        count = max(least, max(found) + 1) if found else least or self._settings.partitions
        missing = tuple(number for number in range(count) if number not in found)
        unbound = range(count) if lost is not None else missing
        if not unbound:
            self._unmade.pop(topic, None)
        if not (unbound and (may_make or own)):
            return Layout(count, missing)
        whole = lost is not None or not (found or own)
        made = await self._make(
            wire, topic, own, unbound, known=bool(found), whole=whole, again=look.least > 0
        )
        return Layout(count, () if made else missing)

    async def _make(
        self,
        wire: Wire,
        topic: str,
        own: str,
        numbers: Sequence[int],
        *,
        known: bool,
        again: bool,
        whole: bool = True,
    ) -> bool:
        """Declare and bind these queues, and the exchange with ``whole``. Return False if the server refuses
        and others of the topic are there (``known``), which work."""
        queues = {number: self.queue(topic, number, own) for number in numbers}
        names = ", ".join(queues.values())
        if again:
            await asyncio.sleep(SETTLES)
        try:
            if whole:
                await self.declared.exchanges(wire, topic)
            await self.declared.queues(wire, topic, queues)
        except (amqp.ChannelAccessRefused, amqp.ChannelPreconditionFailed) as error:
            self._unmade[topic] = (
                f"RabbitMQ {self._settings.name} lacks {names}, and refuses to make it: {words(error)}"
            )
            log.warning("%s", self._unmade[topic])
            if not known:
                raise
            return False
        self._unmade.pop(topic, None)
        if known:
            log.warning("topic %s: declared and bound again: %s", topic, names)
        return True

    async def _create(self, wire: Wire, topic: str, partitions: int) -> None:
        await self.declared.exchanges(wire, topic)
        if not self.by_group(topic):
            queues = {number: self.queue(topic, number, "") for number in range(partitions)}
            await self.declared.queues(wire, topic, queues)

    async def depth(self, wire: Wire, queue: str) -> tuple[int, int]:
        """Messages ready, and consumers. BrokerRefused when it is not there."""
        try:
            return await wire.depth(queue)
        except amqp.ChannelNotFoundEntity as error:
            raise self._missing(f"queue {queue}", error, f"{QUEUE}{queue}") from error

    async def _exchange_is_there(self, wire: Wire, exchange: str, topic: str = "") -> None:
        if not exchange:
            return  # the default exchange cannot be asked for, and is always there
        try:
            async with wire.throwaway() as channel:
                await channel.declare_exchange(exchange, passive=True)
        except amqp.ChannelNotFoundEntity as error:
            raise self._missing(f"exchange {exchange}", error, topic or exchange) from error

    async def _lost_exchange(self, wire: Wire, topic: str) -> BrokerRefused | None:
        """Return why the exchange of a topic cannot be used; None if it is there."""
        try:
            await self._exchange_is_there(wire, topic)
        except BrokerRefused as error:
            return error
        return None

    async def _numbers(self, wire: Wire, topic: str, group: str, look: Look) -> set[int]:
        """Return the numbers that have a queue. AMQP lists none, so each is asked for. A number without a queue
        costs a channel."""

        def name(number: int) -> str:
            return self.queue(topic, number, group)

        found = set(look.there)
        number = 0
        while number < look.end(found):
            try:
                async with wire.throwaway() as channel:
                    while number < look.end(found):
                        if number not in found:
                            await channel.declare_queue(name(number), passive=True)
                            found.add(number)
                        number += 1
            except amqp.ChannelNotFoundEntity as error:
                if is_out_of_reach(error):
                    raise self._missing(f"queue {name(number)}", error, topic) from error
                number += 1
        return found

    def _missing(self, what: str, error: amqp.ChannelNotFoundEntity, topic: str) -> BrokerError:
        """For now, where the node that has it is down."""
        name = self._settings.name
        if is_out_of_reach(error):
            return BrokerUnavailable(f"RabbitMQ {name} answered: {words(error)}", broker=name)
        return self._unknown(what, topic)

    def _unknown(self, what: str, topic: str) -> BrokerRefused:
        """What others made is never made by us, and a setting that is on is no cure."""
        never = topic.startswith((QUEUE, EXCHANGE)) or self._settings.create_topics
        name = self._settings.name
        return unknown_topic("RabbitMQ", name, what, "create it" if never else CREATE)
