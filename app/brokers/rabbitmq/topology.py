"""A topic on RabbitMQ: an exchange, and a queue for each partition (ADR 0013).

A plain name (``orders``) is a topic of Skybridge. It has the direct exchange ``orders`` and the queues
``orders.0`` to ``orders.7``, bound by their numbers. A record goes to the queue of the number that murmur2
of its key gives, as on every log.

Two other forms name queues and exchanges of other clients. ``queue:NAME`` is the queue NAME, as a topic with
one partition. ``exchange:NAME:ROUTING KEY`` publishes to the exchange NAME, and the broker's bindings decide
which queues get the record.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Sequence

import msgspec

from app.brokers.rabbitmq.aiormq_adapter import amqp
from app.brokers.rabbitmq.connection import RabbitConnection
from app.brokers.rabbitmq.declarations import Declarations
from app.brokers.rabbitmq.errors import error_text, is_out_of_reach
from app.brokers.rabbitmq.layout import LayoutCache, QueueLayout, QueueProbe
from app.brokers.rabbitmq.settings import RabbitSettings
from app.brokers.topic_resolver import CREATE, unknown_topic
from app.errors import BrokerError, BrokerRefused, BrokerUnavailable
from app.routing.places import EXCHANGE, QUEUE

log = logging.getLogger(__name__)

RECREATE_AFTER = 0.5
"""Seconds before a deleted queue is created again. RabbitMQ 3.10 confuses a queue that follows at once with
the deleted one. It then does not cancel the old consumers, but sends them no messages of the new queue."""


_Look = Callable[[RabbitConnection, str, str, QueueProbe], Awaitable[QueueLayout]]
"""Count the queues of a topic, and of a group that has its own. The last argument has the queues to ask for."""


class RabbitTarget(msgspec.Struct, frozen=True):
    """The exchange to which records of a topic are published. ``routing_keys`` has one key for each
    partition."""

    topic: str
    exchange: str
    routing_keys: tuple[str, ...]

    @property
    def has_known_queues(self) -> bool:
        """Return True if the queues of the target are known, False if only its exchange is known."""
        return not self.topic.startswith(EXCHANGE)

    @property
    def is_numbered(self) -> bool:
        """Return True for a topic that Skybridge declares, whose queues have numbers."""
        return not self.topic.startswith((EXCHANGE, QUEUE))


def parse_exchange(topic: str) -> tuple[str, str] | None:
    """Return the exchange and routing key of a target like ``exchange:NAME:ROUTING KEY``, or None for other
    topics."""
    if not topic.startswith(EXCHANGE):
        return None
    exchange, _, routing_key = topic.removeprefix(EXCHANGE).partition(":")
    return exchange, routing_key


class Topology:
    """The names and declarations of topics. Methods raise BrokerRefused or errors of aio-pika."""

    def __init__(self, settings: RabbitSettings) -> None:
        self._settings = settings
        self.declared = Declarations(settings)
        self._unmade: dict[str, str] = {}  # by topic: why missing queues were not created
        self._layouts = LayoutCache(settings.metadata_age)
        self._looks = LayoutCache(settings.metadata_age)  # of questions that create nothing

    def by_group(self, topic: str) -> bool:
        """Return True if each group has its own queues of the topic. A topic ``queue:NAME`` is one queue
        for all groups."""
        return "{group}" in self._settings.queue and not topic.startswith(QUEUE)

    def recreates(self, topic: str) -> bool:
        """Return True if missing queues of a topic are created again for publishers, and the server has not
        refused that."""
        shared = self._settings.create_topics and not self.by_group(topic)
        return shared and topic not in self._unmade

    def queue(self, topic: str, partition: int, group: str) -> str:
        if topic.startswith(QUEUE):
            return topic.removeprefix(QUEUE)
        text = self._settings.queue
        for name, value in (("topic", topic), ("partition", partition), ("group", group)):
            text = text.replace(f"{{{name}}}", str(value))
        return text

    async def find(self, connection: RabbitConnection, topic: str) -> RabbitTarget:
        """Return the exchange and routing keys for records of a topic. Create a missing topic if the settings
        allow it."""
        named = parse_exchange(topic)
        if named is not None:
            await self._exchange_is_there(connection, named[0], topic)
            return RabbitTarget(topic, named[0], (named[1],))
        layout = await self.layout(connection, topic)
        if topic.startswith(QUEUE):
            return RabbitTarget(topic, "", (topic.removeprefix(QUEUE),))
        return RabbitTarget(topic, topic, tuple(str(number) for number in range(layout.count)))

    async def missing_for(self, connection: RabbitConnection, topic: str) -> str:
        """Return the name of a missing entity without which records of a topic are lost, or an empty text.

        The text is also empty if the first record creates the missing entity. Nothing is created here.
        Bindings of an exchange cannot be checked.
        """
        named = parse_exchange(topic)
        try:
            if (
                named is not None and not named[0]
            ):  # the default exchange, whose routing key is a queue
                await self.depth(connection, named[1])
            elif named is not None:
                await self._exchange_is_there(connection, named[0], topic)
            elif topic.startswith(QUEUE):
                await self.depth(connection, self.queue(topic, 0, ""))
            elif not self._settings.create_topics:
                layout = await self.layout(connection, topic, age=self._settings.metadata_age)
                return self.missing_text(topic, layout.missing, "")
            else:
                return self._unmade.get(topic, "")
        except BrokerRefused as error:
            if error.kind != "unknown-topic":
                raise
            return str(error)
        return ""

    async def queues_there(self, connection: RabbitConnection, topic: str) -> list[str]:
        """Return the existing queues of a topic. All groups share these queues. Nothing is created."""
        if topic.startswith(EXCHANGE) or self.by_group(topic):
            return []
        try:
            if topic.startswith(QUEUE):
                await self.depth(connection, self.queue(topic, 0, ""))
                return [self.queue(topic, 0, "")]
            found = await self._numbers(connection, topic, "", QueueProbe())
            return [self.queue(topic, number, "") for number in sorted(found)]
        except BrokerRefused:
            return []

    async def partitions(self, connection: RabbitConnection, topic: str, group: str = "") -> int:
        """Return the number of partitions. Raise BrokerRefused for a missing topic that may not be created."""
        return (await self.layout(connection, topic, group)).count

    async def layout(
        self, connection: RabbitConnection, topic: str, group: str = "", *, age: float = 0.0
    ) -> QueueLayout:
        """Return the queues of a topic, creating missing ones if the settings allow it.

        Raise BrokerRefused for a missing topic that may not be created.

        Args:
            connection: The connection for requests.
            topic: The topic.
            group: The group whose queues are returned, if each group has its own queues.
            age: The age in seconds up to which the result of an earlier count is returned without a request.
        """
        return await self._counted(self._layouts, self._look, connection, topic, group, age)

    async def existing(
        self, connection: RabbitConnection, topic: str, group: str = "", *, age: float = 0.0
    ) -> QueueLayout:
        """Return the queues of a topic, as ``layout`` does, and create nothing. Raise BrokerRefused if none
        exists. Without a group, a topic whose groups have their own queues exists if its exchange does."""
        return await self._counted(self._looks, self._look_only, connection, topic, group, age)

    async def _counted(
        self,
        cache: LayoutCache,
        look: _Look,
        connection: RabbitConnection,
        topic: str,
        group: str,
        age: float,
    ) -> QueueLayout:
        """Return the queues of a topic as ``look`` counts them, or the last count if it is young enough."""
        if topic.startswith(EXCHANGE):
            raise BrokerRefused(f"{topic} can only be published to", kind="not-capable")
        own = group if self.by_group(topic) else ""

        async def ask(probe: QueueProbe) -> QueueLayout:
            return await look(connection, topic, own, probe)

        return await cache.of((topic, own), age, ask)

    def expire(self, topic: str, group: str = "") -> None:
        """Count the queues of the topic at the next request, because one of them was not found or has just
        been created."""
        name = topic, group if self.by_group(topic) else ""
        self._layouts.expire(name)
        self._looks.expire(name)

    def missing_text(self, topic: str, numbers: Iterable[int], group: str) -> str:
        """Return the names of missing queues and the cure, or an empty text if none is missing."""
        names = ", ".join(self.queue(topic, number, group) for number in numbers)
        if not names:
            return ""
        noun = "queues" if "," in names else "queue"
        why = self._unmade.get(topic, "")
        return why or str(self._unknown(f"{noun} {names}", topic))

    async def create(self, connection: RabbitConnection, topic: str, partitions: int) -> None:
        """Create the exchange and queues of a topic. Existing ones stay as they are."""
        async with self._layouts.changing((topic, "")):
            await self._create(connection, topic, partitions)

    async def recreate(self, connection: RabbitConnection, topic: str) -> None:
        """Create the exchange, queues and bindings of a topic again, because a record was returned."""
        async with self._layouts.changing((topic, "")) as known:
            count = self._settings.partitions if known is None else known.count
            known_before = known is not None
            await self._declare(connection, topic, "", range(count), known=known_before, again=True)

    async def _look(
        self, connection: RabbitConnection, topic: str, own: str, look: QueueProbe
    ) -> QueueLayout:
        """Count the queues of a topic. Missing queues of a group are always created, and other missing queues
        if the settings allow it."""
        if topic.startswith(QUEUE):
            await self.depth(connection, self.queue(topic, 0, ""))
            return QueueLayout(1)
        lost = None if look.there else await self._lost_exchange(connection, topic)
        may_make = self._settings.create_topics
        if lost is not None and not may_make:
            raise lost
        if self.by_group(topic) and not own:  # the queues belong to groups, which create them
            if lost is not None:
                await self._create(connection, topic, 0)
            return QueueLayout(self._settings.partitions)
        least = max(look.least, self._settings.partitions if own else 0)
        found = await self._numbers(connection, topic, own, look._replace(least=least))
        if not found and not own and not may_make:
            raise self._unknown(f"queue {self.queue(topic, 0, '')}", topic)
        count = max(least, max(found) + 1) if found else least or self._settings.partitions
        missing = tuple(number for number in range(count) if number not in found)
        unbound = range(count) if lost is not None else missing
        if not unbound:
            self._unmade.pop(topic, None)
        if not (unbound and (may_make or own)):
            return QueueLayout(count, missing)
        whole = lost is not None or not (found or own)
        made = await self._declare(
            connection, topic, own, unbound, known=bool(found), whole=whole, again=look.least > 0
        )
        return QueueLayout(count, () if made else missing)

    async def _look_only(
        self, connection: RabbitConnection, topic: str, own: str, look: QueueProbe
    ) -> QueueLayout:
        """Count the queues of a topic, and create nothing."""
        if topic.startswith(QUEUE):
            await self.depth(connection, self.queue(topic, 0, ""))
            return QueueLayout(1)
        if not look.there:
            await self._exchange_is_there(connection, topic)
        if self.by_group(topic) and not own:
            return QueueLayout(self._settings.partitions)
        if own:  # with a gap, later queues would not be found
            look = look._replace(least=max(look.least, self._settings.partitions), ahead=1)
        found = await self._numbers(connection, topic, own, look)
        if not found:
            raise self._unknown(f"queue {self.queue(topic, 0, own)}", topic)
        count = max(look.least, max(found) + 1)
        return QueueLayout(count, tuple(n for n in range(count) if n not in found))

    async def _declare(
        self,
        connection: RabbitConnection,
        topic: str,
        own: str,
        numbers: Sequence[int],
        *,
        known: bool,
        again: bool,
        whole: bool = True,
    ) -> bool:
        """Declare and bind queues. With ``whole``, declare the exchange too.

        Return False if the server refuses the declaration although other queues of the topic exist
        (``known``). These queues still work.
        """
        queues = {number: self.queue(topic, number, own) for number in numbers}
        names = ", ".join(queues.values())
        if again:
            await asyncio.sleep(RECREATE_AFTER)
        try:
            if whole:
                await self.declared.exchanges(connection, topic)
            await self.declared.queues(connection, topic, queues)
        except (amqp.ChannelAccessRefused, amqp.ChannelPreconditionFailed) as error:
            self._unmade[topic] = (
                f"RabbitMQ {self._settings.name} lacks {names}, and refuses to create it: {error_text(error)}"
            )
            log.warning("%s", self._unmade[topic])
            if not known:
                raise
            return False
        self._unmade.pop(topic, None)
        self._looks.expire((topic, own))
        if known:
            log.warning("topic %s: queues were declared and bound again: %s", topic, names)
        return True

    async def _create(self, connection: RabbitConnection, topic: str, partitions: int) -> None:
        await self.declared.exchanges(connection, topic)
        if not self.by_group(topic):
            queues = {number: self.queue(topic, number, "") for number in range(partitions)}
            await self.declared.queues(connection, topic, queues)
        self._looks.expire((topic, ""))

    async def depth(self, connection: RabbitConnection, queue: str) -> tuple[int, int]:
        """Return the numbers of ready messages and of consumers of a queue. Raise BrokerRefused if it does
        not exist."""
        try:
            return await connection.depth(queue)
        except amqp.ChannelNotFoundEntity as error:
            raise self._missing(f"queue {queue}", error, f"{QUEUE}{queue}") from error

    async def _exchange_is_there(
        self, connection: RabbitConnection, exchange: str, topic: str = ""
    ) -> None:
        if not exchange:
            return  # the default exchange always exists and cannot be declared
        try:
            async with connection.temporary_channel() as channel:
                await channel.declare_exchange(exchange, passive=True)
        except amqp.ChannelNotFoundEntity as error:
            raise self._missing(f"exchange {exchange}", error, topic or exchange) from error

    async def _lost_exchange(
        self, connection: RabbitConnection, topic: str
    ) -> BrokerRefused | None:
        """Return the error because of which the exchange of a topic cannot be used, or None if the exchange
        exists."""
        try:
            await self._exchange_is_there(connection, topic)
        except BrokerRefused as error:
            return error
        return None

    async def _numbers(
        self, connection: RabbitConnection, topic: str, group: str, look: QueueProbe
    ) -> set[int]:
        """Return the numbers for which a queue of the topic exists.

        AMQP cannot list queues, so each number needs a request. If its queue does not exist, the request also
        costs a channel.
        """

        def name(number: int) -> str:
            return self.queue(topic, number, group)

        found = set(look.there)
        number = 0
        while number < look.end(found):
            try:
                async with connection.temporary_channel() as channel:
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
        """Return the error for an entity that was not found. The error is temporary if the node with the
        entity is down."""
        name = self._settings.name
        if is_out_of_reach(error):
            return BrokerUnavailable(f"RabbitMQ {name} answered: {error_text(error)}", broker=name)
        return self._unknown(what, topic)

    def _unknown(self, what: str, topic: str) -> BrokerRefused:
        """Return the error for an unknown topic, with a cure that applies.

        The cure depends on the topic. Skybridge never creates entities of other clients, and a setting that
        is already on is no cure.
        """
        never = topic.startswith((QUEUE, EXCHANGE)) or self._settings.create_topics
        name = self._settings.name
        return unknown_topic("RabbitMQ", name, what, "create it" if never else CREATE)
