"""HTTP/1.0 on both listeners: a body whose length nobody gave is never dropped in silence."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from app.gateway.server import HttpServer
from listening import ImmediatePublisher, listening
from raw_http import RawConnection

EVENT = b"ce-specversion: 1.0\r\nce-id: 1\r\nce-source: /s\r\nce-type: t\r\n"
LENGTH, CHUNKED = b"content-length: 4\r\n", b"transfer-encoding: chunked\r\n"
DATA, CHUNKS = b"data", b"4\r\ndata\r\n0\r\n\r\n"


class Seen:
    """What a listener let through."""

    def __init__(self) -> None:
        self.publisher = ImmediatePublisher()
        self.bodies: list[bytes] = []

    async def app(self, scope: Any, receive: Any, send: Any) -> None:
        body, more = b"", True
        while more:
            piece = await receive()
            body, more = body + piece.get("body", b""), piece.get("more_body", False)
        self.bodies.append(body)
        await send(
            {"type": "http.response.start", "status": 202, "headers": [(b"content-length", b"0")]}
        )
        await send({"type": "http.response.body", "body": b""})

    @property
    def all(self) -> list[bytes]:
        return [*self.bodies, *(request.body for request in self.publisher.requests)]


@asynccontextmanager
async def events(seen: Seen) -> AsyncIterator[int]:
    async with listening(seen.publisher) as server:
        yield server.port


@asynccontextmanager
async def admin(seen: Seen) -> AsyncIterator[int]:
    server = HttpServer(seen.app)
    await server.start()
    try:
        yield server.port
    finally:
        await server.stop(drain=0.1)


DOORS = {"events": (events, b"/events"), "admin": (admin, b"/v1/subscriptions")}


async def asked(
    door: str, head: bytes, body: bytes, seen: Seen, rest: bytes = b""
) -> tuple[int, str]:
    """The answer's status and title, after which the connection has ended."""
    opened, path = DOORS[door]
    async with opened(seen) as port, await RawConnection.open(port) as peer:
        await peer.send(head.replace(b"PATH", path), EVENT, b"\r\n", body, rest)
        answer = await peer.answer()
        assert await peer.closed() == b""
        problem = json.loads(answer.body) if answer.status >= 400 else {}
        return answer.status, problem.get("title", "")


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("method", [b"POST", b"PUT", b"PATCH"])
@pytest.mark.parametrize("keep", [b"", b"connection: keep-alive\r\n", b"connection: close\r\n"])
@pytest.mark.parametrize("body", [DATA, b""])
async def test_1_0_without_a_length_is_400(
    door: str, method: bytes, keep: bytes, body: bytes
) -> None:
    """RFC 1945 8.3: the body would be dropped, and its sender told that it was taken."""
    seen = Seen()
    status, title = await asked(door, method + b" PATH HTTP/1.0\r\n" + keep, body, seen)
    assert (status, seen.all) == (400, [])
    assert "Content-Length" in title


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("keep", [b"", b"connection: keep-alive\r\n"])
async def test_1_0_with_a_length_is_taken_and_the_connection_ends(door: str, keep: bytes) -> None:
    seen = Seen()
    head = b"POST PATH HTTP/1.0\r\n" + keep + LENGTH
    assert await asked(door, head, DATA, seen, rest=b"GET / HTTP/1.0\r\n\r\n") == (202, "")
    assert seen.all == [DATA]


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("method", [b"POST", b"PUT", b"GET", b"OPTIONS"])
@pytest.mark.parametrize("length", [b"", LENGTH])
async def test_1_0_has_no_transfer_coding(door: str, method: bytes, length: bytes) -> None:
    """RFC 9112 6.1: the framing is faulty, even beside a length."""
    seen = Seen()
    head = method + b" PATH HTTP/1.0\r\n" + length + CHUNKED
    status, _ = await asked(door, head, CHUNKS, seen)
    assert (status, seen.all) == (400, [])


@pytest.mark.parametrize("method", [b"GET", b"DELETE", b"OPTIONS"])
async def test_1_0_asks_no_length_of_what_has_no_body(method: bytes) -> None:
    seen = Seen()
    status, _ = await asked("admin", method + b" PATH HTTP/1.0\r\n", b"", seen)
    assert (status, seen.all) == (202, [b""])


@pytest.mark.parametrize("door", DOORS)
async def test_1_1_without_a_length_has_no_body(door: str) -> None:
    """RFC 9112 6.3."""
    seen = Seen()
    head = b"POST PATH HTTP/1.1\r\nhost: x\r\nconnection: close\r\n"
    assert await asked(door, head, b"", seen) == (202, "")
    assert seen.all == [b""]


@pytest.mark.parametrize("door", DOORS)
async def test_1_0_that_asks_for_an_upgrade_needs_a_length_too(door: str) -> None:
    seen = Seen()
    head = b"POST PATH HTTP/1.0\r\nconnection: upgrade\r\nupgrade: h2c\r\n"
    status, _ = await asked(door, head, DATA, seen)
    assert (status, seen.all) == (400, [])
