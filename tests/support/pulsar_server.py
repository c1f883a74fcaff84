"""One real Pulsar on loopback: broker, bookie and metadata store in one process, from plain jars.

::

    python -m pulsar_server install     fetch the distribution into .servers/ (idempotent)
    python -m pulsar_server start       a server that stays; fixtures use it instead of their own
    python -m pulsar_server status      where it listens, and whether it answers
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
from pulsar_install import HOME, install
from server_process import ServerProcess
from service_process import free_ports
from standing_server import Standing

CLASSES = HOME / "server.jsa"
AWAKE_WITHIN = 60.0  # seconds that one that was stopped has to find its bookie again
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
    "allowAutoTopicCreation": "false",  # a topic exists because a test made it
    "acknowledgmentAtBatchIndexLevelEnabled": "true",
    "defaultRetentionTimeInMinutes": "60",  # what was settled can be read again
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
    """``settings``   beside or instead of ``PROPERTIES``.
    ``headers``    what an administrator sends, where the server asks who he is.
    ``options``    of its JVM.
    """

    name = "Pulsar"
    ready_within = 300.0
    restarted_by = signal.SIGKILL  # it takes its time over an orderly end

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
        return _urls(self.ports)[0]

    @property
    def admin_url(self) -> str:
        return _urls(self.ports)[1]

    @property
    def ports(self) -> Mapping[str, int]:
        return {"port": self.port, "web_port": self.web_port}

    @staticmethod
    def addresses(ports: Mapping[str, int]) -> str:
        service, admin = _urls(ports)
        return f"{service}, its administration on {admin}"

    @staticmethod
    def answering(ports: Mapping[str, int]) -> bool:
        return carries(_urls(ports)[1], {})

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
    """A command line that lacks the class and its arguments."""
    return ["java", *_JVM, *class_data.shared(CLASSES), *options, "-cp", f"{home}/lib/*"]


def carries(admin_url: str, headers: Mapping[str, str]) -> bool:
    """Whether the broker knows its cluster, which it must to take topics, and a message goes through it:
    one that answers may still look for its bookie."""
    return _is_well(f"{admin_url}/admin/v2/namespaces/public/default", headers, 2) and _is_well(
        f"{admin_url}/admin/v2/brokers/health", headers, 30
    )


def _is_well(url: str, headers: Mapping[str, str], seconds: float) -> bool:
    try:
        answer = httpx.get(url, headers=headers, timeout=seconds, trust_env=False)
    except httpx.HTTPError:
        return False
    return answer.status_code == httpx.codes.OK


def _urls(ports: Mapping[str, int]) -> tuple[str, str]:
    """Of the service and of the administration."""
    return f"pulsar://127.0.0.1:{ports['port']}", f"http://127.0.0.1:{ports['web_port']}"


def _merged(template: Path, properties: Mapping[str, str]) -> str:
    """The distribution's own configuration, with these settings in place of its."""
    kept = [
        line
        for line in template.read_text().splitlines()
        if "=" in line and not line.startswith("#") and line.partition("=")[0] not in properties
    ]
    return "\n".join([*kept, *(f"{key}={value}" for key, value in properties.items())]) + "\n"


STANDING = Standing(PulsarServer, install)


def running() -> tuple[str, str] | None:
    """Service and admin address of the server of ``start``, if it answers."""
    ports = STANDING.ports()
    return None if ports is None else _urls(ports)


if __name__ == "__main__":
    sys.exit(STANDING.main())
