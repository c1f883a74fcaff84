"""Verify the service from outside, in a process that trusts none of its reports.

The verifier shares no code with ``app`` and speaks HTTP by hand. It

* posts numbered events per key, one at a time for each key, so that the order of acceptance is
  defined, and repeats an event until it is acknowledged;
* writes each acknowledged event to a journal, fsynced, before it posts the next one of the key;
* is the webhook itself, and records every arrival in order;
* in a second run, reads the file of the log with another SQLite library than the service uses;
* counts the events that are lost, duplicated, out of order per key, or stored but never acknowledged.

::

    verifier.py run --events http://HOST:PORT/events --listen PORT --journal FILE --keys 100 ...
    verifier.py log --file FILE --journal FILE

``run`` prints one line of JSON when every acknowledged event has arrived, or nothing has moved for
too long. It then receives until its standard input closes, and prints the report as a second line.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import re
import sqlite3
import sys
from collections import deque
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

Numbered = tuple[str, int]
"""A key and the number of an event of that key."""

BODY = re.compile(rb'{"key": "([^"]+)", "n": (\d+)}')
SAMPLES = 10
RETRY_PAUSE = 0.02  # seconds between attempts while the service is down
NO_ANSWER = 60.0  # seconds after which a connection counts as broken; a disk may stall for twenty
PATIENCE = 240.0  # seconds without an acknowledgement or an arrival after which a run fails


@dataclass
class Report:
    """The counts of acknowledged and arrived events, and of each kind of fault.

    Attributes:
        busiest_second: The most arrivals within one second, where arrivals have a time.
        samples: The first few events of each kind of fault.
    """

    acknowledged: int
    arrived: int
    busiest_second: int = 0
    lost: int = 0
    duplicated: int = 0
    order_breaks: int = 0
    unacknowledged: int = 0
    samples: dict[str, list[Numbered]] = field(default_factory=dict)

    def count(self, kind: str, event: Numbered) -> None:
        setattr(self, kind, getattr(self, kind) + 1)
        sample = self.samples.setdefault(kind, [])
        if len(sample) < SAMPLES:
            sample.append(event)


def judge(acknowledged: Iterable[Numbered], arrivals: Iterable[Numbered]) -> Report:
    """Compare arrivals with the acknowledged events, and return the report.

    Only the first arrival of each event counts for the order. A repeat is a duplicate and does not break the order.
    """
    acked = set(acknowledged)
    history = list(arrivals)
    report = Report(acknowledged=len(acked), arrived=len(history))
    seen: set[Numbered] = set()
    newest: dict[str, int] = {}
    for event in history:
        key, number = event
        if event in seen:
            report.count("duplicated", event)
            continue
        seen.add(event)
        if number < newest.get(key, -1):
            report.count("order_breaks", event)
        newest[key] = max(number, newest.get(key, -1))
        if event not in acked:
            report.count("unacknowledged", event)
    for event in sorted(acked - seen):
        report.count("lost", event)
    return report


class Journal:
    """A file with one line for each event, which is on the disk before ``add`` returns.

    Concurrent callers share one fsync.
    """

    def __init__(self, path: Path) -> None:
        self._file = path.open("a", encoding="ascii")
        self._waiting: list[tuple[Numbered, asyncio.Future[None]]] = []
        self._wake = asyncio.Event()
        self.events: set[Numbered] = set()

    async def add(self, event: Numbered) -> None:
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((event, done))
        self._wake.set()
        await done

    async def run(self) -> None:
        while True:
            await self._wake.wait()
            self._wake.clear()
            group, self._waiting = self._waiting, []
            self._file.writelines(f"{key} {number}\n" for (key, number), _ in group)
            self._file.flush()
            await asyncio.to_thread(os.fsync, self._file.fileno())
            for event, done in group:
                self.events.add(event)
                done.set_result(None)


def read_journal(path: Path) -> list[Numbered]:
    lines = path.read_text(encoding="ascii").splitlines()
    return [(key, int(number)) for key, number in (line.split() for line in lines)]


def request_bytes(target: str, host: str, event: Numbered) -> bytes:
    """Return a binary-mode POST with the key in the header ``skybridge-key`` and in the body."""
    key, number = event
    body = json.dumps({"key": key, "n": number}).encode()
    head = (
        f"POST {target} HTTP/1.1\r\nhost: {host}\r\ncontent-type: application/json\r\n"
        f"ce-specversion: 1.0\r\nce-id: {key}-{number}\r\nce-source: /verifier\r\n"
        f"ce-type: com.example.verified\r\nskybridge-key: {key}\r\n"
        f"content-length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


async def read_head(reader: asyncio.StreamReader) -> tuple[str, dict[str, str]]:
    lines = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
    fields = (line.partition(":") for line in lines[1:] if line)
    return lines[0], {name.strip().lower(): value.strip() for name, _, value in fields}


class Poster:
    """One connection that posts the events of its keys in order, each until it is acknowledged.

    Args:
        url: Where to post.
        keys: The keys of this connection.
        per_key: The count of events of each key.
        journal: The journal of acknowledged events.
        twice: Whether to post each acknowledged event again, like a sender that lost the answer.
        rate: The most events per second on average. Time without answers is made up for.
    """

    def __init__(
        self,
        url: str,
        keys: list[str],
        per_key: int,
        journal: Journal,
        *,
        twice: bool = False,
        rate: float = float("inf"),
    ) -> None:
        self._twice = twice
        self._rate = rate
        parts = urlsplit(url)
        self._host, self._port, self._target = parts.hostname or "", parts.port or 80, parts.path
        self._events = [(key, number) for number in range(per_key) for key in keys]
        self._journal = journal
        self._stream: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None
        self.repeats = 0
        self.refused = 0  # the count of answers 503
        self.slowest = 0.0  # seconds from the first attempt to the acceptance of the slowest event

    async def run(self) -> None:
        begun = asyncio.get_running_loop().time()
        for count, event in enumerate(self._events):
            early = begun + count / self._rate - asyncio.get_running_loop().time()
            if early > 0:
                await asyncio.sleep(early)
            await self._until_accepted(event)
            await self._journal.add(event)
            if self._twice:
                await self._until_accepted(event)
        self._drop()

    async def _until_accepted(self, event: Numbered) -> None:
        begun = asyncio.get_running_loop().time()
        while not await self._accepted(event):
            self.repeats += 1
            await asyncio.sleep(RETRY_PAUSE)
        self.slowest = max(self.slowest, asyncio.get_running_loop().time() - begun)

    async def _accepted(self, event: Numbered) -> bool:
        try:
            status = await asyncio.wait_for(self._post(event), NO_ANSWER)
        except (OSError, asyncio.IncompleteReadError, TimeoutError):
            self._drop()
            return False
        if status not in {202, 503}:
            raise SystemExit(f"the service answered {status} to {event}")
        self.refused += status == 503
        return status == 202

    async def _post(self, event: Numbered) -> int:
        if self._stream is None:
            self._stream = await asyncio.open_connection(self._host, self._port)
        reader, writer = self._stream
        writer.write(request_bytes(self._target, f"{self._host}:{self._port}", event))
        status_line, fields = await read_head(reader)
        await reader.readexactly(int(fields.get("content-length", "0")))
        return int(status_line.split()[1])

    def _drop(self) -> None:
        if self._stream is not None:
            self._stream[1].close()
            self._stream = None


class Webhook:
    """The webhook, which records every arrival in the order in which the requests were complete."""

    def __init__(self) -> None:
        self.arrivals: list[Numbered] = []
        self._recent: deque[float] = deque()
        self.busiest_second = 0
        self.seen: set[Numbered] = set()
        self.moved = asyncio.Event()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            while True:
                _, fields = await read_head(reader)
                body = json.loads(await reader.readexactly(int(fields["content-length"])))
                self._note((body["key"], body["n"]))
                writer.write(b"HTTP/1.1 204 No Content\r\n\r\n")
                await writer.drain()
        writer.close()

    def _note(self, event: Numbered) -> None:
        self.arrivals.append(event)
        self.seen.add(event)
        self.moved.set()
        now = asyncio.get_running_loop().time()
        self._recent.append(now)
        while self._recent[0] < now - 1:
            self._recent.popleft()
        self.busiest_second = max(self.busiest_second, len(self._recent))

    async def until_all(self, acknowledged: set[Numbered]) -> None:
        while not acknowledged <= self.seen:
            self.moved.clear()
            await self.moved.wait()


async def while_moving(
    work: Awaitable[object], progress: Callable[[], object], patience: float
) -> None:
    """Await ``work`` without a time limit, as long as ``progress`` changes.

    Args:
        work: What to await.
        progress: Return the current state of the work.
        patience: Seconds in which the state must change.

    Raises:
        TimeoutError: The state did not change for ``patience`` seconds.
    """
    task, before = asyncio.ensure_future(work), None
    try:
        while not (await asyncio.wait({task}, timeout=patience if before else 0))[0]:
            if (now := (progress(),)) == before:
                raise TimeoutError
            before = now
        await task
    finally:
        task.cancel()


async def stdin_closed() -> None:
    await asyncio.to_thread(sys.stdin.read)


async def run(options: argparse.Namespace) -> Report:
    """Post every event, wait for all arrivals, and return the report once standard input closes."""
    journal, webhook = Journal(options.journal), Webhook()
    server = await asyncio.start_server(webhook.serve, "127.0.0.1", options.listen)
    writing = asyncio.create_task(journal.run())
    keys = [f"key-{number}" for number in range(options.keys)]
    posters = [
        Poster(
            options.events,
            keys[lane :: options.connections],
            options.per_key,
            journal,
            twice=options.twice,
        )
        for lane in range(options.connections)
    ]

    async def everything() -> None:
        await asyncio.gather(*(poster.run() for poster in posters))
        await webhook.until_all(journal.events)

    in_time = True
    progress = lambda: (len(journal.events), len(webhook.seen))  # noqa: E731
    try:
        await while_moving(everything(), progress, options.patience)
    except TimeoutError:
        in_time = False
    repeats = sum(poster.repeats for poster in posters)
    print(json.dumps({"in_time": in_time, "repeats": repeats}), flush=True)
    await stdin_closed()
    server.close()
    writing.cancel()
    report = judge(journal.events, webhook.arrivals)
    report.busiest_second = webhook.busiest_second
    return report


def read_log_file(path: Path) -> list[Numbered]:
    """Return every event in the file of the log, by partition and in the order of offsets.

    Events are found by the pattern of their bodies in the last column, so the record format is not needed.
    """
    stored: list[Numbered] = []
    with contextlib.closing(sqlite3.connect(path)) as database:
        segments = "SELECT id FROM segments ORDER BY topic, partition, base_offset"
        for (number,) in database.execute(segments).fetchall():
            rows = database.execute(f"SELECT * FROM s{number:d} ORDER BY rowid")
            stored += [event for row in rows for event in events_in(row[-1])]
    return stored


def events_in(records: bytes) -> Iterable[Numbered]:
    return [(key.decode(), int(number)) for key, number in BODY.findall(records)]


def posting_options(verb: argparse.ArgumentParser) -> None:
    verb.add_argument("--events", required=True, help="URL that accepts events")
    verb.add_argument("--keys", type=int, default=100)
    verb.add_argument("--per-key", type=int, default=20)
    verb.add_argument("--connections", type=int, default=16)
    verb.add_argument(
        "--patience",
        type=float,
        default=PATIENCE,
        help="fail after so many seconds without progress",
    )


def options_of(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    verbs = parser.add_subparsers(dest="verb", required=True)
    running = verbs.add_parser("run")
    posting_options(running)
    running.add_argument("--listen", type=int, required=True, help="port of the webhook")
    running.add_argument("--twice", action="store_true", help="post each acknowledged event again")
    reading = verbs.add_parser("log")
    reading.add_argument("--file", type=Path, required=True, help="the log's SQLite file")
    for verb in (running, reading):
        verb.add_argument("--journal", type=Path, required=True)
    return parser.parse_args(arguments)


def main(arguments: list[str]) -> None:
    options = options_of(arguments)
    if options.verb == "run":
        report = asyncio.run(run(options))
    else:
        report = judge(read_journal(options.journal), read_log_file(options.file))
    print(json.dumps(asdict(report)), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
