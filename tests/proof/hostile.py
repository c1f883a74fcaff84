"""Send a million hostile requests over all doors of one service, in pieces, and demand that it harms nobody.

::

    PYTHONPATH=tests/support:tests python -m proof.hostile --folder /tmp/hostile --minutes 9
    ... the same again         continues, until all requests are answered
    ... --write docs/proof.md      writes the rows of the doors into the page; with --minutes 0 without a run
    ... --again /tmp/hostile/found-0.txt      sends the stream of a fault again

A request counts if it was answered, or if the connection ended instead of an answer. Meanwhile an honest sender is
answered 202, and its events are stored. No answer is a 5xx, except 503 with a bound that is reached, and no event
without a key or a good signature is accepted. The topics have as many events as were accepted. No connection hangs, the
service logs no error, its memory grows by at most ``GROWTH``, and it stops in order. A stream that breaks one of these
is kept in the folder: shorten it, correct the code, and keep it in ``tests/corpus``.
"""

from __future__ import annotations

import argparse
import ast
import asyncio
import random
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from configuration import configuration, route, subscription
from free_ports import free_ports
from proof import hostile_doors as doors
from proof.hostile_demands import GROWTH, Fault, allowed, answers_of, demand_stored
from proof.hostile_doors import CHECKER, INTAKES, KEY, READER, Stream
from proof.hostile_totals import Total, Totals
from proof.runs_page import write_row
from publishers import KEY as STANDARD
from publishers import SECRET
from raw_http import RawConnection, event
from service_process import ServiceProcess

AT_ONCE = 24  # connections
HANGS = 120.0  # seconds of a stream
HONEST = 50  # streams between two events of the honest sender
_HEADINGS = (
    "door",
    "requests",
    "connections",
    "answers",
    "ended without an answer",
    "commit, date",
)


class Door(NamedTuple):
    """A door: its share of all requests, its port, and what makes a stream for it."""

    share: float
    port: int
    make: Callable[[random.Random], Stream]


def settings_of(folder: Path, kafka: int) -> dict[str, Any]:
    """Return a configuration with every door open."""
    tokens = [
        {"name": "reader", "token": READER, "scopes": ["read", "data", "metrics", "pull"]},
        {"name": "checker", "token": CHECKER, "scopes": ["configure"]},
    ]
    presets = {name: name for name in INTAKES[:5]} | {"standard": "standard_webhooks"}
    return configuration(
        folder,
        server={"events": {"access": "producers"}, "admin": {"token": "the-token-of-the-operator", "tokens": tokens}},
        producers=[{"name": "sender", "keys": [KEY]}],
        intakes=[
            {"name": name, "preset": preset, "secret": STANDARD if name == "standard" else SECRET, "route": "all"}
            for name, preset in presets.items()
        ],
        brokers={"log": {"partitions": 1, "kafka_listener": {"listen": f"127.0.0.1:{kafka}"}}},
        routes=[route("kept", name="honest", filters=[{"exact": {"type": "com.example.test"}}]), route()],
        subscriptions=[subscription("steady", {"pull": {}})],
    )  # fmt: skip


def doors_of(service: ServiceProcess, kafka: int) -> dict[str, Door]:
    def http(share: float, port: int, seeds: list[doors.Seed], length: int) -> Door:
        return Door(share, port, lambda dice: doors.http_stream(dice, seeds, length))

    events, admin, frames = service.events_port, service.admin_port, doors.kafka_seeds()
    keyed = doors.event_seeds()
    return {
        "events": http(0.6, events, keyed, doors.LENGTH),
        "strangers": http(0.05, events, doors.without_key(keyed), doors.STRANGERS),
        "intakes": http(0.2, events, doors.intake_seeds(), doors.STRANGERS),
        "admin": http(
            0.08, admin, doors.admin_seeds(lambda path: not doors.is_pull(path)), doors.LENGTH
        ),
        "pull": http(0.02, admin, doors.admin_seeds(doors.is_pull), doors.LENGTH),
        "kafka": Door(0.1, kafka, lambda dice: doors.kafka_stream(dice, frames)),
    }


async def thrown(port: int, stream: Stream) -> bytes:
    """Write a stream, and return all that comes until the service closes the connection."""
    peer = f"127.0.{random.randrange(256)}.{random.randrange(1, 255)}"  # an address that guesses must wait
    reader, writer = await asyncio.open_connection(
        "127.0.0.1", port, limit=1 << 24, local_addr=(peer, 0)
    )
    found = b""
    try:
        async with asyncio.timeout(HANGS):
            writer.write(stream.data)
            if stream.ends:
                writer.write_eof()
            while chunk := await reader.read(1 << 20):
                found += chunk
    except ConnectionError:
        pass
    finally:
        writer.close()
    return found


