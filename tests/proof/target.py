"""The target of the laboratory: a webhook for each subscription, which writes every attempt into the history.

A program of the host ``target``. The last part of the path names the subscription, the address of the client its
worker. Each line on standard input is JSON: ``{"subscription": "moody", "mode": "refuse"}``, ``{"delay": 0.1}`` or
``{"names": "hang"}``, for the DNS server of the same host (``proof.names``). The program ends when standard input closes.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import sys
import time
import zlib
from collections.abc import Mapping
from pathlib import Path

from proof.history import Delivery, Event, HistoryWriter
from proof.http_by_hand import read_message, received
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
        self._history = history
        self._workers = workers

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one connection until it ends. Its first line names the client (``proof.relay``)."""
        try:
            address = (await reader.readline()).decode().split()[2]
            await self.attempts(self._workers.get(address, address), reader, writer)
        except (OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError, IndexError):
            writer.close()

    async def attempts(
        self, worker: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        """Serve the attempts of a worker on one connection until it ends."""
        with contextlib.suppress(OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            while await self._attempt(worker, reader, writer):
                pass
        writer.close()

    async def _attempt(
        self, worker: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> bool:
        """Read a request, write it into the history and answer it. Return False to close the connection."""
        message = await read_message(reader)
        start = time.monotonic()
        subscription = message.first.split()[1].rpartition("/")[2]
        event = received(message)
        status = self._status(subscription, event)
        if self.modes.get(subscription) == "silent":
            await reader.read(1)  # returns when the worker has given up
        self._history.write(
            Delivery(subscription, worker, start, time.monotonic(), status, (event,))
        )
        self._history.flush()
        if status is None:
            return False
        writer.write(_ANSWERS[status])
        await writer.drain()
        return True

    def _status(self, subscription: str, event: Event) -> int | None:
        mode = self.modes.get(subscription, "answer")
        if mode in {"silent", "close"}:
            return None
        chosen = zlib.crc32(event.key.encode()) % REFUSED == 0
        return 503 if mode == "refuse-all" or (mode == "refuse" and chosen) else 204


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
    server = await asyncio.start_server(target.serve, "127.0.0.1", 0, backlog=512)
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
