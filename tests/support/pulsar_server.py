"""A real Pulsar on loopback: broker, bookie and metadata store in one process, run from plain jars.

::

    python -m pulsar_server install     fetch the distribution into .servers/ unless it is there
    python -m pulsar_server start       start a server that keeps running; fixtures use it
    python -m pulsar_server status      print where it listens, and whether it answers
    python -m pulsar_server stop

Tests use ``PulsarServer`` directly, or the session-wide fixture ``pulsar`` of ``tests/conftest.py``.
"""

from __future__ import annotations

import signal
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import httpx

import class_data
from free_ports import free_ports
from persistent_server import PersistentServer
from pulsar_install import HOME, install
from server_process import ServerProcess

CLASSES = HOME / "server.jsa"
AWAKE_WITHIN = 60.0  # seconds for a resumed server to find its bookie again
_JVM = (
    "-Xms128m", "-Xmx512m", "-XX:MaxDirectMemorySize=512m", "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1", "-Djava.net.preferIPv4Stack=true",
    "-Dio.netty.tryReflectionSetAccessible=true", "-Dio.netty.leakDetectionLevel=disabled",
    "-Dorg.apache.pulsar.shade.io.netty.tryReflectionSetAccessible=true",
    *(
        word
        for module in (
            "java.base/java.io", "java.base/java.nio", "java.base/java.util.zip",
            "java.base/jdk.internal.misc", "java.base/jdk.internal.platform",
            "java.management/sun.management", "jdk.management/com.sun.management.internal",
        )
        for word in ("--add-opens", f"{module}=ALL-UNNAMED")
    ),
)  # fmt: skip

PROPERTIES: Mapping[str, str] = {
    "advertisedAddress": "127.0.0.1",
    "bindAddress": "127.0.0.1",
    "bookkeeperMetadataServiceUri": "",
    "allowAutoTopicCreation": "false",  # a topic exists only if a test created it
    "acknowledgmentAtBatchIndexLevelEnabled": "true",
    "defaultRetentionTimeInMinutes": "60",  # so that tests can read acknowledged messages again
    "defaultRetentionSizeInMB": "512",
    "brokerShutdownTimeoutMs": "0",
    "numIOThreads": "2",
    "numOrderedExecutorThreads": "2",
    "numHttpServerThreads": "8",
    "numCacheExecutorThreadPoolSize": "2",
    "bookkeeperClientNumWorkerThreads": "2",
    "bookkeeperNumberOfChannelsPerBookie": "2",
    "managedLedgerNumSchedulerThreads": "2",
    "managedLedgerCacheSizeMB": "64",
    "dbStorage_writeCacheMaxSizeMb": "32",
    "dbStorage_readAheadCacheMaxSizeMb": "32",
    "dbStorage_rocksDB_blockCacheSize": "8388608",
    "systemTopicEnabled": "true",
    "topicLevelPoliciesEnabled": "true",
    "webSocketServiceEnabled": "false",
}


class PulsarServer(ServerProcess):
    """A standalone Pulsar server.

    Args:
        settings: Broker settings in addition to ``PROPERTIES``, or in place of them.
        headers: HTTP headers with the credentials of an administrator.
        outlives_us: Whether the server keeps running after this process.
        options: Options of its JVM.
    """

    name = "Pulsar"
    usual_port = 6650
    ready_within = 300.0
    restarted_by = signal.SIGKILL  # an orderly end takes too long

    def __init__(
        self,
        settings: Mapping[str, str] | None = None,
        *,
        headers: Mapping[str, str] | None = None,
        outlives_us: bool = False,
        options: Sequence[str] = (),
    ) -> None:
        super().__init__(outlives_us=outlives_us)
        self.port, self.web_port, self._bookie_port = free_ports(3)
        self._own = dict(settings or {})
        self._headers = dict(headers or {})
        self._options = tuple(options)

    @property
    def service_url(self) -> str:
        return urls(self.ports)[0]

    @property
    def admin_url(self) -> str:
        return urls(self.ports)[1]

    @property
    def ports(self) -> Mapping[str, int]:
        return {"port": self.port, "web_port": self.web_port}

    @staticmethod
    def addresses(ports: Mapping[str, int]) -> str:
        service, admin = urls(ports)
        return f"{service}, its administration on {admin}"

    @staticmethod
    def answering(ports: Mapping[str, int]) -> bool:
        return carries(urls(ports)[1], {})

    def answers(self) -> bool:
        return carries(self.admin_url, self._headers)

    def begin(self) -> None:
        home = install()
        config = self.folder / "standalone.conf"
        if not config.exists():
            config.write_text(_merged(home / "conf" / "standalone.conf", self._properties()))
        self._process = self._spawn(self._command(home, config))

    def revive(self) -> None:
        assert self._process is not None
        if self._process.poll() is None:
            self.resume()
        if not self.answers_within(AWAKE_WITHIN):
            self.restart()

    def _properties(self) -> dict[str, str]:
        return {
            **PROPERTIES,
            "brokerServicePort": str(self.port),
            "webServicePort": str(self.web_port),
            **self._own,
        }

    def _command(self, home: Path, config: Path) -> list[str]:
        starter = ["org.apache.pulsar.PulsarStandaloneStarter", "-nfw", "-nss", "-a", "127.0.0.1"]
        places = [
            "-c", str(config),
            "--bookkeeper-port", str(self._bookie_port),
            "--bookkeeper-dir", str(self.folder / "bookkeeper"),
            "--metadata-dir", str(self.folder / "metadata"),
        ]  # fmt: skip
        logs = f"-Dlog4j.configurationFile={home}/log4j2.xml"
        return [*java(home, logs, *self._options), *starter, *places]


def java(home: Path, *options: str) -> list[str]:
    """Return the command line of a JVM with the jars of Pulsar, without a class and its arguments."""
    return ["java", *_JVM, *class_data.shared(CLASSES), *options, "-cp", f"{home}/lib/*"]


def carries(admin_url: str, headers: Mapping[str, str]) -> bool:
    """Return True if the broker accepts topics and messages can pass through it.

    A broker that answers may still not know its cluster, or still be looking for its bookie.
    """
    return _is_well(f"{admin_url}/admin/v2/namespaces/public/default", headers, 2) and _is_well(
        f"{admin_url}/admin/v2/brokers/health", headers, 30
    )


def _is_well(url: str, headers: Mapping[str, str], seconds: float) -> bool:
    try:
        answer = httpx.get(url, headers=headers, timeout=seconds, trust_env=False)
    except httpx.HTTPError:
        return False
    return answer.status_code == httpx.codes.OK


def urls(ports: Mapping[str, int]) -> tuple[str, str]:
    """Return the URLs of the service and of the administration."""
    return f"pulsar://127.0.0.1:{ports['port']}", f"http://127.0.0.1:{ports['web_port']}"


def _merged(template: Path, properties: Mapping[str, str]) -> str:
    """Return the configuration file of the distribution with these settings in place."""
    kept = [
        line
        for line in template.read_text().splitlines()
        if "=" in line and not line.startswith("#") and line.partition("=")[0] not in properties
    ]
    return "\n".join([*kept, *(f"{key}={value}" for key, value in properties.items())]) + "\n"


STANDING = PersistentServer(PulsarServer, install)


def running() -> tuple[str, str] | None:
    """Return the service URL and admin URL of the server that ``start`` started, or None.

    None means that the server does not answer.
    """
    ports = STANDING.ports()
    return None if ports is None else urls(ports)


if __name__ == "__main__":
    sys.exit(STANDING.main())