class Piece:
    """One run of the service under hostile requests."""

    def __init__(
        self, folder: Path, service: ServiceProcess, kafka: int, totals: Totals, seed: int
    ) -> None:
        self._folder, self._service, self._totals = folder, service, totals
        self._doors = doors_of(service, kafka)
        self._dice = random.Random(f"{seed} {totals.pieces}")
        self._streams = self.honest = self.accepted = 0
        self._open: Counter[str] = Counter()  # streams under way, by door
        for name in self._doors:
            totals.doors.setdefault(name, Total())

    async def run(self, wanted: int, seconds: float) -> None:
        """Send until all requests of the run were sent, or the time is over."""
        over, early = time.monotonic() + seconds, 0
        tenth = self._totals.requests + (wanted - self._totals.requests) // 10
        tasks: set[asyncio.Task[None]] = set()
        while self._totals.requests < wanted and time.monotonic() < over:
            while len(tasks) < AT_ONCE:
                tasks.add(asyncio.create_task(self._stream()))
            done, tasks = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for each in done:
                each.result()
            late = time.monotonic() > over - 0.9 * seconds
            if not early and (late or self._totals.requests >= tenth):
                early = self._service.resident()
        await asyncio.gather(*tasks)
        await self._send_honestly()
        if early and (grown := self._service.resident() - early) > GROWTH:
            raise Fault(f"the service grew by {grown >> 20} MiB")
        print(f"grown by {grown >> 20} MiB" if early else "too short to measure growth")

    def _next(self) -> str:
        """Return the door that has had the smallest part of its share, with its streams under way."""

        def part(name: str) -> float:
            total, door = self._totals.doors[name], self._doors[name]
            usual = total.requests / max(1, total.connections)
            return (total.requests + self._open[name] * usual) / door.share

        return min(self._doors, key=part)

    async def _stream(self) -> None:
        name = self._next()
        self._open[name] += 1
        door, total = self._doors[name], self._totals.doors[name]
        stream = door.make(self._dice)
        try:
            answers = allowed(name, answers_of(name, await thrown(door.port, stream)))
        except (Fault, TimeoutError, OSError) as error:
            self._keep(stream)
            raise Fault(f"{name}: {error!r}") from error
        self._open[name] -= 1
        total.connections += 1
        cut = sum(answers.values()) == 0
        total.cut += cut
        if name == "events":
            self.accepted += answers["202"] + answers["200"] + cut
        for status, count in answers.items():
            total.answers[status] = total.answers.get(status, 0) + count
        self._streams += 1
        if self._streams % HONEST == 0:
            await self._send_honestly()

    async def _send_honestly(self) -> None:
        async with await RawConnection.open(self._service.events_port) as peer:
            await peer.send(
                event(f"{self._totals.pieces}-{self.honest}", authorization=f"Bearer {KEY}")
            )
            if (status := (await peer.answer()).status) != 202:
                raise Fault(f"the honest sender was answered {status}")
        self.honest += 1

    def _keep(self, stream: Stream) -> None:
        number = len(list(self._folder.glob("found-*.txt")))
        (self._folder / f"found-{number}.txt").write_text(repr(tuple(stream)))


def run(asked: argparse.Namespace, totals: Totals) -> None:
    """Run the next piece."""
    folder = asked.folder / f"piece{totals.pieces:03}-{time.monotonic_ns()}"
    folder.mkdir()
    (kafka,) = free_ports(1)
    service = ServiceProcess(settings_of(folder, kafka), folder)
    with service.ended():
        service.start()
        if asked.again:
            stream = Stream(*ast.literal_eval(asked.again.read_text()))
            http = stream.data[:1] >= b"A"
            for port in (service.events_port, service.admin_port) if http else (kafka,):
                print(asyncio.run(thrown(port, stream)).decode("latin-1")[-3000:])
            print(service.log.read_text()[-3000:])
            return
        piece = Piece(asked.folder, service, kafka, totals, asked.seed)
        asyncio.run(piece.run(asked.requests, asked.minutes * 60))
        demand_stored(service, piece.honest, piece.accepted)
        if (code := service.stop()) != 0:
            raise Fault(f"the service ended with {code}")
    totals.pieces += 1
    totals.save()
    print({name: each.requests for name, each in totals.doors.items()}, f"{totals.requests:,}")


def write(page: Path, totals: Totals) -> None:
    """Write the row of each door into the page."""
    for name, each in totals.doors.items():
        by_status = sorted(each.answers.items(), key=lambda item: -item[1])
        answers = ", ".join(f"{count:,} {status}" for status, count in by_status if count)
        cells = (
            f"{each.requests:,}",
            f"{each.connections:,}",
            answers.replace("frame", "answers"),
            f"{each.cut:,}",
        )
        write_row(page, "hostile", _HEADINGS, name, cells)


def main(words: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="hostile", description=__doc__.partition("\n")[0])
    parser.add_argument(
        "--folder", type=Path, required=True, help="totals of the run, and what was found"
    )
    parser.add_argument("--minutes", type=float, default=9.0, help="of a piece, without its ends")
    parser.add_argument("--requests", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--write", type=Path, help="the page of the rows")
    parser.add_argument("--again", type=Path, help="a file with a stream that is sent again")
    asked = parser.parse_args(words)
    totals = Totals(asked.folder)
    if asked.minutes > 0:
        run(asked, totals)
    if asked.write:
        write(asked.write, totals)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
