"""The floor of delivery: a bare aiohttp client that posts the very bytes the service posted.

Prints one line of JSON with the process's own CPU time a request, warm-up left out.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
from pathlib import Path

import aiohttp
import uvloop

BY_CLIENT = {"host", "content-length", "accept", "accept-encoding", "user-agent", "connection"}
IN_FLIGHT = 64


def own_cpu() -> float:
    times = os.times()
    return times.user + times.system


def parse(request: bytes) -> tuple[dict[str, str], bytes]:
    """Header fields, without those every client writes by itself, and the body."""
    head, _, body = request.partition(b"\r\n\r\n")
    fields = (line.partition(": ") for line in head.decode("latin-1").split("\r\n")[1:])
    return {name: value for name, _, value in fields if name.lower() not in BY_CLIENT}, body


async def post(url: str, first: bytes, count: int) -> float:
    """Seconds of CPU for ``count`` requests, 64 in flight."""
    headers, body = parse(first)
    supply = iter(range(count))

    async def worker(session: aiohttp.ClientSession) -> None:
        for _ in supply:
            async with session.post(url, data=body, headers=headers) as answer:
                await answer.read()

    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=IN_FLIGHT)) as session:
        before = own_cpu()
        await asyncio.gather(*(worker(session) for _ in range(IN_FLIGHT)))
        return own_cpu() - before


async def measure(url: str, first: bytes, count: int) -> float:
    await post(url, first, count // 10)
    return await post(url, first, count)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--first", type=Path, required=True)
    parser.add_argument("--requests", type=int, required=True)
    options = parser.parse_args()
    url = f"http://127.0.0.1:{options.port}/"
    seconds = uvloop.run(measure(url, options.first.read_bytes(), options.requests))
    print(json.dumps({"microseconds": 1e6 * seconds / options.requests}))


if __name__ == "__main__":
    main()
