"""The processes of one benchmark run, in one temporary folder, on free ports of loopback."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import socket
import struct
import subprocess
import sys
import urllib.request
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import Any, Protocol

from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from cost import cpu_seconds

from forked import SKYBRIDGE
from kafka_install import Missing
from service_process import ServiceProcess, free_ports, until

HERE = Path(__file__).parent
UP_WITHIN = 20.0
LOAD_WITHIN = 300.0
TOPIC = "bench"
FLOOR_TOPIC = "floor"
MIRROR_TOPIC = "mirrored"
PARTITIONS = 8

_CONFIG = """
version: 1
installation: bench
server:
  events: {{host: 127.0.0.1, port: {events}, access: {access}}}
  admin: {{host: 127.0.0.1, port: {admin}}}
store: {store}
brokers: {brokers}
routes:
  - name: everything
    to: {{broker: target, topic: bench}}
    key: {{mapper: partitionkey}}
    {route}
producers: {producers}
intakes: {intakes}
webhooks: {{allow_private: ["127.0.0.0/8"]}}
timeouts: {{not_ready: 0s}}
subscriptions: {subscriptions}
"""


class Service:
    """Skybridge with one route, publishing with the key of the Partitioning extension."""

    def __init__(
        self,
        folder: Path,
        broker: dict[str, Any],
        *,
        program: Sequence[str] = (),
        store: dict[str, Any] | None = None,
        route: str = "",
        producers: Sequence[dict[str, Any]] = (),
        intakes: Sequence[dict[str, Any]] = (),
        **others: dict[str, Any],
    ) -> None:
        """``others``: further brokers, by name, that subscriptions may mirror to. ``program``: what is run
        instead of ``skybridge``. ``store``: instead of a SQLite file of its own. ``route``: a
        setting more of it."""
        folder.mkdir()
        self._program = program or (
            SKYBRIDGE,
        )  # its memory is measured: nothing shared with others
        self._folder = folder
        self._brokers = {"target": broker, **others}
        self._route, self._producers, self._intakes = route, producers, intakes
        self._store = store or {"kind": "sqlite", "path": str(folder / "store.db")}
        self.port, self.admin = free_ports(2)

    def start(self, subscriptions: tuple[dict[str, Any], ...] = ()) -> None:
        config = self._folder / "skybridge.yaml"
        text = _CONFIG.format(
            events=self.port,
            admin=self.admin,
            store=json.dumps(self._store),
            brokers=json.dumps(self._brokers),
            subscriptions=json.dumps(subscriptions),
            route=self._route,
            access="producers" if self._producers else "open",
            producers=json.dumps(self._producers),
            intakes=json.dumps(self._intakes),
        )
        config.write_text(text)
        self._process = ServiceProcess(config, self._folder, self.admin, self._program)
        self._process.start()

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def status(self) -> str:
        return f"http://127.0.0.1:{self.admin}/status"

    def running(self) -> int:
        """How many subscriptions have their partitions and nothing to complain of."""
        with urllib.request.urlopen(self.status) as answer:
            subscriptions = json.load(answer)["subscriptions"]
        return sum(one["state"] == "running" and bool(one["partitions"]) for one in subscriptions)

    def caught_up(self, names: Collection[str]) -> bool:
        """Whether these subscriptions have finished all that is in the log."""
        with urllib.request.urlopen(self.status) as answer:
            subscriptions = json.load(answer)["subscriptions"]
        return all(
            one["lag"] == 0 and not one["held"] for one in subscriptions if one["id"] in names
        )

    def stop(self) -> None:
        self._process.stop()

    def kill(self) -> None:
        self._process.kill()


class Server:
    """A program beside this file that serves on ``--port``: a floor, or the listener alone."""

    def __init__(self, program: str, *arguments: str) -> None:
        (self.port,) = free_ports(1)
        self._process = start(program, f"--port={self.port}", *arguments)
        until(lambda: listens(self.port), UP_WITHIN, program)

    @property
    def pid(self) -> int:
        return self._process.pid

    def stop(self) -> None:
        end(self._process)


class Sink:
    """The receiving webhook, and how much it has received."""

    def __init__(self, folder: Path) -> None:
        (self.port,) = free_ports(1)
        self._count, self.first = folder / "count", folder / "first"
        self._count.write_bytes(bytes(8))
        self._process = start(
            "sink.py", f"--port={self.port}", f"--count={self._count}", f"--first={self.first}"
        )
        until(lambda: listens(self.port), UP_WITHIN, "sink")

    def count(self) -> int:
        return int(struct.unpack("<Q", self._count.read_bytes())[0])

    def stop(self) -> None:
        end(self._process)


def start(program: str, *arguments: str) -> subprocess.Popen[bytes]:
    """One of the programs beside this file, able to import what ``app`` and they offer."""
    path = os.pathsep.join([str(HERE), str(HERE.parents[1])])
    command = [sys.executable, str(HERE / program), *arguments]
    return subprocess.Popen(
        command,
        env={**os.environ, "PYTHONPATH": path},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
    )


def end(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    process.communicate(timeout=UP_WITHIN)


def result_of(process: subprocess.Popen[bytes]) -> dict[str, Any]:
    """The one line of JSON that the program printed."""
    output, _ = process.communicate(timeout=LOAD_WITHIN)
    if process.returncode:
        raise RuntimeError(f"{process.args} failed")
    answer: dict[str, Any] = json.loads(output)
    return answer


def load(port: int, shape: str, requests: int, *more: str) -> dict[str, Any]:
    """``more``: further options of ``load.py``."""
    words = (f"--port={port}", f"--shape={shape}", f"--requests={requests}", *more)
    return result_of(start("load.py", *words))


def cpu_of_load(pid: int, port: int, shape: str, requests: int, *more: str) -> float:
    """Microseconds of the process's CPU time that one event of this load costs."""
    before = cpu_seconds(pid)
    sent = load(port, shape, requests, *more)
    return 1e6 * (cpu_seconds(pid) - before) / int(sent["events"])


def listens(port: int) -> bool:
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
        return True
    return False


def create_topics(bootstrap_servers: str) -> None:
    async def create() -> None:
        admin = AIOKafkaAdminClient(bootstrap_servers=bootstrap_servers)
        await admin.start()
        try:
            await admin.create_topics(
                [NewTopic(name, PARTITIONS, 1) for name in (TOPIC, FLOOR_TOPIC, MIRROR_TOPIC)]
            )
        finally:
            await admin.close()

    asyncio.run(create())


def stored(bootstrap_servers: str, topic: str) -> int:
    """How many records have been stored in a topic so far."""

    async def count() -> int:
        consumer = AIOKafkaConsumer(bootstrap_servers=bootstrap_servers)
        await consumer.start()
        try:
            places = [TopicPartition(topic, number) for number in range(PARTITIONS)]
            return sum((await consumer.end_offsets(places)).values())
        finally:
            await consumer.stop()

    return asyncio.run(count())


class Startable(Protocol):
    def start(self) -> None: ...

    def stop(self) -> None: ...


def attempt(server: Startable, name: str, remarks: list[str]) -> list[Any]:
    """The server, started, as the stack of ``stopping``; empty, with a remark, where it is missing."""
    try:
        server.start()
    except Missing as missing:
        remarks.append(f"{name} was not measured: {missing}")
        return []
    return [server]


@contextlib.contextmanager
def stopping(stack: list[Any]) -> Iterator[None]:
    """Whatever was started and put on the stack is stopped, newest first."""
    try:
        yield
    finally:
        while stack:
            stack.pop().stop()
