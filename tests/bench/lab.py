"""The processes of one benchmark run, in one temporary folder, on free ports of loopback."""

from __future__ import annotations

import contextlib
import json
import os
import resource
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from cost import Memory, cpu_of_tree, cpu_seconds, memory

from configuration import configuration
from forked import SKYBRIDGE
from free_ports import free_ports
from kafka_install import Missing
from server_process import die_with_parent
from service_process import ServiceProcess
from waiting import wait_until

# As it is installed and in the image: with bytecode. Without it a start compiles 850 modules, most of its time.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

HERE = Path(__file__).parent
UP_WITHIN = 240.0  # beside busy neighbours an interpreter takes its time
LOAD_WITHIN = 300.0
TOPIC = "bench"
FLOOR_TOPIC = "floor"
MIRROR_TOPIC = "mirrored"
PARTITIONS = 8


class Service:
    """Skybridge with one route, publishing with the key of the Partitioning extension."""

    def __init__(
        self,
        folder: Path,
        broker: dict[str, Any],
        *,
        program: Sequence[str] = (),
        roles: Sequence[str] = (),
        port: int = 0,
        events: Mapping[str, Any] | None = None,
        store: Mapping[str, Any] | None = None,
        route: Mapping[str, Any] | None = None,
        routes: Sequence[Mapping[str, Any]] = (),
        producers: Sequence[dict[str, Any]] = (),
        intakes: Sequence[dict[str, Any]] = (),
        **others: dict[str, Any],
    ) -> None:
        """``others``: further brokers, by name, that subscriptions may mirror to. ``program``: what is run
        instead of ``skybridge``. ``roles``: instead of both. ``port``: of the events listener, instead of one
        of its own; ``events``: further settings of it. ``store``: instead of a SQLite file of its own.
        ``route``: further settings of the one route; ``routes``: what stands before it."""
        folder.mkdir()
        listener = {"port": port, **(events or {})}
        listener["access"] = "producers" if producers else "open"
        last = {
            "name": "everything",
            "to": {"broker": "target", "topic": TOPIC},
            "key": {"mapper": "partitionkey"},
        }
        settings = configuration(
            folder,
            installation="bench",
            server={"events": listener},
            store={"path": None, **store} if store else {},
            brokers={"log": None, "target": broker, **others},
            routes=[*routes, {**last, **(route or {})}],
            producers=list(producers),
            intakes=list(intakes),
            timeouts={"store": None, "publish": None, "drain": None},
            limits={"keep_alive_requests": 0},  # the load keeps its connections, as on the floors
        )
        words = (word for role in roles for word in ("--role", role))
        self._process = ServiceProcess(settings, folder, *words)
        # its memory is measured: nothing shared with others
        self._process.program = program or (SKYBRIDGE,)
        self.port, self.admin = self._process.events_port, self._process.admin_port

    def start(self, subscriptions: Sequence[dict[str, Any]] = ()) -> None:
        """Returns when it is ready."""
        self.begin(subscriptions)
        wait_until(self.ready, f"ready service (see {self._process.log})", UP_WITHIN)

    def begin(self, subscriptions: Sequence[dict[str, Any]] = ()) -> None:
        """Start, and do not wait."""
        self._process.settings["subscriptions"] = list(subscriptions)
        self._process.write()
        self._process.begin()

    def ready(self) -> bool:
        return self._process.ready()

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def status(self) -> str:
        return f"http://127.0.0.1:{self.admin}/status"

    def running(self) -> int:
        """How many subscriptions have their partitions and nothing to complain of."""
        subscriptions = self._process.get("/status")["subscriptions"]
        return sum(one["state"] == "running" and bool(one["partitions"]) for one in subscriptions)

    def caught_up(self, names: Collection[str]) -> bool:
        """Whether these subscriptions have finished all that is in the log."""
        subscriptions = self._process.get("/status")["subscriptions"]
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
        wait_until(lambda: listens(self.port), program, UP_WITHIN)

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
        wait_until(lambda: listens(self.port), "sink", UP_WITHIN)

    def count(self) -> int:
        return int(struct.unpack("<Q", self._count.read_bytes())[0])

    def stop(self) -> None:
        end(self._process)


def start(program: str, *arguments: str) -> subprocess.Popen[bytes]:
    """One of the programs beside this file, able to import what ``app`` and they offer. It ends with the thread that
    starts it, also after an error."""
    path = os.pathsep.join([str(HERE), str(HERE.parents[1])])
    command = [sys.executable, str(HERE / program), *arguments]
    return subprocess.Popen(
        command,
        env={**os.environ, "PYTHONPATH": path},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        preexec_fn=die_with_parent(),  # noqa: PLW1509
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


class Loaded(NamedTuple):
    """Microseconds of CPU time an event, and events a second."""

    cost: float
    rate: float


def under_load(pid: int, port: int, shape: str, requests: int, *more: str) -> Loaded:
    """The CPU is that of the process and of all below it."""
    before = cpu_of_tree(pid)
    sent = load(port, shape, requests, *more)
    events = int(sent["events"])
    return Loaded(1e6 * (cpu_of_tree(pid) - before) / events, events / sent["seconds"])


def cpu_of_load(pid: int, port: int, shape: str, requests: int, *more: str) -> float:
    """Microseconds of CPU that one event of this load costs."""
    return under_load(pid, port, shape, requests, *more).cost


class Drained(NamedTuple):
    """Microseconds of CPU a delivery, deliveries a second, and the memory at the end."""

    cost: float
    rate: float
    memory: Memory


def drain(
    service: Service,
    subscription: dict[str, Any],
    came: Callable[[], int],
    total: int,
    first: int = 1,
) -> Drained:
    """The service is started with a backlog, and stopped. Counted from the ``first`` delivery to ``total`` of
    them; ``came`` tells how many there are."""
    service.start((subscription,))
    try:
        wait_until(lambda: came() >= first, "first deliveries", LOAD_WITHIN, turn=0.002)
        begun, some, before = time.monotonic(), came(), cpu_seconds(service.pid)
        wait_until(lambda: came() >= total, "all deliveries", LOAD_WITHIN)
        used, passed = cpu_seconds(service.pid) - before, time.monotonic() - begun
        done = came() - some
        return Drained(1e6 * used / done, done / passed, memory(service.pid))
    finally:
        service.stop()


def many_files() -> None:
    """A connection is a descriptor; the processes that are started from here inherit the bound."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(most, 65_536), most))


def listens(port: int) -> bool:
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
        return True
    return False


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
