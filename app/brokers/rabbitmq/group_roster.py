"""The members of our group: a queue that nobody writes to, at which every member is a consumer.

AMQP tells how many consumers a queue has, and nothing else about them; a count is all that sharing
needs. The same question, answered, proves that the broker still knows us.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

from aio_pika.abc import AbstractChannel

from app.brokers.rabbitmq.aiormq_adapter import amqp
from app.brokers.rabbitmq.connection import Wire

log = logging.getLogger(__name__)

FORGOTTEN_MS = 86_400_000  # the broker deletes the roster of a group that is gone for a day


class GroupRoster:
    """Of one group, on one connection after another."""

    def __init__(
        self, group: str, heartbeat: float, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self._queue = f"skybridge.roll.{group}"
        self._heartbeat = heartbeat
        self._monotonic = monotonic
        self._standing: tuple[Wire, AbstractChannel] | None = None
        self._alone = False  # we may not make the roster: then nobody is counted
        self._sure_until = 0.0

    async def members(self, wire: Wire) -> int:
        """How many of us there are, at least 1. Raises what ``errors.EXPECTED`` names."""
        asked = self._monotonic()
        count = 1
        if self._alone:
            await wire.probe()
        else:
            await self._stand(wire)
            if not self._alone:
                _, count = await wire.depth(self._queue)
        self._sure_until = asked + self._heartbeat
        return max(1, count)

    @property
    def counts(self) -> bool:
        """Whether members are counted at all."""
        return not self._alone

    def sure(self) -> bool:
        """Whether the broker cannot yet have given our queues to others, by our own clock (rule 5): it
        waits for a heartbeat's time, counted from when it last heard of us."""
        return self._monotonic() < self._sure_until

    async def _stand(self, wire: Wire) -> None:
        standing = self._standing
        if standing is not None and standing[0] is wire and not standing[1].is_closed:
            return
        channel = await wire.open_plain()
        try:
            queue = await channel.declare_queue(
                self._queue,
                durable=True,
                auto_delete=True,
                arguments={"x-expires": FORGOTTEN_MS},
            )
            await queue.consume(_nothing, no_ack=True)
        except amqp.ChannelAccessRefused as error:
            self._alone = True
            log.warning("members of a group cannot share queues evenly: %s", error)
            return
        self._standing = wire, channel


async def _nothing(_message: object) -> None:
    """Nobody writes to the roster."""
