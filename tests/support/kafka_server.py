"""One real Kafka broker on loopback, run as a process from plain jars.

::

    python -m kafka_server install     fetch the jars into .servers/ (idempotent)
    python -m kafka_server start       a server that stays; fixtures use it instead of their own
    python -m kafka_server status      where it listens, and whether it answers
    python -m kafka_server stop

Tests use ``KafkaServer`` directly, or the session-wide fixture ``kafka`` of ``tests/conftest.py``.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
import uuid
from base64 import urlsafe_b64encode
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from kafka_install import HOME, SERVERS, Missing, install, installed

READY_WITHIN = 240.0  # seconds; a cold JVM beside busy neighbours takes its time
STATE = SERVERS / "kafka.json"
_JVM = ("-Xms128m", "-Xmx512m", "-XX:+UseSerialGC", f"-Dlog4j2.configurationFile={HOME}/log4j2.xml")
_BRIEF = "-XX:TieredStopAtLevel=1"  # no second compiler: it pays after minutes, and costs a core until then
_PR_SET_PDEATHSIG = 1

PROPERTIES: Mapping[str, str] = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "controller.listener.names": "CONTROLLER",
    "auto.create.topics.enable": "false",  # a topic exists because a test made it
    "num.partitions": "8",
    "offsets.topic.replication.factor": "1",
    "offsets.topic.num.partitions": "4",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "transaction.state.log.num.partitions": "4",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "1000",
    "broker.session.timeout.ms": "3000",  # else a killed broker waits 9 s for its own ghost
    "broker.heartbeat.interval.ms": "500",
    "num.network.threads": "2",
    "num.io.threads": "4",
    "background.threads": "2",
    "log.cleaner.dedupe.buffer.size": "4194304",
    "log.retention.check.interval.ms": "1000",
}


class KafkaServer:
    """``start`` returns when it answers. Ports and data stay the same through kill and restart."""

    def __init__(
        self,
        properties: Mapping[str, str] | None = None,
        *,
        outlives_us: bool = False,
        brief: bool = True,
    ) -> None:
        """``brief``: it comes up soon, and is never as fast as it could be: False where it is measured."""
        self.port, self.controller_port = _free_ports(2)
        self.folder = Path(tempfile.mkdtemp(prefix="skybridge-kafka-"))
        self._own = dict(properties or {})
        self._outlives_us = outlives_us
        self._options = (_BRIEF,) if brief else ()
        self.cluster = "k" + urlsafe_b64encode(uuid.uuid4().bytes).decode()[1:22]  # no "-" first
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def bootstrap_servers(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def pid(self) -> int:
        assert self._process is not None, "not started"
        return self._process.pid

    @property
    def log(self) -> Path:
        return self.folder / "server.log"

    def start(self) -> None:
        self.begin()
        self.wait_until_answering()

    def begin(self) -> None:
        """Start, and do not wait: one node of several answers only when others are there."""
        jars = install()
        config = self.folder / "server.properties"
        if not config.exists():
            config.write_text("".join(f"{k}={v}\n" for k, v in self._properties().items()))
            self._format(jars, config)
        self._spawn(jars, config)

    def wait_until_answering(self) -> None:
        """The port alone is not enough: the broker must name itself in its metadata."""
        deadline = time.monotonic() + READY_WITHIN
        while not answers(self.port):
            assert self._process is not None
            if self._process.poll() is not None or time.monotonic() > deadline:
                self.kill()
                raise RuntimeError(f"Kafka did not come up: {self.log.read_text()[-2000:]}")
            time.sleep(0.05)

    def kill(self) -> None:
        """SIGKILL: what the operating system has not yet been given is lost."""
        self._end(signal.SIGKILL)

    def restart(self) -> None:
        """Up again on the same ports and data, whether it was killed or is still running."""
        self._end(signal.SIGTERM)
        self.start()

    def pause(self) -> None:
        """SIGSTOP: connections stay open and nothing answers. Returns when every thread stands."""
        os.kill(self.pid, signal.SIGSTOP)
        os.waitpid(self.pid, os.WUNTRACED)

    def resume(self) -> None:
        os.kill(self.pid, signal.SIGCONT)

    def revive(self) -> None:
        """Up and awake, whatever a test has done to it."""
        assert self._process is not None
        if self._process.poll() is None:
            self.resume()
            self.wait_until_answering()
        else:
            self.start()

    def stop(self) -> None:
        """For good. The data is thrown away, so nothing is gained by asking politely."""
        self.kill()
        shutil.rmtree(self.folder, ignore_errors=True)

    def _end(self, how: signal.Signals) -> None:
        if self._process is None or self._process.poll() is not None:
            return
        self._process.send_signal(how)
        self._process.wait(READY_WITHIN)

    def _properties(self) -> dict[str, str]:
        broker, controller = f"127.0.0.1:{self.port}", f"127.0.0.1:{self.controller_port}"
        return {
            **PROPERTIES,
            "controller.quorum.voters": f"1@{controller}",
            "listeners": f"PLAINTEXT://{broker},CONTROLLER://{controller}",
            "advertised.listeners": f"PLAINTEXT://{broker}",
            "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
            "log.dirs": str(self.folder / "data"),
            **self._own,
        }

    def _format(self, jars: Path, config: Path) -> None:
        tool = ["kafka.tools.StorageTool", "format", "-t", self.cluster, "-c", str(config)]
        result = subprocess.run(
            _java(jars, [*tool, *self._format_options()], (_BRIEF,)),
            capture_output=True,
            text=True,
            check=False,
        )
        if result.returncode:
            raise RuntimeError(f"Kafka's storage could not be formatted: {result.stderr[-2000:]}")

    def _format_options(self) -> Sequence[str]:
        """More words for the tool that prepares the folder: users, for example."""
        return ()

    def _spawn(self, jars: Path, config: Path) -> None:
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                _java(jars, ["kafka.Kafka", str(config)], self._options),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,  # a Ctrl-C meant for the tests is not meant for the broker
                preexec_fn=None if self._outlives_us else _die_with_parent(),  # noqa: PLW1509
            )


def run_tool(
    tool: str,
    arguments: Sequence[str],
    *,
    stdin: bytes = b"",
    package: str = "org.apache.kafka.tools",
) -> str:
    """Output of one of Kafka's own command-line classes: a second opinion on what is on the wire.

    ``tool``: the class below ``package``, such as ``consumer.ConsoleConsumer``.
    """
    command = _java(install(), [f"{package}.{tool}", *arguments], (_BRIEF,))
    result = subprocess.run(command, input=stdin, capture_output=True, timeout=180, check=False)
    if result.returncode:
        raise RuntimeError(f"{tool} failed: {result.stderr.decode()[-2000:]}")
    return result.stdout.decode()


def answers(port: int) -> bool:
    """Whether a broker answers a metadata request and counts itself as alive."""
    request = struct.pack(">hhihi", 3, 1, 7, -1, 0)  # Metadata v1, no client id, no topics
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=2) as connection:
            connection.settimeout(2)
            connection.sendall(struct.pack(">i", len(request)) + request)
            answer = connection.recv(4096)
    except OSError:
        return False
    return len(answer) >= 12 and struct.unpack_from(">iii", answer)[1:] > (7, 0)


def running() -> str | None:
    """Where the server of ``start`` listens, if it answers."""
    if not STATE.exists():
        return None
    port = json.loads(STATE.read_text())["port"]
    return f"127.0.0.1:{port}" if answers(port) else None


def _java(jars: Path, arguments: Sequence[str], options: Sequence[str]) -> list[str]:
    return ["java", *_JVM, *options, "-cp", f"{jars}/*", *arguments]


def _free_ports(count: int) -> list[int]:
    sockets = [socket.socket() for _ in range(count)]
    for each in sockets:
        each.bind(("127.0.0.1", 0))
    ports = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports


def _die_with_parent() -> Callable[[], None] | None:
    """Linux ends the broker with us, even when we are killed and no fixture gets to clean up.

    Safe beside threads: the child does nothing but this one system call. Its parent is the thread
    that starts it, so only the main one will do.
    """
    if sys.platform != "linux" or threading.current_thread() is not threading.main_thread():
        return None
    libc = ctypes.CDLL(None)
    return lambda: libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def _start() -> None:
    if (address := running()) is None:
        server = KafkaServer(outlives_us=True)
        server.start()
        state = {"pid": server.pid, "port": server.port, "folder": str(server.folder)}
        STATE.write_text(json.dumps(state))
        address = server.bootstrap_servers
    print(f"Kafka answers on {address}")


def _stop() -> None:
    if not STATE.exists():
        print("Kafka was not started here")
        return
    state = json.loads(STATE.read_text())
    if answers(state["port"]):  # else the process id may be somebody else's by now
        os.kill(state["pid"], signal.SIGKILL)
    shutil.rmtree(state["folder"], ignore_errors=True)
    STATE.unlink()
    print("Kafka stopped")


def _status() -> None:
    address = running()
    print(f"jars: {'installed' if installed() else 'not installed'}")
    print(f"Kafka answers on {address}" if address else "Kafka is not running")


def main() -> int:
    verbs: dict[str, Callable[[], object]] = {
        "install": install,
        "start": _start,
        "stop": _stop,
        "status": _status,
    }
    parser = argparse.ArgumentParser(prog="kafka_server", description="A real Kafka for tests.")
    parser.add_argument("verb", choices=verbs)
    try:
        verbs[parser.parse_args().verb]()
    except Missing as missing:
        print(missing, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
