"""One real Kafka broker on loopback, run as a process from jars.

Commands: ``python -m kafka_server install`` fetches the jars into .servers/, unless they are there.
``start`` starts a server that stays; fixtures use it instead of their own. ``status`` prints its
address and whether it answers. ``stop`` ends it.

Tests use ``KafkaServer`` directly, or the session-wide fixture ``kafka`` of ``tests/conftest.py``.
"""

from __future__ import annotations

import struct
import subprocess
import sys
import uuid
from base64 import urlsafe_b64encode
from collections.abc import Mapping, Sequence
from pathlib import Path

import class_data
from free_ports import free_ports
from kafka_install import HOME, install
from persistent_server import PersistentServer
from server_process import ServerProcess, answer_to

_JVM = ("-Xms128m", "-Xmx512m", "-XX:+UseSerialGC", f"-Dlog4j2.configurationFile={HOME}/log4j2.xml")
_BRIEF = "-XX:TieredStopAtLevel=1"  # no second compiler: it saves time after minutes, and uses a core until then
CLASSES = HOME / "server.jsa"

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
    "broker.session.timeout.ms": "3000",  # otherwise a killed broker waits 9 s for its old session to end
    "broker.heartbeat.interval.ms": "500",
    "metadata.max.idle.interval.ms": "0",  # otherwise an idle broker writes a no-op record twice a second
    "num.network.threads": "2",
    "num.io.threads": "4",
    "background.threads": "2",
    "log.cleaner.dedupe.buffer.size": "4194304",
    "log.retention.check.interval.ms": "1000",
}


class KafkaServer(ServerProcess):
    name = "Kafka"
    usual_port = 9092

    def __init__(
        self,
        properties: Mapping[str, str] | None = None,
        *,
        outlives_us: bool = False,
        brief: bool = True,
        options: Sequence[str] = (),
    ) -> None:
        """Prepare a server without starting it.

        Args:
            properties: Further settings of the broker.
            outlives_us: Whether the server stays when this process ends.
            brief: Whether to start fast at the price of speed later. False for measurements.
            options: Further options of its JVM.
        """
        super().__init__(outlives_us=outlives_us)
        self.port, self.controller_port = free_ports(2)
        self._own = dict(properties or {})
        self._options = (*options, *(brief_options() if brief else ()))
        self.cluster = "k" + urlsafe_b64encode(uuid.uuid4().bytes).decode()[1:22]  # no "-" first

    @property
    def bootstrap_servers(self) -> str:
        return self.addresses(self.ports)

    @staticmethod
    def addresses(ports: Mapping[str, int]) -> str:
        return f"127.0.0.1:{ports['port']}"

    @staticmethod
    def answering(ports: Mapping[str, int]) -> bool:
        return knows_a_broker("127.0.0.1", ports["port"])

    def begin(self) -> None:
        jars = install()
        config = self.folder / "server.properties"
        if not config.exists():
            config.write_text("".join(f"{k}={v}\n" for k, v in self._properties().items()))
            self._format(jars, config)
        self._process = self._spawn(java(jars, ["kafka.Kafka", str(config)], self._options))

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
            java(jars, [*tool, *self._format_options()], brief_options()),
            capture_output=True,
            text=True,
            check=False,
        )
        if result.returncode:
            raise RuntimeError(f"Kafka's storage could not be formatted: {result.stderr[-2000:]}")

    def _format_options(self) -> Sequence[str]:
        """Return further arguments of the tool that formats the storage, such as users."""
        return ()


def knows_a_broker(host: str, port: int) -> bool:
    """Return True if a broker answers a metadata request and counts a broker as alive, such as itself."""
    request = struct.pack(">hhihi", 3, 1, 7, -1, 0)  # Metadata v1, no client id, no topics
    answer = answer_to(port, struct.pack(">i", len(request)) + request, host)
    return len(answer) >= 12 and struct.unpack_from(">iii", answer)[1:] > (7, 0)


def run_tool(
    tool: str,
    arguments: Sequence[str],
    *,
    stdin: bytes = b"",
    package: str = "org.apache.kafka.tools",
) -> str:
    """Run one of Kafka's own command-line classes and return its output, as a view that is
    independent of our code.

    ``tool`` is the class below ``package``, such as consumer.ConsoleConsumer. Raises RuntimeError
    if the tool fails.
    """
    command = java(install(), [f"{package}.{tool}", *arguments], brief_options())
    result = subprocess.run(command, input=stdin, capture_output=True, timeout=180, check=False)
    if result.returncode:
        raise RuntimeError(f"{tool} failed: {result.stderr.decode()[-2000:]}")
    return result.stdout.decode()


STANDING = PersistentServer(KafkaServer, install)


def running() -> str | None:
    """Return the address of the server that the command ``start`` started. Return None if it does
    not answer."""
    ports = STANDING.ports()
    return None if ports is None else KafkaServer.addresses(ports)


def brief_options() -> tuple[str, ...]:
    """Return the options of a JVM that starts fast, at the price of speed later."""
    return (_BRIEF, *class_data.shared(CLASSES))


def java(jars: Path, arguments: Sequence[str], options: Sequence[str]) -> list[str]:
    """Return the command of a JVM with these jars. Its memory is that of a test, unless the options name another."""
    return ["java", *_JVM, *options, "-cp", f"{jars}/*", *arguments]


if __name__ == "__main__":
    sys.exit(STANDING.main())
