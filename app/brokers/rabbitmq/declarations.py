"""Declare the exchange and the queues of a topic, and find queues that other clients declared differently."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Any

from aio_pika import ExchangeType
from aio_pika.abc import AbstractChannel

from app.brokers.rabbitmq.aiormq_adapter import amqp
from app.brokers.rabbitmq.connection import RabbitConnection
from app.brokers.rabbitmq.errors import unequal_argument
from app.brokers.rabbitmq.settings import RabbitSettings

log = logging.getLogger(__name__)

HASH = ExchangeType.X_CONSISTENT_HASH
_NO_LIMIT_SINCE = (4, 0)  # older versions have no limit and reject the argument


class Declarations:
    """A client that declares missing exchanges and queues. Existing exchanges and queues are not changed.
    Methods raise errors of aio-pika."""

    def __init__(self, settings: RabbitSettings) -> None:
        self._settings = settings
        self.warnings: dict[str, str] = {}  # by queue, for ``check`` and for the log

    async def exchanges(self, connection: RabbitConnection, topic: str) -> None:
        """Declare everything of a topic except its queues: exchanges and the dead-letter queue."""
        async with connection.temporary_channel() as channel:
            await channel.declare_exchange(topic, ExchangeType.DIRECT, durable=True)
            if self._settings.kind == "quorum":
                await self._dead_letter_queue(channel, topic)
            if self._settings.hash_exchange:
                await self._hash_exchange(channel, topic)

    async def queues(
        self, connection: RabbitConnection, topic: str, queues: Mapping[int, str]
    ) -> None:
        """Declare and bind queues. ``queues`` has their names by number."""
        for number, queue in queues.items():
            await self._queue(connection, topic, queue)
            async with connection.temporary_channel() as channel:
                bound = await channel.get_queue(queue, ensure=False)
                await bound.bind(topic, str(number))
                if self._settings.hash_exchange:
                    await bound.bind(f"{topic}.hash", "1")

    async def inspect(
        self, connection: RabbitConnection, topic: str, queues: Sequence[str]
    ) -> None:
        """Warn about queues that other clients declared with weaker guarantees.

        The broker reports the arguments of a queue only in the error for a different declaration.
        """
        for queue in queues:
            try:
                await self._queue(connection, topic, queue)
            except amqp.ChannelAccessRefused:  # Skybridge may not configure the queue
                return

    def arguments(self, connection: RabbitConnection, topic: str) -> dict[str, Any]:
        """Return the arguments of a queue: one active consumer, a dead-letter target, no delivery limit."""
        if self._settings.kind == "stream":
            return {"x-queue-type": "stream"}
        arguments: dict[str, Any] = {
            "x-queue-type": "quorum",
            "x-single-active-consumer": True,
            "x-dead-letter-exchange": "",
            "x-dead-letter-routing-key": self._dead_letters(topic),
        }
        if connection.version >= _NO_LIMIT_SINCE:
            arguments["x-delivery-limit"] = -1  # these versions have a limit by default
        return arguments

    async def _queue(self, connection: RabbitConnection, topic: str, queue: str) -> None:
        try:
            async with connection.temporary_channel() as channel:
                arguments = self.arguments(connection, topic)
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

    async def _dead_letter_queue(self, channel: AbstractChannel, topic: str) -> None:
        await channel.declare_queue(
            self._dead_letters(topic), durable=True, arguments={"x-queue-type": "quorum"}
        )

    async def _hash_exchange(self, channel: AbstractChannel, topic: str) -> None:
        arguments: dict[str, Any] = {"hash-header": "x-skybridge-key"}
        await channel.declare_exchange(f"{topic}.hash", HASH, durable=True, arguments=arguments)

    def _dead_letters(self, topic: str) -> str:
        return self._settings.dead_letters.replace("{topic}", topic)
