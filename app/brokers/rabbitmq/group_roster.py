"""Count the members of a group. Every member is a consumer of one empty queue, which is called the roster.

AMQP reports only the number of consumers of a queue. This number is enough to share queues evenly. An answer
also proves that the broker still knows this member.

The roster is not durable. Each classic queue lives on one node of a cluster. While this node is away, a durable queue
is out of reach and cannot be declared again. The broker deletes any other queue, and members declare it on another node.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

from aio_pika.abc import AbstractChannel

from app.brokers.rabbitmq.aiormq_adapter import amqp
from app.brokers.rabbitmq.connection import RabbitConnection, close_channel

log = logging.getLogger(__name__)

FORGOTTEN_MS = 86_400_000  # the broker deletes a roster that was unused for a day


class GroupRoster:
    """The roster queue of one group. One member uses it on successive connections to count the members."""

    def __init__(
        self, group: str, heartbeat: float, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self._queue = f"skybridge.members.{group}"
        self._heartbeat = heartbeat
        self._monotonic = monotonic
        self._registration: tuple[RabbitConnection, AbstractChannel] | None = None
        self._alone = False  # True if the roster cannot be created, so that members are not counted
        self._lease_until = 0.0

    async def members(self, connection: RabbitConnection) -> int:
        """Return the number of members, at least 1, and renew the lease. Raises the errors in
        ``errors.EXPECTED``."""
        asked = self._monotonic()
        if self._alone:
            await connection.probe()
            count = 1
        else:
            count = await self._count(connection)
        self._lease_until = asked + self._heartbeat
        return max(1, count)

    async def _count(self, connection: RabbitConnection) -> int:
        await self._register(connection)
        try:
            return await self._consumers(connection)
        except amqp.ChannelNotFoundEntity:  # its node has ended
            await self._leave()
        await self._register(connection)
        return await self._consumers(connection)

    async def _consumers(self, connection: RabbitConnection) -> int:
        return 1 if self._alone else (await connection.depth(self._queue))[1]

    async def _leave(self) -> None:
        """End the registration, so that the next one declares the roster again."""
        registration, self._registration = self._registration, None
        if registration is not None:
            await close_channel(registration[1])

    @property
    def counts(self) -> bool:
        """Return True if the members of the group can be counted."""
        return not self._alone

    def has_lease(self) -> bool:
        """Return True if the broker cannot yet have given this member's queues to other members, by the local
        clock.

        The broker waits for the heartbeat time after it last heard from this member.
        """
        return self._monotonic() < self._lease_until

    async def _register(self, connection: RabbitConnection) -> None:
        registration = self._registration
        if (
            registration is not None
            and registration[0] is connection
            and not registration[1].is_closed
        ):
            return
        channel = await connection.open_plain()
        try:
            queue = await channel.declare_queue(
                self._queue,
                durable=False,
                auto_delete=True,
                arguments={"x-expires": FORGOTTEN_MS},
            )
            await queue.consume(_ignore, no_ack=True)
        except amqp.ChannelAccessRefused as error:
            self._alone = True
            log.warning(
                "queue %s cannot be created, so the group's members cannot share queues evenly: %s",
                self._queue,
                error,
            )
            return
        self._registration = connection, channel


async def _ignore(_message: object) -> None:
    """Ignore a message. The roster queue normally has none, because no client writes to it."""
