"""One real RabbitMQ node on loopback, run as a process from the system's package.

::

    python -m rabbitmq_server start       a server that stays; fixtures use it instead of their own
    python -m rabbitmq_server status      where it listens, and whether it answers
    python -m rabbitmq_server stop

The node is one operating-system process, with its own name, ports, folders, cookie and name server
(``epmd``): it meets no other node of the machine, and nothing of it stays behind.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from kafka_install import SERVERS, Missing
from kafka_server import _die_with_parent, _free_ports

READY_WITHIN = 240.0  # seconds; beside busy neighbours a boot takes its time
STATE = SERVERS / "rabbitmq.json"
SCRIPTS = Path("/usr/lib/rabbitmq/bin")
PLUGINS = ("rabbitmq_consistent_hash_exchange", "rabbitmq_auth_mechanism_ssl")
GREETING = b"AMQP\x00\x00\x09\x01"
START_METHOD = b"\x00\x0a\x00\x0a"  # Connection.Start

CONFIG: Mapping[str, str] = {
    "loopback_users.guest": "true",
    "disk_free_limit.absolute": "50MB",
    "log.file.level": "warning",
    "auth_mechanisms.1": "PLAIN",
    "auth_mechanisms.2": "EXTERNAL",
    "ssl_cert_login_from": "common_name",
    "raft.wal_max_size_bytes": "8388608",
}


def installed() -> bool:
    return (SCRIPTS / "rabbitmq-server").exists() and shutil.which("epmd") is not None


def install() -> Path:
    """The folder of its programs. The package comes from the system, never from us."""
    if not installed():
        raise Missing("RabbitMQ is not installed (on Debian: apt-get install rabbitmq-server)")
    return SCRIPTS


class RabbitServer:
    """``start`` returns when it answers. Ports and data stay the same through kill and restart."""

    def __init__(
        self, config: Mapping[str, str] | None = None, *, outlives_us: bool = False
    ) -> None:
        self.port, self.tls_port, self._dist_port, self._epmd_port = _free_ports(4)
        self.folder = Path(tempfile.mkdtemp(prefix="skybridge-rabbitmq-"))
        self._own = dict(config or {})
        self._outlives_us = outlives_us
        self._process: subprocess.Popen[bytes] | None = None
        self._epmd: subprocess.Popen[bytes] | None = None

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def pid(self) -> int:
        assert self._process is not None, "not started"
        return self._process.pid

    @property
    def pids(self) -> list[int]:
        return [each.pid for each in (self._process, self._epmd) if each is not None]

    @property
    def log(self) -> Path:
        return self.folder / "server.log"

    def configure(self, config: Mapping[str, str]) -> None:
        """Lines of ``rabbitmq.conf``, from the next start on."""
        self._own |= config

    def start(self) -> None:
        install()
        self._write_config()
        if self._epmd is None or self._epmd.poll() is not None:
            self._epmd = self._spawn(["epmd", "-address", "127.0.0.1"])
        self._process = self._spawn([str(SCRIPTS / "rabbitmq-server")])
        self.wait_until_answering()

    def wait_until_answering(self) -> None:
        """The port alone is not enough: the node must begin the protocol."""
        deadline = time.monotonic() + READY_WITHIN
        while not answers(self.port):
            assert self._process is not None
            if self._process.poll() is not None or time.monotonic() > deadline:
                self.kill()
                raise RuntimeError(f"RabbitMQ did not come up: {self.log.read_text()[-2000:]}")
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
        if self._epmd is not None:
            self._epmd.kill()
            self._epmd.wait()
        shutil.rmtree(self.folder, ignore_errors=True)

    def ctl(self, *words: str) -> str:
        """What ``rabbitmqctl`` answers: a second opinion, by a program that shares no code with ours."""
        return self._tool("rabbitmqctl", "--quiet", *words)

    def remember(self) -> None:
        """What was declared survives a SIGKILL from here on. RabbitMQ 3.10 writes the register of its
        quorum queues to disk seconds after it confirmed them; one that is killed before has queues
        that never answer again."""
        self.ctl("eval", "[dets:sync(Table) || Table <- dets:all()].")

    def _tool(self, tool: str, *words: str) -> str:
        command = [str(SCRIPTS / tool), "-n", self._node, *words]
        result = subprocess.run(
            command, env=self._environment(), capture_output=True, timeout=180, check=False
        )
        if result.returncode:
            raise RuntimeError(f"{tool} failed: {(result.stderr + result.stdout).decode()[-2000:]}")
        return result.stdout.decode()

    @property
    def _node(self) -> str:
        return f"skybridge{self.port}@localhost"

    def _end(self, how: signal.Signals) -> None:
        if self._process is None or self._process.poll() is not None:
            return
        self._process.send_signal(how)
        if how is signal.SIGTERM:
            self._process.send_signal(signal.SIGCONT)
        self._process.wait(READY_WITHIN)

    def _write_config(self) -> None:
        settings = {**CONFIG, **self._own}
        lines = "".join(f"{name} = {value}\n" for name, value in settings.items())
        (self.folder / "rabbitmq.conf").write_text(lines)
        (self.folder / "enabled_plugins").write_text(f"[{','.join(PLUGINS)}].\n")

    def _environment(self) -> dict[str, str]:
        folder = str(self.folder)
        own = {
            "HOME": folder,  # of the cookie
            "ERL_EPMD_PORT": str(self._epmd_port),
            "ERL_EPMD_ADDRESS": "127.0.0.1",
            "RABBITMQ_NODENAME": self._node,
            "RABBITMQ_NODE_IP_ADDRESS": "127.0.0.1",
            "RABBITMQ_NODE_PORT": str(self.port),
            "RABBITMQ_DIST_PORT": str(self._dist_port),
            "RABBITMQ_MNESIA_BASE": f"{folder}/data",
            "RABBITMQ_LOG_BASE": f"{folder}/log",
            "RABBITMQ_CONFIG_FILE": f"{folder}/rabbitmq.conf",
            "RABBITMQ_ENABLED_PLUGINS_FILE": f"{folder}/enabled_plugins",
            "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": (
                "-kernel inet_dist_use_interface {127,0,0,1} -start_epmd false +S 2:2 +sbwt none"
            ),
            "RUNNING_UNDER_SYSTEMD": "true",  # the script becomes the node: one process to watch
        }
        return {**os.environ, **own}

    def _spawn(self, command: list[str]) -> subprocess.Popen[bytes]:
        with self.log.open("ab") as log:
            return subprocess.Popen(
                command,
                env=self._environment(),
                cwd=self.folder,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,  # a Ctrl-C meant for the tests is not meant for the broker
                preexec_fn=None if self._outlives_us else _die_with_parent(),  # noqa: PLW1509
            )


def answers(port: int) -> bool:
    """Whether a node begins the protocol when it is greeted."""
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=2) as connection:
            connection.settimeout(2)
            connection.sendall(GREETING)
            answer = connection.recv(4096)
    except OSError:
        return False
    return answer[7:11] == START_METHOD


def running() -> str | None:
    """Where the server of ``start`` listens, if it answers."""
    if not STATE.exists():
        return None
    port = json.loads(STATE.read_text())["port"]
    return f"127.0.0.1:{port}" if answers(port) else None


def _start() -> None:
    if (address := running()) is None:
        server = RabbitServer(outlives_us=True)
        server.start()
        state = {"pids": server.pids, "port": server.port, "folder": str(server.folder)}
        SERVERS.mkdir(exist_ok=True)
        STATE.write_text(json.dumps(state))
        address = server.address
    print(f"RabbitMQ answers on {address} as guest")


def _stop() -> None:
    if not STATE.exists():
        print("RabbitMQ was not started here")
        return
    state = json.loads(STATE.read_text())
    if answers(state["port"]):  # else the process ids may be somebody else's by now
        for pid in state["pids"]:
            os.kill(pid, signal.SIGKILL)
    shutil.rmtree(state["folder"], ignore_errors=True)
    STATE.unlink()
    print("RabbitMQ stopped")


def _status() -> None:
    address = running()
    print(f"package: {'installed' if installed() else 'not installed'}")
    print(f"RabbitMQ answers on {address}" if address else "RabbitMQ is not running")


def main() -> int:
    verbs: dict[str, Callable[[], object]] = {"start": _start, "stop": _stop, "status": _status}
    parser = argparse.ArgumentParser(prog="rabbitmq_server", description="A real RabbitMQ.")
    parser.add_argument("verb", choices=verbs)
    try:
        verbs[parser.parse_args().verb]()
    except Missing as missing:
        print(missing, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
