"""How a queue becomes ours.

The broker tells nobody which of several consumers of a queue is the active one, and counts that one
alone. So each queue has a *guard*, an empty queue beside it: a member owns the queue while it is the only
consumer of the guard, which the broker answers with certainty. A member looks, takes what is free, looks
again, and steps back when somebody came at the same time; the single active consumer of the queue itself
keeps two of them from ever both being given messages.
"""

from __future__ import annotations

import asyncio
import logging

from app.brokers.rabbitmq.aiormq_adapter import (
    GUARD,
    AbstractChannel,
    DeliveredMessage,
    Deliveries,
    amqp,
)
from app.brokers.rabbitmq.connection import Wire, close_channel, counts
from app.brokers.rabbitmq.group_roster import FORGOTTEN_MS
from app.brokers.rabbitmq.owned_partition import OwnedPartition
from app.brokers.rabbitmq.settings import RabbitSettings
from app.brokers.rabbitmq.topology import Topology
from app.errors import BrokerRefused

log = logging.getLogger(__name__)

CONSUME_WITHIN = 2.0  # seconds


class QueueOwnership:
    """Of one member. Raises what ``errors.EXPECTED`` names, or BrokerRefused."""

    def __init__(self, settings: RabbitSettings, topology: Topology) -> None:
        self._settings = settings
        self._topology = topology
        self._unguarded = False  # we may not make guards

    async def take(self, wire: Wire, owned: OwnedPartition, queue: str) -> bool:
        """Whether it is ours now; then it has its channel, and closing that gives it back."""
        if await self._occupied(wire, queue):
            return False
        guard = await self._free_guard(wire, queue)
        if guard is None and not self._unguarded:
            return False
        channel = await wire.open_channel(Deliveries(owned.delivered))
        if not await self._consume(wire, channel, guard, queue):
            await close_channel(channel)
            return False
        owned.channel = channel
        return True

    async def lasts(self, wire: Wire, queue: str) -> bool:
        """Return False if a queue that was ours has no consumer, or is gone."""
        try:
            return await self._occupied(wire, queue)
        except BrokerRefused:
            return False

    async def _occupied(self, wire: Wire, queue: str) -> bool:
        """Whether somebody consumes the queue; of several the broker counts the active one alone."""
        return (await self._topology.depth(wire, queue))[1] > 0

    async def _free_guard(self, wire: Wire, queue: str) -> str | None:
        """The guard of a queue, where nobody stands at it. None also where we may not make one."""
        if self._unguarded:
            return None
        guard = f"skybridge.owner.{self._guarded(queue)}"
        try:
            found = await (await wire.control()).declare_queue(
                guard, durable=True, arguments={"x-expires": FORGOTTEN_MS}
            )
        except amqp.ChannelAccessRefused as error:
            self._unguarded = True
            log.warning("queue %s is safe only with one member: %s", queue, error)
            return None
        return None if counts(found)[1] else guard

    def _guarded(self, queue: str) -> str:
        """What has one owner."""
        return queue

    async def _consume(
        self, wire: Wire, channel: AbstractChannel, guard: str | None, queue: str
    ) -> bool:
        """Whether the queue is ours now. One whose leader is just being elected may leave the request
        unanswered for good: then it is made again, on another channel."""
        try:
            async with asyncio.timeout(CONSUME_WITHIN):
                if guard is not None:
                    await channel.basic_consume(guard, handed_on, consumer_tag=GUARD)
                    if (await wire.depth(guard))[1] != 1:
                        return False
                return await self._attach(wire, channel, queue)
        except TimeoutError:
            log.warning("queue %s does not answer yet", queue)
            return False

    async def _attach(self, wire: Wire, channel: AbstractChannel, queue: str) -> bool:
        await channel.basic_qos(prefetch_count=self._settings.prefetch)
        await channel.basic_consume(queue, handed_on)
        return (await wire.depth(queue))[1] == 1


async def handed_on(_message: DeliveredMessage) -> None:
    """Never called: ``Deliveries`` takes what comes."""
