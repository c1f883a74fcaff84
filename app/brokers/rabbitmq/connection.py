"""One connection of aio-pika to one node.

Plain, not robust: when to connect again, and what goes out again then, is decided by the producer and by each
member of a group. Questions and declarations go through channels of aio-pika; records and deliveries through
those of ``aiormq_adapter``.
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
    HotChannel,
    Transport,
    amqp,
)
from app.brokers.rabbitmq.errors import EXPECTED
from app.brokers.rabbitmq.settings import RabbitSettings

CLOSE_WITHIN = 2.0  # seconds; a peer that does not read would let a close wait for ever
PROBE_WITHIN = 2.0

_numbers = itertools.count(1)


def _same(transport: Any) -> Any:
    return transport


class Wire(aio_pika.Connection):
    """Connected once; lost for good when it is lost."""

    PARAMETERS = (
        *aio_pika.Connection.PARAMETERS,
        ConnectionParameter("transport_factory", parser=_same, is_kwarg=True),
    )

    def __init__(self, url: URL, settings: RabbitSettings, changed: Callable[[], None]) -> None:
        """``changed``: called when ``blocked`` does."""
        self.number = next(_numbers)  # no other of this process has it
        self.wire = Transport(settings.ssl_context(), changed)
        super().__init__(url, transport_factory=self.wire)
        self._core: AbstractConnection | None = None
        self._control: aio_pika.abc.AbstractChannel | None = None

    async def connect(self, timeout: float | None = None) -> None:  # noqa: ASYNC109 - the library's own
        try:
            async with asyncio.timeout(timeout):
                await super().connect()
        except amqp.AMQPError as error:
            raise self.wire.refusal() or error from error
        if self.transport is not None:
            self._core = self.transport.connection

    @property
    def is_closed(self) -> bool:
        """Also when it was lost: the library's own tells only of a close that was asked for."""
        return super().is_closed if self._core is None else self._core.is_closed

    @property
    def core(self) -> AbstractConnection:
        """Return the connection of aiormq, which may be closed by now. Raises ConnectionError if it was not opened."""
        if self._core is None:
            raise ConnectionError("the connection was not opened")
        return self._core

    @property
    def closing(self) -> asyncio.Future[None]:
        """Done when the connection is lost or closed, with why."""
        return self.core.closing

    @property
    def blocked(self) -> str:
        """Why the broker takes no publishes; empty when it does."""
        return self.wire.blocked

    @property
    def frame_max(self) -> int:
        return int(self.core.connection_tune.frame_max or 131_072)

    @property
    def version(self) -> tuple[int, ...]:
        """Of the server; () for one that does not say."""
        found = (self.core.server_properties or {}).get("version", "")
        words = str(found).partition("-")[0].partition("+")[0].split(".")
        return tuple(int(word) for word in words if word.isdecimal())

    def write(self, frames: bytes) -> None:
        """Whole frames, now; does not wait. Dropped when the connection is gone."""
        self.wire.write(frames)

    async def open_channel(self, hot: HotChannel, *, confirms: bool = False) -> AbstractChannel:
        """Open a channel of the hot path."""
        self._still_open()
        return await self.wire.open(self.core, hot, confirms=confirms)

    @contextlib.asynccontextmanager
    async def throwaway(self) -> AsyncIterator[aio_pika.abc.AbstractChannel]:
        """For questions whose answer may be that the channel is closed."""
        channel = await self.open_plain()
        try:
            yield channel
        finally:
            await close_channel(channel)

    async def control(self) -> aio_pika.abc.AbstractChannel:
        """For questions that do not close it."""
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
        """A real answer of the broker, soon. Raises what ``errors.EXPECTED`` names."""
        async with asyncio.timeout(PROBE_WITHIN):
            await (await self.control()).declare_exchange("amq.direct", passive=True)

    async def depth(self, queue: str) -> tuple[int, int]:
        """Messages ready, and consumers. Raises ChannelNotFoundEntity."""
        return counts(await (await self.control()).declare_queue(queue, passive=True))

    async def hang_up(self) -> None:
        """Bounded: politely where the peer listens, at once where it does not."""
        closing = asyncio.create_task(self.close())
        await asyncio.wait({closing}, timeout=CLOSE_WITHIN)
        if not closing.done():
            self.wire.abort()
            await asyncio.wait({closing}, timeout=CLOSE_WITHIN)
        closing.cancel()
        await asyncio.wait({closing}, timeout=CLOSE_WITHIN)
        self.wire.abort()
        if closing.done() and not closing.cancelled():
            closing.exception()  # seen, so that nobody warns of it

    async def drop(self) -> None:
        """Hang up without a word: nothing more of us shall arrive."""
        self.wire.abort()
        await self.hang_up()


def counts(queue: AbstractQueue) -> tuple[int, int]:
    """Messages ready, and consumers, as the broker answered the declaration of a queue."""
    found = queue.declaration_result
    return found.message_count or 0, found.consumer_count or 0


async def close_channel(channel: AbstractChannel | aio_pika.abc.AbstractChannel) -> None:
    """Bounded; no error when it is closed already."""
    if channel.is_closed:
        return
    with contextlib.suppress(*EXPECTED):
        async with asyncio.timeout(CLOSE_WITHIN):
            await channel.close()


async def connect(
    settings: RabbitSettings, client_id: str = "", changed: Callable[[], None] = lambda: None
) -> Wire:
    """To the first node that accepts the connection. Raises the error of the last one tried. They share the time of
    one request, so that a node that never answers cannot keep those behind it from being tried."""
    last: BaseException = ConnectionError("no address is given")
    urls = settings.urls(client_id)
    for url in urls:
        wire = Wire(url, settings, changed)
        try:
            async with asyncio.timeout(settings.request_timeout / len(urls)):
                await wire.connect()
        except EXPECTED as error:
            await wire.drop()
            last = error
        except BaseException:
            await wire.drop()
            raise
        else:
            return wire
    raise last
