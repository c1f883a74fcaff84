"""What the webhooks of the benches share: HTTP as cheap as Python allows, one answer a request."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import httptools


class Receiver(asyncio.Protocol):
    """One connection. A subclass says what to do with a complete request: ``on_message_complete``."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override] # uvloop
        self._transport = transport
        self._parser = httptools.HttpRequestParser(self)

    def data_received(self, data: bytes) -> None:
        self._parser.feed_data(data)


async def listen(port: int, make: Callable[[], Receiver]) -> asyncio.AbstractServer:
    return await asyncio.get_running_loop().create_server(make, "127.0.0.1", port)


async def serve(port: int, make: Callable[[], Receiver]) -> None:
    """For good."""
    await (await listen(port, make)).serve_forever()
