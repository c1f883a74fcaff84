"""``skybridge serve`` as a child process: started, found ready, killed or stopped by process id."""

from __future__ import annotations

import http.client
import itertools
import json
import os
import random
import signal
import socket
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from forked import FORKER, Forked
from waiting import wait_until

READY_WITHIN = 240.0  # seconds; beside busy neighbours an interpreter takes its time
FIRST_PORT, ENOUGH_PORTS = 12_000, 5_000
STOPS_WITHIN = 120.0  # the drain bound of the service, and what a busy machine adds

SERVING = """
version: 1
installation: {installation}
server:
  events: {{host: 127.0.0.1, port: {events}}}
  admin: {{host: 127.0.0.1, port: {admin}}}
store: {{kind: sqlite, path: {folder}/store.db}}
"""
"""How a configuration begins; both ports and the folder are filled in."""


def _begun_elsewhere() -> Iterator[int]:
    """Ports below those that the system gives to whoever asks for any: one of these could go to somebody's
    connection before its service has started, or while it is down. Each process of a run begins at another."""
    ports = range(FIRST_PORT, _first_of_the_system())
    if len(ports) < ENOUGH_PORTS:
        return itertools.repeat(0)  # any: the system leaves no others
    begin = random.SystemRandom().randrange(len(ports))
    return itertools.cycle([*ports[begin:], *ports[:begin]])


def _first_of_the_system() -> int:
    try:
        return int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    except OSError:  # not Linux: as IANA has it
        return 49_152


_PORTS = _begun_elsewhere()


def free_ports(count: int) -> list[int]:
    """Free on loopback, all different: all are held until all are chosen."""
    held: list[socket.socket] = []
    try:
        while len(held) < count:
            held.append(each := socket.socket())
            try:
                each.bind(("127.0.0.1", next(_PORTS)))
            except OSError:  # somebody has it
                held.pop().close()
        return [each.getsockname()[1] for each in held]
    finally:
        for each in held:
            each.close()


def one_subscription(folder: Path, sink: str, events: int, admin: int) -> dict[str, Any]:
    """A configuration of one route and one subscription on the embedded log; ports of both listeners."""
    return {
        "version": 1,
        "server": {"events": {"port": events}, "admin": {"port": admin}},
        "store": {"kind": "sqlite", "path": str(folder / "store.db")},
        "brokers": {"log": {"kind": "embedded", "path": str(folder / "log"), "partitions": 1}},
        "routes": [{"name": "all", "to": {"broker": "log", "topic": "events"}}],
        "subscriptions": [
            {
                "id": "billing",
                "source": {"broker": "log", "topics": ["events"]},
                "start": "earliest",
                "handshake": "off",
                "sink": sink,
            }
        ],
        "webhooks": {"allow_private": ["127.0.0.0/8"]},
        "timeouts": {"store": "60s", "publish": "60s", "not_ready": "0s"},
    }


@contextmanager
def serving(settings: dict[str, Any], folder: Path) -> Iterator[ServiceProcess]:
    """Up until the block ends."""
    config = folder / "skybridge.json"
    config.write_text(json.dumps(settings))
    service = ServiceProcess(config, folder, settings["server"]["admin"]["port"])
    service.start()
    try:
        yield service
    finally:
        service.stop()


class ServiceProcess:
    """One service on one configuration. Its standard error goes to ``<folder>/service.log``.

    It is forked from a process that has imported its modules already (``forked``). ``program``: what is run
    instead, with ``arguments``, from the next start on.
    """

    def __init__(
        self,
        config: Path | None,
        folder: Path,
        admin_port: int,
        program: Sequence[str] = (),
    ) -> None:
        self.arguments = ["serve"] if config is None else ["serve", "--config", str(config)]
        self.program = program
        self._folder = folder
        self._admin_port = admin_port
        self._process: subprocess.Popen[bytes] | Forked | None = None
        self.log = folder / "service.log"

    @property
    def pid(self) -> int:
        if self._process is None:
            raise RuntimeError("the service was not started")
        return self._process.pid

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def start(self, environ: Mapping[str, str] | None = None) -> None:
        """Returns when ``/readyz`` says so."""
        self.begin(environ)
        wait_until(self.ready, f"ready service (see {self.log})", READY_WITHIN)

    def begin(self, environ: Mapping[str, str] | None = None) -> None:
        """Start, and do not wait: it may have a reason not to be ready."""
        env = {**os.environ, **(environ or {})}
        with self.log.open("ab") as log, Path(os.devnull).open("rb") as nothing:
            files = {"stdin": nothing.fileno(), "stdout": log.fileno(), "stderr": log.fileno()}
            if self.program:
                command = [*self.program, *self.arguments]
                self._process = subprocess.Popen(command, cwd=self._folder, env=env, **files)
            else:
                self._process = FORKER.start(self.arguments, cwd=self._folder, env=env, **files)

    def ready(self) -> bool:
        """Raises RuntimeError for one that has ended by itself."""
        if self._process is not None and self._process.poll() is not None:
            raise RuntimeError(f"the service ended by itself:\n{self.log.read_text()[-2000:]}")
        return self.answers("/readyz") == 200

    def answers(self, path: str) -> int | None:
        """The status of a GET on the admin listener; None when nobody answers."""
        connection = http.client.HTTPConnection("127.0.0.1", self._admin_port, timeout=60)
        try:
            connection.request("GET", path)
            return connection.getresponse().status
        except OSError:
            return None
        finally:
            connection.close()

    def kill(self) -> None:
        """SIGKILL: no last words."""
        self._end(signal.SIGKILL)

    def stop(self) -> int:
        """SIGTERM, and its exit code."""
        return self._end(signal.SIGTERM)

    def _end(self, sign: signal.Signals) -> int:
        if self._process is None:
            raise RuntimeError("the service was not started")
        self._process.send_signal(sign)
        try:
            return self._process.wait(STOPS_WITHIN)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
            raise
