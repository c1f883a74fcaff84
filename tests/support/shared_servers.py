"""One set of servers for all worker processes of a test run. Each server starts when a test first
asks for it.

The process that a person started makes a ``RunOfTests`` and ends it. Any process calls ``shared_server``. A keeper process
runs each server, and stops it when the run is over, also if the run was killed. The keeper reads a pipe of its kind
whose other end is open as long as the run lives. A byte in the pipe stops the server earlier.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import class_data
import kafka_server
import postgres_server
import pulsar_server
import rabbitmq_server
from kafka_install import Missing, one_at_a_time
from server_process import ServerProcess

RUN = "SKYBRIDGE_TEST_RUN"
"""The environment variable that names the folder of the run."""
_LIFE = "life"


class ServerKind(NamedTuple):
    """A kind of server.

    Attributes:
        make: Make a server with the given options of its JVM.
        found: Return the addresses of a server, for the tests.
        classes: The class-data archive of its JVM, or None.
    """

    make: Callable[[tuple[str, ...]], ServerProcess]
    found: Callable[[Any], list[str]]
    classes: Path | None = None


KINDS: Mapping[str, ServerKind] = {
    "kafka": ServerKind(
        lambda options: kafka_server.KafkaServer(options=options),
        lambda server: [server.bootstrap_servers],
        kafka_server.CLASSES,
    ),
    "pulsar": ServerKind(
        lambda options: pulsar_server.PulsarServer(options=options),
        lambda server: [server.service_url, server.admin_url],
        pulsar_server.CLASSES,
    ),
    "rabbitmq": ServerKind(
        lambda _: rabbitmq_server.RabbitServer(), lambda server: [server.address]
    ),
    "postgres": ServerKind(lambda _: postgres_server.PostgresServer(), lambda server: [server.dsn]),
}


class RunOfTests:
    """The life of a test run, from construction to ``end``."""

    def __init__(self) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="skybridge-run-"))
        self._lives = {kind: _begun(self._folder / f"{kind}.{_LIFE}") for kind in KINDS}
        os.environ[RUN] = str(self._folder)

    def stop(self, kind: str) -> None:
        """Stop the server of this kind if it runs. If a test asks for the server afterwards, another one starts."""
        with one_at_a_time(kind, self._folder):
            known = self._folder / f"{kind}.json"
            if known.exists():
                known.unlink()
                os.write(self._lives[kind], b"\n")

    def end(self) -> None:
        """End the run, and return when every server has stopped."""
        for life in self._lives.values():
            os.close(life)
        for kind in KINDS:
            with one_at_a_time(f"{kind}-kept", self._folder):
                pass
        shutil.rmtree(self._folder, ignore_errors=True)
        os.environ.pop(RUN, None)


def _begun(life: Path) -> int:
    """Make a pipe, and return the descriptor that keeps it open."""
    os.mkfifo(life)
    return os.open(life, os.O_RDWR)


def shared_server(kind: str) -> list[str]:
    """Return the addresses of the server of this kind. The first call starts it.

    Raises:
        Missing: The server is not installed.
    """
    folder = Path(os.environ[RUN])
    known = folder / f"{kind}.json"
    with one_at_a_time(kind, folder):
        if not known.exists():
            known.write_text(_started(kind, folder))
    said: dict[str, Any] = json.loads(known.read_text())
    if "missing" in said:
        raise Missing(said["missing"])
    found: list[str] = said["found"]
    return found


def _started(kind: str, folder: Path) -> str:
    """Start a keeper, and return the line of JSON that it prints: the addresses, or what is
    missing."""
    with (folder / f"{kind}.log").open("wb") as log:
        keeper = subprocess.Popen(
            [sys.executable, __file__, kind, str(folder)],
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=log,
            start_new_session=True,  # a Ctrl-C ends the run, which in turn ends the server
        )
    assert keeper.stdout is not None
    with keeper.stdout:
        line = keeper.stdout.readline().decode()
    keeper.returncode = 0  # the keeper ends after this process, so nothing waits for it
    if not line:
        raise RuntimeError(f"{kind} did not start: {(folder / f'{kind}.log').read_text()[-2000:]}")
    return line


def keep(kind: ServerKind, life: Path) -> None:
    """Start a server, print its addresses, and stop it when the run is over, or when the pipe has a byte."""
    lives = life.open("rb")
    with class_data.recorded(kind.classes) as options:
        server = kind.make(options)
        try:
            server.start()
            print(json.dumps({"found": kind.found(server)}), flush=True)
            lives.read(1)
            if options:
                server.end()
        finally:
            server.stop()


def main(name: str, folder: Path) -> None:
    with one_at_a_time(f"{name}-kept", folder):
        try:
            keep(KINDS[name], folder / f"{name}.{_LIFE}")
        except Missing as why:
            print(json.dumps({"missing": str(why)}), flush=True)


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
