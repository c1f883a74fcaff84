"""One aio-pika connection to one node.

The connection does not reconnect by itself. The publisher and each group member decide when to connect again
and which records to send again. Requests and declarations use channels of aio-pika. Records and deliveries
use channels of ``aiormq_adapter``.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from collections.abc import AsyncIterator, Callable
from typing import Any

import aio_pika
from aio_pika.abc import AbstractQueue, ConnectionParameter

from app.brokers.rabbitmq.aiormq_adapter import (
    URL,
    AbstractChannel,
    AbstractConnection,
    FastChannel,
    Transport,
    amqp,
)
from app.brokers.rabbitmq.errors import EXPECTED
from app.brokers.rabbitmq.settings import RabbitSettings

CLOSE_WITHIN = 2.0  # seconds; a close waits without end for a peer that does not read
PROBE_WITHIN = 2.0

_numbers = itertools.count(1)


def _same(transport: Any) -> Any:
    return transport


class RabbitConnection(aio_pika.Connection):
    """A connection to one node. If the connection is lost, it is not opened again; a new object is needed."""

    PARAMETERS = (
        *aio_pika.Connection.PARAMETERS,
        ConnectionParameter("transport_factory", parser=_same, is_kwarg=True),
    )

    def __init__(self, url: URL, settings: RabbitSettings, changed: Callable[[], None]) -> None:
        """Create the connection without connecting it. ``changed`` is called when ``blocked`` changes."""
        self.number = next(_numbers)  # unique in this process
        self.socket = Transport(settings.ssl_context(), changed)
        super().__init__(url, transport_factory=self.socket)
        self._aiormq_connection: AbstractConnection | None = None
        self._control: aio_pika.abc.AbstractChannel | None = None

    async def connect(self, timeout: float | None = None) -> None:  # noqa: ASYNC109 - the library's own
        try:
            async with asyncio.timeout(timeout):
                await super().connect()
        except amqp.AMQPError as error:
            raise self.socket.refusal() or error from error
        if self.transport is not None:
            self._aiormq_connection = self.transport.connection

    @property
    def is_closed(self) -> bool:
        """Return True if the connection was closed or lost. The library's own property does not report a
        loss."""
        return (
            super().is_closed
            if self._aiormq_connection is None
            else self._aiormq_connection.is_closed
        )

    @property
    def aiormq_connection(self) -> AbstractConnection:
        """Return the connection of aiormq, which may be closed. Raise ConnectionError if it was not opened."""
        if self._aiormq_connection is None:
            raise ConnectionError("the connection was not opened")
        return self._aiormq_connection

    @property
    def closing(self) -> asyncio.Future[None]:
        """Return a future that is done when the connection is lost or closed, with the cause."""
        return self.aiormq_connection.closing

    @property
    def blocked(self) -> str:
        """Return why the broker blocks publishers, or an empty text if it does not."""
        return self.socket.blocked

    @property
    def frame_max(self) -> int:
        return int(self.aiormq_connection.connection_tune.frame_max or 131_072)

    @property
    def version(self) -> tuple[int, ...]:
        """Return the version of the server, or () if it does not report one."""
        found = (self.aiormq_connection.server_properties or {}).get("version", "")
        words = str(found).partition("-")[0].partition("+")[0].split(".")
        return tuple(int(word) for word in words if word.isdecimal())

    def write(self, frames: bytes) -> None:
        """Write complete frames without waiting. They are dropped if the connection is closed."""
        self.socket.write(frames)

    async def open_channel(self, hot: FastChannel, *, confirms: bool = False) -> AbstractChannel:
        """Open a channel of the fast path. ``hot`` handles its frequent frames."""
        self._still_open()
        return await self.socket.open(self.aiormq_connection, hot, confirms=confirms)

    @contextlib.asynccontextmanager
    async def temporary_channel(self) -> AsyncIterator[aio_pika.abc.AbstractChannel]:
        """Yield a new channel, for requests that may make the broker close the channel."""
        channel = await self.open_plain()
        try:
            yield channel
        finally:
            await close_channel(channel)

    async def control(self) -> aio_pika.abc.AbstractChannel:
        """Return the shared channel. It is for requests that cannot make the broker close the channel."""
        if self._control is None or self._control.is_closed:
            self._control = await self.open_plain()
        return self._control

    async def open_plain(self) -> aio_pika.abc.AbstractChannel:
        self._still_open()
        channel = self.channel(publisher_confirms=False)
        await channel.initialize()
        return channel

    def _still_open(self) -> None:
        if self.is_closed:
            raise ConnectionError("the connection is closed")

    async def probe(self) -> None:
        """Ask the broker for an answer within two seconds. Raises the errors in ``errors.EXPECTED``."""
        async with asyncio.timeout(PROBE_WITHIN):
            await (await self.control()).declare_exchange("amq.direct", passive=True)

    async def depth(self, queue: str) -> tuple[int, int]:
        """Return the number of ready messages of a queue, and that of its consumers. Raises
        ChannelNotFoundEntity."""
        return counts(await (await self.control()).declare_queue(queue, passive=True))

    async def hang_up(self) -> None:
        """Close the connection within a time limit, and abort it if the peer does not answer."""
        closing = asyncio.create_task(self.close())
        await asyncio.wait({closing}, timeout=CLOSE_WITHIN)
        if not closing.done():
            self.socket.abort()
            await asyncio.wait({closing}, timeout=CLOSE_WITHIN)
        closing.cancel()
        await asyncio.wait({closing}, timeout=CLOSE_WITHIN)
        self.socket.abort()
        if closing.done() and not closing.cancelled():
            closing.exception()  # marks the exception as retrieved

    async def drop(self) -> None:
        """Abort the connection at once. Buffered data is not sent."""
        self.socket.abort()
        await self.hang_up()


def counts(queue: AbstractQueue) -> tuple[int, int]:
    """Return the number of ready messages and the number of consumers, which the broker's answer to a
    declaration contains."""
    found = queue.declaration_result
    return found.message_count or 0, found.consumer_count or 0


async def close_channel(channel: AbstractChannel | aio_pika.abc.AbstractChannel) -> None:
    """Close a channel within a time limit, without an error if it is closed already."""
    if channel.is_closed:
        return
    with contextlib.suppress(*EXPECTED):
        async with asyncio.timeout(CLOSE_WITHIN):
            await channel.close()


async def connect(
    settings: RabbitSettings, client_id: str = "", changed: Callable[[], None] = lambda: None
) -> RabbitConnection:
    """Connect to the first node that accepts. Raise the error of the last node if none does.

    The nodes share the time limit of one request, so that a node that does not answer cannot block the
    others.
    """
    last: BaseException = ConnectionError("no address is given")
    urls = settings.urls(client_id)
    for url in urls:
        connection = RabbitConnection(url, settings, changed)
        try:
            async with asyncio.timeout(settings.request_timeout / len(urls)):
                await connection.connect()
        except EXPECTED as error:
            await connection.drop()
            last = error
        except BaseException:
            await connection.drop()
            raise
        else:
            return connection
    raise last
