"""The target of the laboratory: a webhook for each subscription, which writes every attempt into the history.

A program of the host ``target``. The last part of the path names the subscription, the address of the client its
worker. Each line on standard input is JSON: ``{"subscription": "moody", "mode": "refuse"}``, ``{"delay": 0.1}`` or
``{"names": "hang"}``, for the DNS server of the same host (``proof.names``). The program ends when standard input closes.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import time
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from proof.history import Delivery, Event, HistoryWriter
from proof.http_by_hand import Message, received, take_message
from proof.names import Names
from proof.relay import Relay

MODES = ("answer", "refuse", "refuse-all", "silent", "close")
REFUSED = 4  # ``refuse`` answers 503 to the events of one key in so many
_ANSWERS = {204: b"HTTP/1.1 204 X\r\n\r\n", 503: b"HTTP/1.1 503 X\r\ncontent-length: 0\r\n\r\n"}


class Target:
    """The webhooks. ``modes`` has what each subscription is answered, by default 204.

    - ``refuse``: 503 to one key in four; ``refuse-all``: to all.
    - ``silent``: the request is read, and nothing is answered.
    - ``close``: the connection is closed instead of an answer.
    """

    def __init__(self, history: HistoryWriter, workers: Mapping[str, str]) -> None:
        self.modes: dict[str, str] = {}
        self.history = history
        self.workers = workers

    def status(self, subscription: str, events: Sequence[Event]) -> int | None:
        """Return the status with which an attempt is answered, or None without an answer."""
        mode = self.modes.get(subscription, "answer")
        if mode in {"silent", "close"}:
            return None
        chosen = any(zlib.crc32(each.key.encode()) % REFUSED == 0 for each in events)
        return 503 if mode == "refuse-all" or (mode == "refuse" and chosen) else 204


class Attempts(asyncio.Protocol):
    """One connection of a worker to the target. It writes each attempt into the history before it answers.

    Args:
        worker: The name of the worker. If it is None, the first line names the client (``proof.relay``).
    """

    def __init__(self, target: Target, worker: str | None = None) -> None:
        self._target, self._worker = target, worker
        self._buffer = bytearray()
        self._begun = 0.0
        self._unanswered: Delivery | None = None
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        """Answer the requests that are whole now. A worker sends the next one after the answer."""
        if not self._buffer:
            self._begun = time.monotonic()
        self._buffer += data
        if self._worker is None and not self._named():
            return
        while (message := take_message(self._buffer)) is not None:
            self._attempt(message)

    def connection_lost(self, _: Exception | None) -> None:
        """Write the attempt that was not answered. The worker has given it up now."""
        if self._unanswered is not None:
            self._write(replace(self._unanswered, end=time.monotonic()))

    def _named(self) -> bool:
        """Take the line that names the client from the buffer. Return False if it is not whole yet."""
        line, end, rest = self._buffer.partition(b"\n")
        if not end:
            return False
        address = line.decode().split()[2]
        self._worker, self._buffer = self._target.workers.get(address, address), rest
        return True

    def _attempt(self, message: Message) -> None:
        assert self._transport is not None
        assert self._worker is not None
        subscription = message.first.split()[1].rpartition("/")[2]
        events = received(message)
        status = self._target.status(subscription, events)
        now = time.monotonic()
        attempt = Delivery(subscription, self._worker, self._begun, now, status, events)
        if self._target.modes.get(subscription) == "silent":
            self._unanswered = attempt
            return
        self._write(attempt)
        if status is None:
            self._transport.close()
        else:
            self._transport.write(_ANSWERS[status])

    def _write(self, attempt: Delivery) -> None:
        self._target.history.write(attempt)
        self._target.history.flush()


async def obey(target: Target, relay: Relay, names: Names) -> None:
    """Obey the lines of standard input until it closes."""
    while line := await asyncio.to_thread(sys.stdin.readline):
        told = json.loads(line)
        if "delay" in told:
            relay.delay = told["delay"]
        elif "names" in told:
            names.mode = told["names"]
        else:
            target.modes[told["subscription"]] = told["mode"]


async def main(options: argparse.Namespace) -> None:
    history = HistoryWriter(options.history)
    target = Target(history, json.loads(options.workers))
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: Attempts(target), "127.0.0.1", 0, backlog=512)
    relay = Relay(server.sockets[0].getsockname()[1])
    await relay.listen(options.port)
    names = Names(options.address, options.other)
    await names.start(options.address)
    await obey(target, relay, names)
    names.stop()
    history.close()


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--history", type=Path, required=True)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument(
        "--workers", required=True, help="JSON: the names of hosts by their addresses"
    )
    parser.add_argument("--address", required=True, help="address of this host")
    parser.add_argument("--other", required=True, help="address of a host without a target")
    asyncio.run(main(parser.parse_args()))
