"""The load: 64 keep-alive connections, one request in flight on each, requests built beforehand.

A process of its own, and as cheap as Python allows, so that the service is what fills its core.
Prints one line of JSON; ends with an error if any answer is not 202.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import ssl
import time
from collections.abc import Iterator
from functools import partial
from math import inf

import bench_events
import uvloop


class Sender(asyncio.Protocol):
    """Sends the next request when the answer to the last one is complete; ``deep`` are in flight at a time."""

    def __init__(
        self, supply: Iterator[bytes], done: asyncio.Future[None], expected: bytes, deep: int
    ) -> None:
        self._supply, self._done = supply, done
        self._expected, self._deep = b"HTTP/1.1 " + expected, deep
        self._open = 0
        self._received = b""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override] # uvloop
        self._transport = transport
        for _ in range(self._deep):
            self._next()

    def _next(self) -> None:
        request = next(self._supply, None)
        if request is not None:
            self._open += 1
            self._transport.write(request)
        elif not self._open:
            self._transport.close()
            self._finish(None)

    def data_received(self, data: bytes) -> None:
        self._received += data
        while (size := length_of_answer(self._received)) <= len(self._received):
            answer, self._received = self._received[:size], self._received[size:]
            if not answer.startswith(self._expected):
                self._finish(RuntimeError(f"unexpected answer {answer[:500]!r}"))
                self._transport.close()
                return
            self._open -= 1
            self._next()

    def connection_lost(self, error: Exception | None) -> None:
        self._finish(error or RuntimeError("connection lost"))

    def _finish(self, error: Exception | None) -> None:
        if self._done.done():
            return
        if error is None:
            self._done.set_result(None)
        else:
            self._done.set_exception(error)


def length_of_answer(received: bytes) -> float:
    """Bytes of the first answer, endless while its head is incomplete. A chunked one is read to its last chunk."""
    head, end, rest = received.partition(b"\r\n\r\n")
    if not end:
        return inf
    if b"chunked" in head.lower():
        last = rest.find(b"0\r\n\r\n")
        return inf if last < 0 else len(head) + 4 + last + 5
    return len(head) + 4 + content_length(head)


def content_length(head: bytes) -> int:
    _, found, after = head.lower().partition(b"content-length:")
    return int(after.partition(b"\r\n")[0]) if found else 0


def supply_of(given: argparse.Namespace) -> Iterator[bytes]:
    """All of them are built before the first is sent, but for those that may be sent again and for large ones."""
    host, count = f"127.0.0.1:{given.port}", given.requests
    if given.hook:
        return iter(list(bench_events.hooks(count, host, given.hook)))
    if given.key is not None:
        field = f"\r\nauthorization: Bearer {given.key}\r\n" if given.key else "\r\n"
        return iter(list(bench_events.numbered(count, host, field)))
    return itertools.islice(_again_and_again(given, host), count)


def _again_and_again(given: argparse.Namespace, host: str) -> Iterator[bytes]:
    words = (given.shape, host, given.body, given.path, given.types)
    built = bench_events.requests(*words)
    while True:
        yield from built
        if not isinstance(built, list):
            built = bench_events.requests(*words)


async def drive(given: argparse.Namespace) -> float:
    """Seconds for all requests."""
    loop, supply = asyncio.get_running_loop(), supply_of(given)
    first = next(supply)  # built before the clock begins
    supply = itertools.chain((first,), supply)
    tls = _trusting() if given.tls else None
    senders = [loop.create_future() for _ in range(given.connections)]
    expected, start = given.expect.encode(), time.monotonic()

    def make(done: asyncio.Future[None]) -> Sender:
        return Sender(supply, done, expected, given.deep)

    for done in senders:
        await loop.create_connection(partial(make, done), "127.0.0.1", given.port, ssl=tls)
    await asyncio.gather(*senders)
    return time.monotonic() - start


def _trusting() -> ssl.SSLContext:
    """Any certificate: what is measured is the server's side."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--shape", choices=["single", "batch"], required=True)
    parser.add_argument("--requests", type=int, required=True)
    parser.add_argument("--connections", type=int, default=64)
    parser.add_argument("--deep", type=int, default=1, help="requests in flight on a connection")
    parser.add_argument(
        "--key", help="single events, each with an id of its own, with this key; empty: with none"
    )
    parser.add_argument("--hook", default="", help="to an intake, signed with this secret")
    parser.add_argument("--body", type=int, default=bench_events.BODY_SIZE, help="bytes, of single")
    parser.add_argument("--types", type=int, default=1, help="of single events")
    parser.add_argument("--path", default=bench_events.PATH)
    parser.add_argument("--tls", action="store_true")
    parser.add_argument("--expect", default="202", help="how the status of each answer begins")
    given = parser.parse_args()
    seconds = uvloop.run(drive(given))
    per_request = 1 if given.shape == "single" else bench_events.BATCH
    print(json.dumps({"events": given.requests * per_request, "seconds": seconds}))


if __name__ == "__main__":
    main()
