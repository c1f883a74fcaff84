"""What the short way is for: a POST costs less CPU than under a bare ASGI callable (ADR 0002)."""

from __future__ import annotations

import asyncio
import json
import sys
import time
from pathlib import Path

import http_load
from app.gateway import guard
from app.gateway.answers import ACCEPTED
from listening import AtOnce, listening, serve_ordinary

REQUESTS = 4000
ROUNDS = 3


async def microseconds(port: int) -> float:
    """CPU time of this process for each request of a load that runs in a process of its own."""
    command = [http_load.__file__, str(port), "64", str(REQUESTS)]
    load = await asyncio.create_subprocess_exec(
        sys.executable,
        *command,
        stdout=asyncio.subprocess.PIPE,
        cwd=Path(http_load.__file__).parent,
    )
    began = time.process_time()
    output, _ = await load.communicate()
    spent = time.process_time() - began
    (answered,) = json.loads(output)["statuses"].values()
    assert answered == REQUESTS
    return spent / REQUESTS * 1e6


class Quiet(AtOnce):
    """Remembers nothing: the listener alone is measured."""

    def publish(self, request, done):
        return ACCEPTED


async def test_a_post_costs_less_than_under_a_bare_asgi_callable(monkeypatch) -> None:
    """Else the short way would be complexity for nothing. Both in one run by turns, the best of a few:
    0.5 to 0.8 of it is usual."""
    async with listening(Quiet()) as server:
        monkeypatch.setattr(guard, "KNOWN_VERSIONS", frozenset())
        async with listening(Quiet()) as plain:
            serve_ordinary(plain, bare_app)
            rounds = [
                (await microseconds(server.port), await microseconds(plain.port))
                for _ in range(ROUNDS)
            ]
    ours, bare = (min(figures) for figures in zip(*rounds, strict=True))
    print(f"listener {ours:.1f} us, bare ASGI callable {bare:.1f} us of CPU a POST")
    assert ours < bare


async def bare_app(scope, receive, send) -> None:
    """The plain floor: reads the body, stores nothing, answers 202."""
    more = True
    while more:
        more = (await receive())["more_body"]
    await send(
        {"type": "http.response.start", "status": 202, "headers": [(b"content-length", b"0")]}
    )
    await send({"type": "http.response.body"})
