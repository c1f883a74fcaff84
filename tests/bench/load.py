"""The load: 64 keep-alive connections, one request in flight on each, requests built beforehand.

A process of its own, and as cheap as Python allows, so that the service is what fills its core.
Prints one line of JSON; ends with an error if any answer is not 202.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import time
from collections.abc import Iterator

import bench_events
import uvloop


class Sender(asyncio.Protocol):
    """Sends the next request when the answer to the last one is complete."""

    def __init__(self, supply: Iterator[bytes], done: asyncio.Future[None]) -> None:
        self._supply = supply
        self._done = done
        self._received = b""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override] # uvloop
        self._transport = transport
        self._next()

    def _next(self) -> None:
        request = next(self._supply, None)
        if request is not None:
            self._transport.write(request)
            return
        self._transport.close()
        self._finish(None)

    def data_received(self, data: bytes) -> None:
        self._received += data
        head, end, rest = self._received.partition(b"\r\n\r\n")
        if not end or len(rest) < content_length(head):
            return
        answer, self._received = self._received, b""
        if answer.startswith(b"HTTP/1.1 202"):
            self._next()
        else:
            self._finish(RuntimeError(f"unexpected answer {answer[:500]!r}"))

    def connection_lost(self, error: Exception | None) -> None:
        self._finish(error or RuntimeError("connection lost"))

    def _finish(self, error: Exception | None) -> None:
        if self._done.done():
            return
        if error is None:
            self._done.set_result(None)
        else:
            self._done.set_exception(error)


def content_length(head: bytes) -> int:
    _, found, after = head.lower().partition(b"content-length:")
    return int(after.partition(b"\r\n")[0]) if found else 0


def supply_of(
    host: str, shape: str, count: int, body: int, key: str | None, hook: str
) -> Iterator[bytes]:
    """All of them are built before the first is sent, but for those that may be sent again."""
    if hook:
        return iter(list(bench_events.hooks(count, host, hook)))
    if key is not None:
        field = f"\r\nauthorization: Bearer {key}\r\n" if key else "\r\n"
        return iter(list(bench_events.numbered(count, host, field)))
    return itertools.islice(itertools.cycle(bench_events.requests(shape, host, body)), count)


async def drive(
    port: int, shape: str, count: int, connections: int, body: int, key: str | None, hook: str
) -> float:
    """Seconds for ``count`` requests."""
    loop = asyncio.get_running_loop()
    supply = supply_of(f"127.0.0.1:{port}", shape, count, body, key, hook)
    senders = [loop.create_future() for _ in range(connections)]
    start = time.monotonic()
    for done in senders:
        await loop.create_connection(lambda done=done: Sender(supply, done), "127.0.0.1", port)
    await asyncio.gather(*senders)
    return time.monotonic() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--shape", choices=["single", "batch"], required=True)
    parser.add_argument("--requests", type=int, required=True)
    parser.add_argument("--connections", type=int, default=64)
    parser.add_argument(
        "--key", help="single events, each with an id of its own, with this key; empty: with none"
    )
    parser.add_argument("--hook", default="", help="to an intake, signed with this secret")
    parser.add_argument("--body", type=int, default=bench_events.BODY_SIZE, help="bytes, of single")
    given = parser.parse_args()
    options = (given.connections, given.body, given.key, given.hook)
    seconds = uvloop.run(drive(given.port, given.shape, given.requests, *options))
    per_request = 1 if given.shape == "single" else bench_events.BATCH
    print(json.dumps({"events": given.requests * per_request, "seconds": seconds}))


if __name__ == "__main__":
    main()
