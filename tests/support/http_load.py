"""A load process for HTTP listeners: keep-alive connections, one request in flight on each.

``python http_load.py PORT CONNECTIONS REQUESTS`` posts the event below and prints, as one line of
JSON, how many were answered, with which status, and how long it took. It is a process of its own so
that the CPU time of the server under test is the server's alone.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections import Counter

import uvloop

BODY = b'{"order": 17, "text": "' + b"x" * 500 + b'"}'
EVENT = (
    b"POST /events HTTP/1.1\r\nhost: 127.0.0.1\r\nce-specversion: 1.0\r\n"
    b"ce-id: 6f0c1a4e-2d9b-4c51-8f0e-2d3c4b5a6978\r\nce-source: /shop/orders\r\n"
    b"ce-type: com.example.order.created\r\nce-time: 2026-01-01T00:00:00.123Z\r\n"
    b"ce-partitionkey: k17\r\ncontent-type: application/json\r\n"
    b"content-length: %d\r\n\r\n" % len(BODY)
) + BODY


class Client(asyncio.Protocol):
    """Sends the next request when the answer to the last one is whole (answers have no body)."""

    def __init__(self, load: Load) -> None:
        self.load = load
        self.buffer = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport
        self.next()

    def data_received(self, data: bytes) -> None:
        self.buffer += data
        if self.buffer.endswith(b"\r\n\r\n"):
            self.load.statuses[int(self.buffer[9:12])] += 1
            self.buffer = b""
            self.next()

    def next(self) -> None:
        if self.load.left > 0:
            self.load.left -= 1
            self.transport.write(EVENT)
        else:
            self.transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        self.load.open -= 1
        if not self.load.open:
            self.load.finished.set()


class Load:
    def __init__(self, connections: int, requests: int) -> None:
        self.left = requests
        self.open = connections
        self.statuses: Counter[int] = Counter()
        self.finished = asyncio.Event()


async def run(port: int, connections: int, requests: int) -> dict[str, object]:
    load = Load(connections, requests)
    loop = asyncio.get_running_loop()
    began = time.perf_counter()
    for _ in range(connections):
        await loop.create_connection(lambda: Client(load), "127.0.0.1", port)
    await load.finished.wait()
    seconds = time.perf_counter() - began
    return {"seconds": seconds, "statuses": dict(load.statuses)}


if __name__ == "__main__":
    print(json.dumps(uvloop.run(run(*map(int, sys.argv[1:4])))))
