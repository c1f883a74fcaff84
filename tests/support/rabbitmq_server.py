"""A real RabbitMQ node on loopback, run as a process from the package of the system.

::

    python -m rabbitmq_server start       start a server that keeps running; fixtures use it
    python -m rabbitmq_server status      print where it listens, and whether it answers
    python -m rabbitmq_server stop

The node is one operating-system process with its own name, ports, folders, cookie and name server
(``epmd``). It contacts no other node of the machine, and leaves nothing running.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from free_ports import free_ports
from kafka_install import Missing
from persistent_server import PersistentServer
from server_process import ServerProcess, answer_to

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
    """Return the folder of the programs. Raise ``Missing`` if the system's package is not
    installed."""
    if not installed():
        raise Missing("RabbitMQ is not installed (on Debian: apt-get install rabbitmq-server)")
    return SCRIPTS


class RabbitServer(ServerProcess):
    """A RabbitMQ node with its own name server."""

    name = "RabbitMQ"
    usual_port = 5672

    def __init__(
        self, config: Mapping[str, str] | None = None, *, outlives_us: bool = False
    ) -> None:
        super().__init__(outlives_us=outlives_us)
        self.port, self.tls_port, self._dist_port, self._epmd_port = free_ports(4)
        self._own = dict(config or {})
        self._epmd: subprocess.Popen[bytes] | None = None

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    @staticmethod
    def addresses(ports: Mapping[str, int]) -> str:
        return f"127.0.0.1:{ports['port']} as guest"

    @staticmethod
    def answering(ports: Mapping[str, int]) -> bool:
        """Return True if a node on this port answers a greeting with the start of the AMQP
        protocol."""
        return answer_to(ports["port"], GREETING)[7:11] == START_METHOD

    @property
    def pids(self) -> list[int]:
        return [each.pid for each in (self._process, self._epmd) if each is not None]

    def configure(self, config: Mapping[str, str]) -> None:
        """Add lines to ``rabbitmq.conf``. They apply from the next start."""
        self._own |= config

    def begin(self) -> None:
        install()
        self._write_config()
        environment = self._environment()
        if self._epmd is None or self._epmd.poll() is not None:
            self._epmd = self._spawn(["epmd", "-address", "127.0.0.1"], env=environment)
        self._process = self._spawn([str(SCRIPTS / "rabbitmq-server")], env=environment)

    def stop(self) -> None:
        self.kill()
        if self._epmd is not None:
            self._epmd.kill()
            self._epmd.wait()
        super().stop()

    def ctl(self, *words: str) -> str:
        """Run ``rabbitmqctl``, which shares no code with the driver, and return its output."""
        return self._tool("rabbitmqctl", "--quiet", *words)

    def remember(self) -> None:
        """Flush what was declared to disk, so that it survives a SIGKILL.

        RabbitMQ 3.10 writes confirmed exchanges, bindings and the register of quorum queues to disk seconds
        later. A node that is killed before has routes without queues, or queues that never answer.
        """
        self.ctl("eval", "mnesia:sync_log(), [dets:sync(Table) || Table <- dets:all()].")

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

    def _write_config(self) -> None:
        settings = {**CONFIG, **self._own}
        lines = "".join(f"{name} = {value}\n" for name, value in settings.items())
        (self.folder / "rabbitmq.conf").write_text(lines)
        (self.folder / "enabled_plugins").write_text(f"[{','.join(PLUGINS)}].\n")

    def _environment(self) -> dict[str, str]:
        folder = str(self.folder)
        own = {
            "HOME": folder,  # the folder of the cookie
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
            "RUNNING_UNDER_SYSTEMD": "true",  # the script then replaces itself with the node, so there is one process to watch
        }
        return {**os.environ, **own}


STANDING = PersistentServer(RabbitServer, install)


def running() -> str | None:
    """Return the address of the server that ``start`` started, or None if it does not answer."""
    ports = STANDING.ports()
    return None if ports is None else f"127.0.0.1:{ports['port']}"


if __name__ == "__main__":
    sys.exit(STANDING.main())
