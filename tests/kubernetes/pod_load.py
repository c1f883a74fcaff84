"""Send a steady load to an installation from a pod beside it, receive its deliveries, and judge.

The program uses the standard library and ``verifier`` alone, so it shares no code with the service.
It posts numbered events, one at a time for each key, and repeats an event until it is accepted. It
is also the webhook that the installation delivers to. A control port answers GET requests:

``/start?url=URL&rate=60``  begin a run against the listener for events
``/stop``                   end the sending; accepted events are still awaited
``/progress``               what was accepted and what arrived so far
``/report``                 the counts of the run, and the times of its refusals
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import hashlib
import hmac
import json
import os
import time
from collections import Counter
from collections.abc import Mapping
from typing import Any
from urllib.parse import parse_qs, urlsplit

import verifier

LANES = 16
"""Count of keys, and of connections."""
REOPENED = 50
"""Every other lane opens a new connection after so many requests, as clients with pools do."""
PAUSE = 0.1  # seconds before an event is sent again
CONNECT = 3.0  # seconds: a packet to a pod that has just gone gets no answer
NO_ANSWER = 15.0  # seconds
SHOWN = 40
"""Count of refusals that the report lists."""
_PORTS = (("HOOK", 9000), ("CONTROL", 9001))


class Run:
    """One run of the load: its lanes, and what they have seen."""

    def __init__(self, url: str, rate: float, secrets: list[str], key: str) -> None:
        parts = urlsplit(url)
        self.host, self.port, self.target = parts.hostname or "", parts.port or 80, parts.path
        self.pause = LANES / rate
        self.secrets = secrets
        self.key = key
        self.name = f"{time.time_ns():x}"
        self.began = time.monotonic()
        self.accepted: list[verifier.Numbered] = []
        self.times = [self.began]
        self.answers: Counter[str] = Counter()
        self.refusals: list[tuple[float, str]] = []
        self.arrivals: list[verifier.Numbered] = []
        self.signed: Counter[str] = Counter()
        self.slowest = 0.0
        self.ending = asyncio.Event()
        self.lanes = [asyncio.create_task(self._lane(number)) for number in range(LANES)]

    async def _lane(self, number: int) -> None:
        most = REOPENED if number % 2 else 0
        connection = Connection(self.host, self.port, most, self.key)
        key, count, due = f"{self.name}-{number}", 0, self.began + self.pause * number / LANES
        while not self.ending.is_set():
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self.ending.wait(), max(0.0, due - time.monotonic()))
            if self.ending.is_set():
                break
            await self._until_accepted(connection, (key, count))
            count += 1
            due = max(due + self.pause, time.monotonic())
        connection.close()

    async def _until_accepted(self, connection: Connection, event: verifier.Numbered) -> None:
        first = time.monotonic()
        while (answer := await connection.answer(self.target, event)) != "202":
            self._refused(answer)
            await asyncio.sleep(PAUSE)
        self.answers[answer] += 1
        self.times.append(time.monotonic())
        self.slowest = max(self.slowest, self.times[-1] - first)
        self.accepted.append(event)

    def _refused(self, answer: str) -> None:
        self.answers[answer] += 1
        if len(self.refusals) < SHOWN:
            self.refusals.append((round(time.monotonic() - self.began, 2), answer))

    def arrived(self, head: Mapping[str, str], body: bytes) -> None:
        """Record a delivery, with the name of the secret that signed it."""
        document = json.loads(body)
        data = document if "key" in document else document["data"]
        if not str(data["key"]).startswith(self.name):
            return  # an event of an earlier run
        self.arrivals.append((data["key"], data["n"]))
        if self.secrets:
            self.signed[signer(self.secrets, head, body)] += 1

    def outstanding(self) -> int:
        return len({*self.accepted} - {*self.arrivals})

    def progress(self) -> Mapping[str, Any]:
        return {
            "seconds": round(time.monotonic() - self.began, 2),
            "accepted": len(self.accepted),
            "arrived": len(self.arrivals),
            "outstanding": self.outstanding() if self.ending.is_set() else -1,
            "sending": not all(lane.done() for lane in self.lanes),
            "refused": self.answers.total() - self.answers["202"],
            "signed": self.signed,
        }

    def report(self) -> Mapping[str, Any]:
        judged = verifier.judge(self.accepted, self.arrivals)
        gaps = [after - before for before, after in zip(self.times, self.times[1:], strict=False)]
        return {
            "accepted": judged.acknowledged,
            "lost": judged.lost,
            "repeated": judged.duplicated,
            "order": judged.order_breaks,
            "unacknowledged": judged.unacknowledged,
            "refused": self.answers.total() - self.answers["202"],
            "answers": self.answers,
            "refusals": self.refusals,
            "longest_gap": round(max(gaps, default=0.0), 2),
            "slowest": round(self.slowest, 2),
            "signed": self.signed,
            "samples": judged.samples,
        }


class Connection:
    """A connection to the listener for events, opened again when it ends.

    Args:
        host: The host.
        port: The port.
        most: The requests after which the client closes it; 0 for no limit.
        key: The key of the producer, or "".
    """

    def __init__(self, host: str, port: int, most: int, key: str) -> None:
        self._host, self._port, self._most = host, port, most
        self._key = f"authorization: Bearer {key}\r\n" if key else ""
        self._stream: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None
        self._sent = 0

    async def answer(self, target: str, event: verifier.Numbered) -> str:
        """Post an event. Return the status of the answer, or the name of the error."""
        try:
            async with asyncio.timeout(NO_ANSWER):
                return await self._answer(target, event)
        except (OSError, asyncio.IncompleteReadError, TimeoutError) as error:
            used = "used" if self._sent > 1 else "new"
            self.close()
            return f"{type(error).__name__} on a {used} connection"

    async def _answer(self, target: str, event: verifier.Numbered) -> str:
        reader, writer = await self._opened()
        self._sent += 1
        request = verifier.request_bytes(target, f"{self._host}:{self._port}", event)
        more = f"\r\nce-partitionkey: {event[0]}\r\n{self._key}"
        writer.write(request.replace(b"\r\n", more.encode(), 1))
        status, fields = await verifier.read_head(reader)
        await reader.readexactly(int(fields.get("content-length", "0")))
        if fields.get("connection", "").lower() == "close" or self._sent == self._most:
            self.close()
        return status.split()[1]

    async def _opened(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Return the open connection, or a new one if the server has closed it meanwhile."""
        if self._stream is not None and self._stream[0].at_eof():
            self.close()
        if self._stream is None:
            self._sent = 0
            async with asyncio.timeout(CONNECT):
                self._stream = await asyncio.open_connection(self._host, self._port)
        return self._stream

    def close(self) -> None:
        if self._stream is not None:
            self._stream[1].close()
            self._stream = None


