"""The small server under the admin listener and the webhook receiver."""

from __future__ import annotations

import asyncio
import signal
import socket
from typing import Any

import httpx
import pytest

from app.errors import SetupError
from app.gateway.server import HttpServer


async def _hello(scope: Any, receive: Any, send: Any) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b"hello"})


async def test_port_0_is_known_once_started() -> None:
    """Tests and the demo run beside anything else."""
    server = HttpServer(_hello)
    await server.start()
    try:
        async with httpx.AsyncClient(trust_env=False, timeout=120) as client:
            assert (await client.get(server.url)).text == "hello"
    finally:
        await server.stop(drain=0.1)


async def test_a_taken_port_is_a_setup_error_that_names_the_setting() -> None:
    """The commonest failure of a first start."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        server = HttpServer(_hello, port=port, settings="server.admin.{}")
        with pytest.raises(SetupError, match=str(port)) as refusal:
            await server.start()
    assert refusal.value.setting == "server.admin.port"
    assert refusal.value.cure


async def test_it_leaves_the_signals_alone() -> None:
    """Only runtime.signals owns them: uvicorn's own handlers would end the process its way."""
    before = signal.getsignal(signal.SIGTERM)
    server = HttpServer(_hello)
    await server.start()
    during = signal.getsignal(signal.SIGTERM)
    await server.stop(drain=0.1)
    assert before is during


async def test_stop_ends_streams_that_never_end_by_themselves() -> None:
    """A stream must not hold up the end of the process beyond its grace."""

    async def endless(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"x", "more_body": True})
        await asyncio.Event().wait()

    server = HttpServer(endless)
    await server.start()
    async with (
        httpx.AsyncClient(trust_env=False, timeout=120) as client,
        client.stream("GET", server.url),
    ):
        async with asyncio.timeout(60):
            await server.stop(drain=0.1)
