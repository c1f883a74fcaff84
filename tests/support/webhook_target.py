"""A webhook on a free loopback port that answers as a test decides, and records every request."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from app.interfaces import Sink
from app.model.subscription import Subscription
from app.sinks.http_client import HttpClient
from app.sinks.webhook import WebhookSink
from loopback_server import LoopbackServer


@dataclass
class Received:
    """A request that the webhook received.

    Attributes:
        connection: The number of its connection, counted from 0.
        at: The time of the event loop, in seconds.
    """

    method: str
    path: str
    headers: list[tuple[str, bytes]]
    body: bytes
    connection: int
    at: float
    raw_head: bytes = field(repr=False, default=b"")

    def header(self, name: str) -> str:
        values = [value for key, value in self.headers if key == name]
        assert len(values) == 1, (name, values)
        return values[0].decode("latin-1")

    def has(self, name: str) -> bool:
        return any(key == name for key, _ in self.headers)

    @property
    def id(self) -> str:
        return self.header("ce-id")


Answer = Callable[[Received], "bytes | Awaitable[bytes | None] | None"]


def status(code: int, *headers: str, body: bytes = b"") -> bytes:
    lines = [f"HTTP/1.1 {code} X", f"Content-Length: {len(body)}", *headers]
    return "\r\n".join([*lines, "", ""]).encode() + body


class WebhookTarget(LoopbackServer):
    """A webhook whose answers a test decides.

    Attributes:
        answer: Return the raw response to a request, or None to close the connection instead.
        consent: Return the raw response to an OPTIONS request, or None to close the connection.
        asked: The OPTIONS requests.
        received: All other requests.
    """

    def __init__(self, answer: Answer = lambda _: status(204)) -> None:
        self.answer = answer
        self.consent: Callable[[Received], bytes | None] = lambda _: status(405)
        self.asked: list[Received] = []
        self.received: list[Received] = []
        self.connections = 0
        super().__init__()

    async def start(self, tls: ssl.SSLContext | None = None, host: str = "127.0.0.1") -> None:
        await self.listen(tls, host)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/hook"

    @property
    def ids(self) -> list[str]:
        return [request.id for request in self.received]

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._begin(self._serve(reader, writer, self.connections))
        self.connections += 1

    async def _serve(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, number: int
    ) -> None:
        try:
            while (request := await self._read(reader, number)) is not None:
                if request.method == "OPTIONS":
                    self.asked.append(request)
                    answer: bytes | Awaitable[bytes | None] | None = self.consent(request)
                else:
                    self.received.append(request)
                    answer = self.answer(request)
                if not isinstance(answer, bytes | None):
                    answer = await answer
                if answer is None:
                    break
                writer.write(answer)
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            return
        finally:
            writer.transport.abort()

    async def _read(self, reader: asyncio.StreamReader, number: int) -> Received | None:
        head = await reader.readuntil(b"\r\n\r\n")
        first, *lines = head[:-4].split(b"\r\n")
        method, path, _ = first.decode().split(" ")
        headers = [
            (name.decode().lower(), value.strip())
            for name, _, value in (line.partition(b":") for line in lines)
        ]
        length = int(dict(headers).get("content-length", b"0"))
        body = await reader.readexactly(length)
        at = asyncio.get_running_loop().time()
        return Received(method, path, headers, body, number, at, head)


def to_loopback(subscription: Subscription) -> Sink:
    """Return the webhook sink of a subscription, allowed to reach loopback addresses."""
    client = HttpClient(allow_private=("127.0.0.0/8",), connections=subscription.concurrency)
    return WebhookSink(subscription, client)
