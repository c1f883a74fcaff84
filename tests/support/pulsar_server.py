"""One real Pulsar on loopback: broker, bookie and metadata store in one process, from plain jars.

::

    python -m pulsar_server install     fetch the distribution into .servers/ (idempotent)
    python -m pulsar_server start       a server that stays; fixtures use it instead of their own
    python -m pulsar_server status      where it listens, and whether it answers
    python -m pulsar_server stop

Tests use ``PulsarServer`` directly, or the session-wide fixture ``pulsar`` of ``tests/conftest.py``.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import httpx

from kafka_install import Missing
from pulsar_install import HOME, SERVERS, install, installed

READY_WITHIN = 300.0  # seconds; a cold JVM beside busy neighbours takes its time
AWAKE_WITHIN = 60.0  # seconds that one that was stopped has to find its bookie again
STATE = SERVERS / "pulsar.json"
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
_PR_SET_PDEATHSIG = 1

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


class PulsarServer:
    """``start`` returns when it answers. Ports and data stay the same through kill and restart.

    ``settings``   beside or instead of ``PROPERTIES``.
    ``headers``    what an administrator sends, where the server asks who he is.
    """

    def __init__(
        self,
        settings: Mapping[str, str] | None = None,
        *,
        headers: Mapping[str, str] | None = None,
        outlives_us: bool = False,
    ) -> None:
        self.port, self.web_port, self._bookie_port = free_ports(3)
        self.folder = Path(tempfile.mkdtemp(prefix="skybridge-pulsar-"))
        self._own = dict(settings or {})
        self._headers = dict(headers or {})
        self._outlives_us = outlives_us
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def service_url(self) -> str:
        return f"pulsar://127.0.0.1:{self.port}"

    @property
    def admin_url(self) -> str:
        return f"http://127.0.0.1:{self.web_port}"

    @property
    def pid(self) -> int:
        assert self._process is not None, "not started"
        return self._process.pid

    @property
    def log(self) -> Path:
        return self.folder / "server.log"

    def start(self) -> None:
        home = install()
        config = self.folder / "standalone.conf"
        if not config.exists():
            config.write_text(_merged(home / "conf" / "standalone.conf", self._properties()))
        self._spawn(home, config)
        self.wait_until_answering()

    def wait_until_answering(self) -> None:
        """The port alone is not enough: the broker must find itself fit to carry a message."""
        if not self._well_within(READY_WITHIN):
            self.kill()
            raise RuntimeError(f"Pulsar did not come up: {self.log.read_text()[-2000:]}")

    def _well_within(self, seconds: float) -> bool:
        assert self._process is not None
        deadline = time.monotonic() + seconds
        while self._process.poll() is None and time.monotonic() < deadline:
            if answers(self.admin_url, self._headers) and carries(self.admin_url, self._headers):
                return True
            time.sleep(0.1)
        return False

    def kill(self) -> None:
        """SIGKILL: what the operating system has not yet been given is lost."""
        self._end(signal.SIGKILL)

    def restart(self) -> None:
        """Up again on the same ports and data, whether it was killed or is still running."""
        self.kill()
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
        if not self._well_within(AWAKE_WITHIN):
            self.restart()

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
        return {
            **PROPERTIES,
            "brokerServicePort": str(self.port),
            "webServicePort": str(self.web_port),
            **self._own,
        }

    def _spawn(self, home: Path, config: Path) -> None:
        starter = ["org.apache.pulsar.PulsarStandaloneStarter", "-nfw", "-nss", "-a", "127.0.0.1"]
        places = [
            "-c", str(config),
            "--bookkeeper-port", str(self._bookie_port),
            "--bookkeeper-dir", str(self.folder / "bookkeeper"),
            "--metadata-dir", str(self.folder / "metadata"),
        ]  # fmt: skip
        command = [*java(home, f"-Dlog4j.configurationFile={home}/log4j2.xml"), *starter, *places]
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                command,
                cwd=self.folder,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,  # a Ctrl-C meant for the tests is not meant for the broker
                preexec_fn=None if self._outlives_us else _die_with_parent(),  # noqa: PLW1509
            )


def java(home: Path, *options: str) -> list[str]:
    """A command line that lacks the class and its arguments."""
    return ["java", *_JVM, *options, "-cp", f"{home}/lib/*"]


def answers(admin_url: str, headers: Mapping[str, str] | None = None) -> bool:
    """Whether the broker knows its cluster and leads it: only then it takes topics."""
    try:
        answer = httpx.get(
            f"{admin_url}/admin/v2/namespaces/public/default", headers=headers, timeout=2,
            trust_env=False,
        )  # fmt: skip
    except httpx.HTTPError:
        return False
    return answer.status_code == httpx.codes.OK


def carries(admin_url: str, headers: Mapping[str, str] | None = None) -> bool:
    """Whether a message goes through it: a broker that answers may still look for its bookie."""
    try:
        answer = httpx.get(
            f"{admin_url}/admin/v2/brokers/health", headers=headers, timeout=30, trust_env=False
        )
    except httpx.HTTPError:
        return False
    return answer.status_code == httpx.codes.OK


def running() -> tuple[str, str] | None:
    """Service and admin address of the server of ``start``, if it answers."""
    if not STATE.exists():
        return None
    state = json.loads(STATE.read_text())
    addresses = f"pulsar://127.0.0.1:{state['port']}", f"http://127.0.0.1:{state['web_port']}"
    return addresses if answers(addresses[1]) else None


def free_ports(count: int) -> list[int]:
    sockets = [socket.socket() for _ in range(count)]
    for each in sockets:
        each.bind(("127.0.0.1", 0))
    ports = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports


def _merged(template: Path, properties: Mapping[str, str]) -> str:
    """The distribution's own configuration, with these settings in place of its."""
    kept = [
        line
        for line in template.read_text().splitlines()
        if "=" in line and not line.startswith("#") and line.partition("=")[0] not in properties
    ]
    return "\n".join([*kept, *(f"{key}={value}" for key, value in properties.items())]) + "\n"


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
    if (addresses := running()) is None:
        server = PulsarServer(outlives_us=True)
        server.start()
        state = {
            "pid": server.pid, "port": server.port, "web_port": server.web_port,
            "folder": str(server.folder),
        }  # fmt: skip
        STATE.write_bytes(json.dumps(state).encode())
        addresses = server.service_url, server.admin_url
    print(f"Pulsar answers on {addresses[0]}, its administration on {addresses[1]}")


def _stop() -> None:
    if not STATE.exists():
        print("Pulsar was not started here")
        return
    state = json.loads(STATE.read_text())
    if running():  # else the process id may be somebody else's by now
        os.kill(state["pid"], signal.SIGKILL)
    shutil.rmtree(state["folder"], ignore_errors=True)
    STATE.unlink()
    print("Pulsar stopped")


def _status() -> None:
    addresses = running()
    print(f"distribution: {'installed' if installed() else 'not installed'} ({HOME.name})")
    print(f"Pulsar answers on {' and '.join(addresses)}" if addresses else "Pulsar is not running")


def main() -> int:
    verbs: dict[str, Callable[[], object]] = {
        "install": install,
        "start": _start,
        "stop": _stop,
        "status": _status,
    }
    parser = argparse.ArgumentParser(prog="pulsar_server", description="A real Pulsar for tests.")
    parser.add_argument("verb", choices=verbs)
    try:
        verbs[parser.parse_args().verb]()
    except Missing as missing:
        print(missing, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
