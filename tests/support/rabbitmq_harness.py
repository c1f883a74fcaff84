"""The harness by which the broker contract makes RabbitMQ logs, and topology declared by another
client."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator

import aio_pika

from app.brokers.portable import PortableLog, PublishBounds
from app.brokers.rabbitmq import (
    CAPABILITIES,
    STREAM_CAPABILITIES,
    open_log,
)
from app.store import SqlStore
from contract_tools import ANSWERED_WITHIN, CALM, Logs, NumberedPlaces
from rabbitmq_server import RabbitServer


class RabbitHarness(NumberedPlaces, Logs):
    """A harness that makes logs on one RabbitMQ cluster."""

    capabilities = CAPABILITIES

    def __init__(self, address: str, server: RabbitServer | None = None) -> None:
        super().__init__(server)
        self.address = address

    async def make_log(self, *, bounds: PublishBounds | None = None, **settings) -> PortableLog:
        calm = {"balance_interval": 0.1, "request_timeout": ANSWERED_WITHIN, "heartbeat": 60}
        log = open_log(
            name="rabbit", addresses=self.address, bounds=bounds or CALM, **(calm | settings)
        )
        return await self.started(log)


class StreamHarness(RabbitHarness):
    """A harness that makes logs on streams. Its store of offsets outlives the logs."""

    capabilities = STREAM_CAPABILITIES

    def __init__(self, address: str, store: SqlStore, server: RabbitServer | None = None) -> None:
        super().__init__(address, server)
        self.store = store

    async def make_log(self, *, bounds: PublishBounds | None = None, **settings) -> PortableLog:
        more = {"kind": "stream", "offsets": self.store.offsets} | settings
        return await super().make_log(bounds=bounds, **more)

    async def take_away(self) -> None:
        """Stop the server after it has written its streams to disk.

        A stream that is not yet on disk does not come back (see ``RabbitServer.remember``).
        """
        assert self._server is not None
        await asyncio.to_thread(self._server.remember)
        await super().take_away()


@contextlib.asynccontextmanager
async def channel_to(address: str) -> AsyncIterator[aio_pika.abc.AbstractChannel]:
    connection = await aio_pika.connect(f"amqp://guest:guest@{address}/")
    try:
        yield await connection.channel()
    finally:
        await connection.close()


async def until_there(address: str, queue: str, within: float = 60.0) -> None:
    """Wait until a queue exists. A starting node accepts clients before its streams have leaders."""
    async with asyncio.timeout(within):
        while True:
            try:
                async with channel_to(address) as channel:
                    await channel.declare_queue(queue, passive=True)
            except aio_pika.exceptions.ChannelNotFoundEntity:
                await asyncio.sleep(0.05)
            else:
                return


async def bind(address: str, queue: str, exchange: str, routing_key: str) -> None:
    async with channel_to(address) as channel:
        await (await channel.get_queue(queue)).bind(exchange, routing_key)


async def unbind(address: str, queue: str, exchange: str, routing_key: str) -> None:
    async with channel_to(address) as channel:
        await (await channel.get_queue(queue)).unbind(exchange, routing_key)


async def declare(address: str, queue: str, arguments: dict) -> None:
    async with channel_to(address) as channel:
        await channel.declare_queue(queue, durable=True, arguments=arguments)
