"""The receiving webhook: counts requests into a shared file and keeps the first one's bytes.

Eight bytes of ``--count`` hold the count, so that reading it costs neither side a system call;
``--first`` gets the first request as it was on the wire.
"""

from __future__ import annotations

import argparse
import asyncio
import mmap
import struct
from pathlib import Path

import httptools
import uvloop

ANSWER = b"HTTP/1.1 204 No Content\r\n\r\n"
COUNT = struct.Struct("<Q")


class Receiver(asyncio.Protocol):
    def __init__(self, sink: Sink) -> None:
        self._sink = sink

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override] # uvloop
        self._transport = transport
        self._parser = httptools.HttpRequestParser(self)

    def data_received(self, data: bytes) -> None:
        self._sink.keep(data)
        self._parser.feed_data(data)

    def on_message_complete(self) -> None:
        self._transport.write(ANSWER)
        self._sink.add()


class Sink:
    def __init__(self, count: Path, first: Path) -> None:
        with count.open("r+b") as file:
            self._shared = mmap.mmap(file.fileno(), COUNT.size)
        self._first = first
        self._begun = b""
        self._count = 0

    def keep(self, data: bytes) -> None:
        if self._count == 0:
            self._begun += data

    def add(self) -> None:
        self._count += 1
        if self._count == 1:
            self._first.write_bytes(self._begun)
        COUNT.pack_into(self._shared, 0, self._count)


async def serve(port: int, sink: Sink) -> None:
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: Receiver(sink), "127.0.0.1", port)
    await server.serve_forever()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--count", type=Path, required=True)
    parser.add_argument("--first", type=Path, required=True)
    options = parser.parse_args()
    uvloop.run(serve(options.port, Sink(options.count, options.first)))


if __name__ == "__main__":
    main()