def signer(secrets: list[str], head: Mapping[str, str], body: bytes) -> str:
    """Return the first secret that made the signature of a delivery, or "none"."""
    stamp = head.get("webhook-timestamp", "").encode()
    text = b".".join([head.get("webhook-id", "").encode(), stamp, body])
    given = [each.partition(",")[2] for each in head.get("webhook-signature", "").split()]
    for secret in secrets:
        key = base64.b64decode(secret.removeprefix("whsec_"))
        made = base64.b64encode(hmac.digest(key, text, hashlib.sha256)).decode()
        if made in given:
            return secret
    return "none"


class Program:
    """The webhook and the control port of the pod."""

    def __init__(self) -> None:
        self.run: Run | None = None

    async def webhook(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            while True:
                _, fields = await verifier.read_head(reader)
                body = await reader.readexactly(int(fields.get("content-length", "0")))
                if self.run is not None and body:
                    self.run.arrived(fields, body)
                writer.write(b"HTTP/1.1 204 No Content\r\n\r\n")
                await writer.drain()
        writer.close()

    async def control(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            request, _ = await verifier.read_head(reader)
            asked = urlsplit(request.split()[1])
            text = json.dumps(self._asked(asked.path, parse_qs(asked.query))).encode()
            head = f"HTTP/1.1 200 OK\r\ncontent-length: {len(text)}\r\nconnection: close\r\n\r\n"
            writer.write(head.encode() + text)
            await writer.drain()
        writer.close()

    def _asked(self, path: str, query: Mapping[str, list[str]]) -> Mapping[str, Any]:
        if path == "/start":
            self.run = Run(
                query["url"][0],
                float(query["rate"][0]),
                query.get("secret", []),
                query.get("key", [""])[0],
            )
        if self.run is None:
            return {}
        if path == "/stop":
            self.run.ending.set()
        return self.run.report() if path == "/report" else self.run.progress()


async def main() -> None:
    program = Program()
    host = os.environ.get("LOAD_HOST", "0.0.0.0")
    hook, control_port = (int(os.environ.get(f"LOAD_{each}", port)) for each, port in _PORTS)
    await asyncio.start_server(program.webhook, host, hook)
    async with await asyncio.start_server(program.control, host, control_port) as control:
        print("ready", flush=True)
        await control.serve_forever()


if __name__ == "__main__":
    asyncio.run(main())
