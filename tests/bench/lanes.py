"""The least that keeps order per key: Kafka, one lane a key, webhooks on raw transports with httptools.

No filter, no retry, no time-out, no commit: a floor for what an ordered delivery can cost in Python.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence
from typing import Any

import httptools
from aiokafka import AIOKafkaConsumer
from bare_client import Counted

CONNECTIONS = 64
MOST = 2_000  # requests that wait in lanes; beyond them nothing is read


class Connection(asyncio.Protocol):
    """Keep-alive: one request out, then its answer."""

    def __init__(self, lanes: Lanes) -> None:
        self._lanes = lanes
        self.key = b""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override] # uvloop
        self._transport = transport
        self._parser = httptools.HttpResponseParser(self)
        self._lanes.free(self)

    def send(self, key: bytes, request: bytes) -> None:
        self.key = key
        self._transport.write(request)

    def data_received(self, data: bytes) -> None:
        self._parser.feed_data(data)

    def on_message_complete(self) -> None:
        if self._parser.get_status_code() != 204:
            raise RuntimeError(f"unexpected answer {self._parser.get_status_code()}")
        self._lanes.answered(self)


class Lanes:
    """Requests by key: of each key one is on the wire, the others wait behind it."""

    def __init__(self, counted: Counted) -> None:
        self._counted = counted
        self._lanes: dict[bytes, deque[bytes]] = {}
        self._ready: deque[bytes] = deque()  # keys whose oldest request waits for a connection
        self._idle: list[Connection] = []
        self._room = asyncio.Event()
        self._waiting = 0

    def put(self, key: bytes, request: bytes) -> None:
        self._waiting += 1
        lane = self._lanes.get(key)
        if lane is not None:
            lane.append(request)
            return
        self._lanes[key] = deque((request,))
        self._ready.append(key)
        if self._idle:
            self.free(self._idle.pop())

    def free(self, connection: Connection) -> None:
        if not self._ready:
            self._idle.append(connection)
            return
        key = self._ready.popleft()
        connection.send(key, self._lanes[key][0])

    def answered(self, connection: Connection) -> None:
        lane = self._lanes[connection.key]
        lane.popleft()
        if lane:
            self._ready.append(connection.key)
        else:
            del self._lanes[connection.key]
        self._waiting -= 1
        self._room.set()
        self._counted.add()
        self.free(connection)

    async def room(self) -> None:
        while self._waiting >= MOST:
            self._room.clear()
            await self._room.wait()


def request_of(head: bytes, headers: Sequence[tuple[str, bytes]], body: bytes) -> bytes:
    """Header names of the Kafka binding as those of HTTP."""
    fields = [b"%b: %b\r\n" % (name.replace("ce_", "ce-", 1).encode(), v) for name, v in headers]
    return b"%b%bcontent-length: %d\r\n\r\n%b" % (head, b"".join(fields), len(body), body)


async def deliver(consumer: AIOKafkaConsumer, port: int, counted: Counted) -> None:
    lanes, loop = Lanes(counted), asyncio.get_running_loop()
    head = b"POST / HTTP/1.1\r\nhost: 127.0.0.1:%d\r\n" % port
    for _ in range(CONNECTIONS):
        await loop.create_connection(lambda: Connection(lanes), "127.0.0.1", port)
    while not counted.all.done():
        found: dict[Any, list[Any]] = await consumer.getmany(timeout_ms=500, max_records=500)
        for records in found.values():
            for record in records:
                lanes.put(record.key, request_of(head, record.headers, record.value))
        await lanes.room()
