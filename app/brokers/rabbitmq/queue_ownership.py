"""Become the only consumer of a queue.

The broker counts only the active consumer of a queue, and does not report which consumer that is. So each
queue has an empty second queue, its *guard*. A member owns the queue while it is the only consumer of the
guard. The broker reports the consumers of a guard reliably.

A member checks the guard, consumes it, and checks it again. It gives up if another member came at the same
time. The queue's single active consumer ensures that two members never both receive messages.

A guard is not durable, for the reason that ``group_roster`` gives: it would be out of reach while its node is away.
"""

from __future__ import annotations

import asyncio
import logging

from app.brokers.rabbitmq.aiormq_adapter import (
    GUARD,
    AbstractChannel,
    DeliveredMessage,
    DeliveryChannel,
    amqp,
)
from app.brokers.rabbitmq.connection import RabbitConnection, close_channel, counts
from app.brokers.rabbitmq.group_roster import FORGOTTEN_MS
from app.brokers.rabbitmq.owned_partition import OwnedQueue
from app.brokers.rabbitmq.settings import RabbitSettings
from app.brokers.rabbitmq.topology import Topology
from app.errors import BrokerRefused

log = logging.getLogger(__name__)

CONSUME_WITHIN = 2.0  # seconds
DOUBTED = 3  # times ``metadata_age``: how long an owned queue may show no consumer


class QueueOwnership:
    """A client that makes one member the owner of queues. Methods raise BrokerRefused, or the errors in
    ``errors.EXPECTED``."""

    def __init__(self, settings: RabbitSettings, topology: Topology) -> None:
        self._settings = settings
        self._topology = topology
        self._unguarded = False  # True if guards cannot be created
        self._alone_since: dict[str, float] = {}  # by queue: when it first showed no consumer

    async def take(self, connection: RabbitConnection, owned: OwnedQueue, queue: str) -> bool:
        """Try to become the owner of a queue. Return True on success; ``owned`` then has a channel.

        Closing this channel ends the ownership.
        """
        if await self._occupied(connection, queue):
            return False
        guard = await self._free_guard(connection, queue)
        if guard is None and not self._unguarded:
            return False
        channel = await connection.open_channel(DeliveryChannel(owned.delivered))
        if not await self._consume(connection, channel, guard, queue):
            await close_channel(channel)
            return False
        owned.channel = channel
        return True

    async def still_owned(self, connection: RabbitConnection, queue: str) -> bool:
        """Return False if an owned queue was deleted, or has shown no consumer for a while.

        A queue without a leader shows none. Its consumers stay, and the next leader sends messages to them.
        """
        now = asyncio.get_running_loop().time()
        try:
            occupied = await self._occupied(connection, queue)
        except BrokerRefused:
            occupied, since = False, float("-inf")
        else:
            since = self._alone_since.get(queue, now)
        self._alone_since.pop(queue, None)
        if occupied or now - since >= DOUBTED * self._settings.metadata_age:
            return occupied
        self._alone_since[queue] = since
        return True

    async def _occupied(self, connection: RabbitConnection, queue: str) -> bool:
        """Return True if the queue has an active consumer. The broker does not count waiting consumers."""
        return (await self._topology.depth(connection, queue))[1] > 0

    async def _free_guard(self, connection: RabbitConnection, queue: str) -> str | None:
        """Create the guard of a queue. Return its name if the guard has no consumer, so that the queue is
        free.

        Otherwise return None. Return None also if Skybridge may not create guards.
        """
        if self._unguarded:
            return None
        guard = f"skybridge.owns.{self._guarded(queue)}"
        try:
            found = await (await connection.control()).declare_queue(
                guard, durable=False, arguments={"x-expires": FORGOTTEN_MS}
            )
        except amqp.ChannelAccessRefused as error:
            self._unguarded = True
            log.warning(
                "queue %s has no guard, so only one member may consume it: %s", queue, error
            )
            return None
        return None if counts(found)[1] else guard

    def _guarded(self, queue: str) -> str:
        """Return the name of the entity that must have only one owner. For a queue it is the queue itself."""
        return queue

    async def _consume(
        self, connection: RabbitConnection, channel: AbstractChannel, guard: str | None, queue: str
    ) -> bool:
        """Consume the guard and the queue. Return True if this member is now the owner.

        A queue may never answer while it elects a leader. Then the request times out, and the member tries
        again on another channel.
        """
        try:
            async with asyncio.timeout(CONSUME_WITHIN):
                if guard is not None:
                    await channel.basic_consume(guard, ignored, consumer_tag=GUARD)
                    if (await connection.depth(guard))[1] != 1:
                        return False
                return await self._attach(connection, channel, queue)
        except TimeoutError:
            log.warning("queue %s does not answer yet; the member will try again", queue)
            return False

    async def _attach(
        self, connection: RabbitConnection, channel: AbstractChannel, queue: str
    ) -> bool:
        await channel.basic_qos(prefetch_count=self._settings.prefetch)
        await channel.basic_consume(queue, ignored)
        return (await connection.depth(queue))[1] == 1


async def ignored(_message: DeliveredMessage) -> None:
    """Do nothing. The library requires this callback, but ``DeliveryChannel`` handles all messages."""
