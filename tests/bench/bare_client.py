"""The floor of delivery: a bare aiohttp client that posts the very bytes the service posted.

Prints one line of JSON with the process's own CPU time a request, counted from the first answer to the last.
"""

from __future__ import annotations

import argparse
import asyncio
import json
from pathlib import Path
from time import process_time

import aiohttp
import uvloop

BY_CLIENT = {"host", "content-length", "accept", "accept-encoding", "user-agent", "connection"}
IN_FLIGHT = 64


class Counted:
    """``all``: microseconds of the process's CPU a delivery, from the first to the last."""

    def __init__(self, total: int) -> None:
        self._total, self._count, self._before = total, 0, 0.0
        self.all: asyncio.Future[float] = asyncio.get_running_loop().create_future()

    def add(self) -> None:
        self._count += 1
        if self._count == 1:
            self._before = process_time()
        if self._count == self._total:
            used = process_time() - self._before
            self.all.set_result(1e6 * used / (self._total - 1))


def parse(request: bytes) -> tuple[dict[str, str], bytes]:
    """Header fields, without those every client writes by itself, and the body."""
    head, _, body = request.partition(b"\r\n\r\n")
    fields = (line.partition(": ") for line in head.decode("latin-1").split("\r\n")[1:])
    return {name: value for name, _, value in fields if name.lower() not in BY_CLIENT}, body


async def measure(url: str, first: bytes, count: int) -> float:
    """Microseconds of CPU a request, 64 in flight."""
    headers, body = parse(first)
    supply, counted = iter(range(count)), Counted(count)

    async def worker(session: aiohttp.ClientSession) -> None:
        for _ in supply:
            async with session.post(url, data=body, headers=headers) as answer:
                await answer.read()
            counted.add()

    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=IN_FLIGHT)) as session:
        await asyncio.gather(*(worker(session) for _ in range(IN_FLIGHT)))
    return await counted.all


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--first", type=Path, required=True)
    parser.add_argument("--requests", type=int, required=True)
    options = parser.parse_args()
    url = f"http://127.0.0.1:{options.port}/"
    cost = uvloop.run(measure(url, options.first.read_bytes(), options.requests))
    print(json.dumps({"microseconds": cost}))


if __name__ == "__main__":
    main()
