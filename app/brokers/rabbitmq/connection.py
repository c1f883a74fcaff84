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

import aio_pika
from aio_pika.abc import AbstractChannel, AbstractQueue, UnderlayConnection
from aio_pika.tools import OneShotCallback

from app.brokers.rabbitmq.aiormq_adapter import URL, AnyChannel, Channel, Core
from app.brokers.rabbitmq.errors import EXPECTED
from app.brokers.rabbitmq.settings import RabbitSettings

CLOSE_WITHIN = 2.0  # seconds; a peer that does not read would let a close wait for ever
PROBE_WITHIN = 2.0

_numbers = itertools.count(1)


class Wire(aio_pika.Connection):
    """Connected once; lost for good when it is lost."""

    def __init__(self, url: URL, settings: RabbitSettings, changed: Callable[[], None]) -> None:
        """``changed``: called when ``blocked`` does."""
        super().__init__(url)
        self.number = next(_numbers)  # no other of this process has it
        self.core = Core(self.url, settings.vhost, settings.ssl_context(), changed)
        self._control: AbstractChannel | None = None

    async def connect(self, timeout: float | None = None) -> None:  # noqa: ASYNC109 - the library's own
        """As the library does, over our core."""
        async with asyncio.timeout(timeout):
            await self.core.connect()
        closing = OneShotCallback(self._on_connection_close)
        self.core.closing.add_done_callback(closing)
        self.transport = UnderlayConnection(connection=self.core, close_callback=closing)
        await self._on_connected()

    @property
    def is_closed(self) -> bool:
        """Also when it was lost: the library's own tells only of a close that was asked for."""
        return self.core.is_closed

    @property
    def closing(self) -> asyncio.Future[None]:
        """Done when the connection is lost or closed, with why."""
        return self.core.closing

    @property
    def blocked(self) -> str:
        """Why the broker takes no publishes; empty when it does."""
        return self.core.blocked

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
        self.core.write(frames)

    async def open_channel(self, make: Callable[[Core, int], AnyChannel]) -> AnyChannel:
        """Of the hot path."""
        self._still_open()
        return await self.core.open(make)

    @contextlib.asynccontextmanager
    async def throwaway(self) -> AsyncIterator[AbstractChannel]:
        """For questions whose answer may be that the channel is closed."""
        channel = await self.open_plain()
        try:
            yield channel
        finally:
            await close_channel(channel)

    async def control(self) -> AbstractChannel:
        """For questions that do not close it."""
        if self._control is None or self._control.is_closed:
            self._control = await self.open_plain()
        return self._control

    async def open_plain(self) -> AbstractChannel:
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
        closing = asyncio.create_task(self._close_all())
        await asyncio.wait({closing}, timeout=CLOSE_WITHIN)
        if not closing.done():
            self.core.transport.abort()
            await asyncio.wait({closing}, timeout=CLOSE_WITHIN)
        closing.cancel()
        await asyncio.wait({closing}, timeout=CLOSE_WITHIN)
        self.core.transport.abort()
        for task in (closing, *self.core.tasks()):
            if task.done() and not task.cancelled():
                task.exception()  # seen, so that nobody warns of it

    async def drop(self) -> None:
        """Hang up without a word: nothing more of us shall arrive."""
        self.core.transport.abort()
        await self.hang_up()

    async def _close_all(self) -> None:
        """Also a core that was never let in, of which the library knows nothing."""
        try:
            await self.core.close()
        finally:
            await self.close()


def counts(queue: AbstractQueue) -> tuple[int, int]:
    """Messages ready, and consumers, as the broker answered the declaration of a queue."""
    found = queue.declaration_result
    return found.message_count or 0, found.consumer_count or 0


async def close_channel(channel: Channel | AbstractChannel) -> None:
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
