"""A program with many attackers of one service: peers with few rights or none, who use up
connections and processor time.

``attackers.py EVENTS ADMIN KAFKA`` takes the three ports and runs until it is killed. It is a
process of its own, so that it shares no interpreter with the senders whose answers are measured.
The attackers have an IP address of their own.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import random
import sys
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any

from large_requests import BATCH, EVENT, YAML

READ, CONFIGURE, SENDER = (
    "the-token-that-reads",
    "the-token-that-configures",
    "the-key-of-the-sender",
)
ADDRESS = "127.0.0.2"  # loopback is all of 127.0.0.0/8
PATIENCE = 10.0  # seconds that an attacker waits for an answer
PAUSE = 0.05  # seconds between two tries of one attacker
HELD = 2.0  # seconds that idle and unfinished connections are held
WRONG = {"authorization": "Bearer no-such-token"}

Attack = Callable[[], Awaitable[int]]


class Attackers:
    """All kinds of attack, each as a coroutine that makes one attempt."""

    def __init__(self, events: int, admin: int, kafka: int) -> None:
        self._events = events
        self._admin = admin
        self._kafka = kafka
        self._chance = random.Random(0)
        many = [{**EVENT, "id": str(number)} for number in range(80)]
        self._explained = json.dumps(many).encode()
        self._proposed = b"version: 1\nroutes: [" + b", ".join([b"{x: 1}"] * 2_000) + b"]\n"

    def kinds(self) -> dict[str, tuple[int, Attack]]:
        """Return the kinds of attack by name. Each kind has the number of attackers that run, and
        the coroutine of one attempt."""
        return {
            "idle": (100, self._idle),
            "unfinished head": (50, self._half_a_head),
            "unfinished body": (50, self._half_a_body),
            "unfinished intake": (50, self._half_an_intake),
            "bad token": (4, lambda: self._ask(self._events, "POST", "/events", json.dumps(EVENT).encode(), WRONG)),
            "wrong login": (4, lambda: self._ask(self._admin, "POST", "/v1/session", b'{"token": "wrong"}', JSON)),
            "stranger at an intake": (4, self._stranger),
            "explain": (2, lambda: self._ask(self._admin, "POST", "/v1/explain", self._explained, {**BATCH, **bearer(READ)})),
            "check": (2, lambda: self._ask(self._admin, "POST", "/v1/config:check", self._proposed, {**YAML, **bearer(CONFIGURE)})),
            "Kafka junk": (20, self._junk),
        }  # fmt: skip

    async def run(self) -> None:
        """Run all attackers until the program is killed, and print the counts of attempts once a
        second.

        The counts are by kind and HTTP status. The status is 0 for connections that are only held
        open.
        """
        tries: dict[str, Counter[int]] = {name: Counter() for name in self.kinds()}

        async def go_on(name: str, attack: Attack) -> None:
            while True:
                status = 0
                with contextlib.suppress(OSError, TimeoutError, EOFError):
                    async with asyncio.timeout(PATIENCE):
                        status = await attack()
                tries[name][status] += 1
                await asyncio.sleep(PAUSE)

        tasks = [
            asyncio.ensure_future(go_on(name, attack))
            for name, (count, attack) in self.kinds().items()
            for _ in range(count)
        ]
        while not any(task.done() for task in tasks):
            await asyncio.sleep(1.0)
            print(json.dumps(tries), flush=True)
        await asyncio.gather(*tasks)

    @contextlib.asynccontextmanager
    async def _peer(self, port: int) -> Any:
        reader, writer = await asyncio.open_connection("127.0.0.1", port, local_addr=(ADDRESS, 0))
        try:
            yield reader, writer
        finally:
            writer.close()

    async def _hold(self, port: int, sent: bytes) -> int:
        async with self._peer(port) as (reader, writer):
            writer.write(sent)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(HELD):
                    await reader.read()
        return 0

    async def _idle(self) -> int:
        return await self._hold(self._chance.choice((self._events, self._admin, self._kafka)), b"")

    async def _half_a_head(self) -> int:
        port = self._chance.choice((self._events, self._admin))
        return await self._hold(port, b"POST /events HTTP/1.1\r\nhost: x\r\nx: " + b"v" * 10_000)

    async def _half_a_body(self) -> int:
        head = b"POST /events HTTP/1.1\r\nhost: x\r\ncontent-length: 900000\r\n"
        return await self._hold(
            self._events, head + b"content-type: application/json\r\n\r\n" + b"y" * 200_000
        )

    async def _half_an_intake(self) -> int:
        name = self._chance.choice((b"shop", b"none"))
        head = b"POST /in/%b HTTP/1.1\r\nhost: x\r\ncontent-length: 900000\r\n\r\n" % name
        return await self._hold(self._events, head + b"y" * 200_000)

    async def _stranger(self) -> int:
        signed = {"x-hub-signature-256": "sha256=" + "0" * 64, "x-github-event": "push"}
        path = self._chance.choice(("/in/shop", "/in/none"))
        return await self._ask(self._events, "POST", path, b'{"a": 1}', {**JSON, **signed})

    async def _junk(self) -> int:
        """Send a Kafka frame of random bytes, whose length field is correct or announces 64 MiB."""
        noise = self._chance.randbytes(self._chance.randrange(8, 4_000))
        size = self._chance.choice((len(noise), 64 << 20))
        return await self._hold(self._kafka, size.to_bytes(4, "big") + noise)

    async def _ask(
        self, port: int, method: str, path: str, body: bytes, headers: dict[str, str]
    ) -> int:
        lines = [
            f"{method} {path} HTTP/1.1",
            "host: 127.0.0.1",
            "connection: close",
            f"content-length: {len(body)}",
        ]
        lines += [f"{name}: {value}" for name, value in headers.items()]
        async with self._peer(port) as (reader, writer):
            writer.write("\r\n".join(lines).encode() + b"\r\n\r\n" + body)
            return int((await reader.read())[9:12] or 0)


JSON = {"content-type": "application/json"}


def bearer(token: str) -> dict[str, str]:
    return {"authorization": f"Bearer {token}"}


if __name__ == "__main__":
    os.nice(5)  # the senders must have the processor first
    asyncio.run(Attackers(*map(int, sys.argv[1:])).run())
