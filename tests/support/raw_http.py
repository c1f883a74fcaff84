"""Raw HTTP over sockets for tests of the listener.

No client library is in between: a test decides exactly which bytes are sent and when.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Self

PATIENCE = 120.0  # seconds; the bound of every wait in these tests


@dataclass
class RawAnswer:
    """A parsed HTTP response."""

    status: int
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""


class Closed(Exception):
    """The peer closed the connection where an answer was expected."""


class RawConnection:
    """A connection on which a test writes raw bytes and reads HTTP responses."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    @classmethod
    async def open(
        cls, port: int, tls: ssl.SSLContext | None = None, *, limit: int = 2**16
    ) -> RawConnection:
        hostname = "localhost" if tls else None
        return cls(
            *await asyncio.open_connection(
                "127.0.0.1", port, ssl=tls, server_hostname=hostname, limit=limit
            )
        )

    async def send(self, *parts: bytes) -> None:
        self.writer.write(b"".join(parts))
        async with asyncio.timeout(PATIENCE):
            await self.writer.drain()

    async def answer(self, *, head: bool = False) -> RawAnswer:
        """Return the next response. Interim responses (1xx) are returned too."""
        async with asyncio.timeout(PATIENCE):
            return await self._answer(head)

    async def _answer(self, head: bool) -> RawAnswer:
        try:
            raw = await self.reader.readuntil(b"\r\n\r\n")
        except (asyncio.IncompleteReadError, ConnectionError) as error:
            raise Closed from error
        status_line, *lines = raw.decode("latin-1").strip().split("\r\n")
        headers = {
            name.lower(): value.strip()
            for name, _, value in (line.partition(":") for line in lines)
        }
        answer = RawAnswer(int(status_line.split()[1]), headers)
        if not head and answer.status >= 200:
            answer.body = await self._body(headers)
        return answer

    async def _body(self, headers: Mapping[str, str]) -> bytes:
        if headers.get("transfer-encoding") == "chunked":
            return await self._chunks()
        return await self.reader.readexactly(int(headers.get("content-length", "0")))

    async def _chunks(self) -> bytes:
        body = b""
        while size := int(await self.reader.readuntil(b"\r\n"), 16):
            body += await self.reader.readexactly(size)
            await self.reader.readexactly(2)
        await self.reader.readexactly(2)
        return body

    async def answers(self, count: int) -> list[RawAnswer]:
        return [await self.answer() for _ in range(count)]

    async def closed(self) -> bytes:
        """Wait until the peer closes the connection, and return the bytes that it still sent."""
        async with asyncio.timeout(PATIENCE):
            try:
                return await self.reader.read()
            except ConnectionError:
                return b""

    def reset(self) -> None:
        """Abort the connection, so that the peer gets a reset instead of an end of stream."""
        sock = self.writer.get_extra_info("socket")
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.writer.transport.abort()

    async def close(self) -> None:
        self.writer.close()
        try:
            async with asyncio.timeout(PATIENCE):
                await self.writer.wait_closed()
        except (ConnectionError, ssl.SSLError):
            pass

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.close()


def request(
    target: str = "/events",
    body: bytes = b"",
    *,
    method: str = "POST",
    headers: Sequence[tuple[str, str | bytes]] = (),
    length: bool = True,
    version: str = "1.1",
) -> bytes:
    """Return the bytes of one request; ``length`` decides whether there is a Content-Length."""
    head = f"{method} {target} HTTP/{version}\r\nhost: x\r\n".encode()
    for name, value in headers:
        text = value if isinstance(value, bytes) else value.encode()
        head += name.encode() + b": " + text + b"\r\n"
    if length:
        head += b"content-length: %d\r\n" % len(body)
    return head + b"\r\n" + body


def event(
    number: int | str = 1, body: bytes = b"{}", *, target: str = "/events", **more: str
) -> bytes:
    """Return a valid binary-mode event whose id is ``number``.

    ``more`` are further headers, with ``_`` in place of ``-``.
    """
    headers = [
        ("ce-specversion", "1.0"),
        ("ce-id", str(number)),
        ("ce-source", "/test"),
        ("ce-type", "com.example.test"),
        ("content-type", "application/json"),
        *((name.replace("_", "-"), value) for name, value in more.items()),
    ]
    return request(target, body, headers=headers)
