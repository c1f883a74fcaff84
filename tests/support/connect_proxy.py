"""A small HTTP proxy on loopback, with CONNECT tunnels for https and whole URLs for http, that can
fail in many ways.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Mapping
from urllib.parse import urlsplit

from loopback_server import LoopbackServer


class ConnectProxy(LoopbackServer):
    """An HTTP proxy whose failures a test sets by attributes.

    ``hosts`` maps host names to real addresses. ``refusal`` is the status of every answer, and
    ``login`` the Proxy-Authorization that requests must have. ``silent`` accepts connections and
    never answers; ``cuts`` closes them without an answer. ``welcome`` is the answer to a CONNECT
    that succeeds. ``requests`` has the first line of each request, ``heads`` the whole request
    head.
    """

    def __init__(self, hosts: Mapping[str, tuple[str, int]]) -> None:
        self.hosts = dict(hosts)
        self.refusal = 0
        self.login = ""
        self.silent = False
        self.cuts = False
        self.welcome = b"HTTP/1.1 200 OK\r\n\r\n"
        self.requests: list[str] = []
        self.heads: list[bytes] = []
        super().__init__()

    async def start(self, tls: ssl.SSLContext | None = None) -> None:
        await self.listen(tls)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._begin(self._serve(reader, writer))

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = await reader.readuntil(b"\r\n\r\n")
            self.heads.append(head)
            self.requests.append(head.split(b"\r\n", 1)[0].decode())
            if self.silent:
                await asyncio.Event().wait()
            elif not self.cuts:
                await self._pass_on(head, reader, writer)
        except (asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            return
        finally:
            writer.transport.abort()

    async def _pass_on(
        self, head: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        status = self._status(head)
        place = self._place(head)
        if not status and place is None:
            status = 502
        if status or place is None:
            writer.write(f"HTTP/1.1 {status} X\r\nContent-Length: 0\r\n\r\n".encode())
            await writer.drain()
            return
        try:
            there_reads, there_writes = await asyncio.open_connection(*place)
        except OSError:
            writer.write(b"HTTP/1.1 502 X\r\nContent-Length: 0\r\n\r\n")
            await writer.drain()
            return
        try:
            if head.startswith(b"CONNECT"):
                writer.write(self.welcome)
            else:
                there_writes.write(head)
            await _both_ways((reader, there_writes), (there_reads, writer))
        finally:
            there_writes.transport.abort()

    def _status(self, head: bytes) -> int:
        if self.login and f"proxy-authorization: {self.login}".lower().encode() not in head.lower():
            return 407
        return self.refusal

    def _place(self, head: bytes) -> tuple[str, int] | None:
        method, target, _ = head.split(b"\r\n", 1)[0].decode().split(" ")
        named = target if method == "CONNECT" else urlsplit(target).netloc
        return self.hosts.get(named.rpartition(":")[0] or named)


async def _both_ways(*ways: tuple[asyncio.StreamReader, asyncio.StreamWriter]) -> None:
    pipes = [asyncio.ensure_future(_pipe(*way)) for way in ways]
    try:
        await asyncio.wait(pipes, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for pipe in pipes:
            pipe.cancel()
        await asyncio.wait(pipes)


async def _pipe(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while chunk := await reader.read(65_536):
        writer.write(chunk)
        await writer.drain()
