"""Pulsar as a cluster: two brokers, three bookies and one ZooKeeper, each on a host of its own.

Each entry is on two bookies and is acknowledged when both have it, as Pulsar has it by default. The third bookie takes
the place of one that fails.
"""

from __future__ import annotations

import socket
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import httpx

from proof.network import Network
from proof.processes import HostProcess
from pulsar_install import VERSION, install
from pulsar_server import PROPERTIES, carries, java
from waiting import wait_until

KEEPER = "keeper"
BOOKIES = ("bookie1", "bookie2", "bookie3")
BROKERS = ("pulsar1", "pulsar2")
PARTITIONS = 4
SESSION = 6  # seconds: of brokers and bookies with ZooKeeper
DISK = 160  # MB: of each bookie
_ZOOKEEPER, _BOOKIE, _SERVICE, _WEB = 2181, 3181, 6650, 8080
_SMALL = ("-Xms64m", "-Xmx256m", "-XX:MaxDirectMemorySize=256m", "-Xss512k")
_DRIVERS = tuple(
    f"-Dbookkeeper.metadata.{kind}.drivers=org.apache.pulsar.metadata.bookkeeper.PulsarMetadata{name}Driver"
    for kind, name in (("bookie", "Bookie"), ("client", "Client"))
)


class Part(HostProcess):
    """One JVM of the cluster."""

    def __init__(self, network: Network, name: str, folder: Path) -> None:
        super().__init__(network[name], folder / name)
        self._metadata = f"zk:{network[KEEPER].address}:{_ZOOKEEPER}"

    port = 0
    starter: Sequence[str] = ()

    @property
    def config(self) -> Path:
        return self.folder / "server.conf"

    def properties(self) -> Mapping[str, object]:
        return {}

    def prepare(self) -> None:
        lines = (f"{name}={value}\n" for name, value in self.properties().items())
        self.config.write_text("".join(lines))

    def command(self) -> Sequence[str]:
        return [*_java(), *self.starter, str(self.config)]

    def answers(self) -> bool:
        return _listens(self.host.address, self.port)


class Keeper(Part):
    """The metadata store of the cluster."""

    port = _ZOOKEEPER
    starter = ("org.apache.zookeeper.server.quorum.QuorumPeerMain",)

    def properties(self) -> Mapping[str, object]:
        return {
            "dataDir": self.folder / "data",
            "clientPort": _ZOOKEEPER,
            "tickTime": 1000,
            "admin.enableServer": "false",
            "forceSync": "no",  # a kill loses no write that the operating system has
        }

    def make_cluster(self, brokers: Sequence[Part]) -> None:
        """Write the metadata of a new cluster."""
        words = [
            *_java(), "org.apache.pulsar.PulsarClusterMetadataSetup", "--cluster", "proof",
            "--metadata-store", self._metadata, "--configuration-metadata-store", self._metadata,
            "--web-service-url", f"http://{brokers[0].host.address}:{_WEB}",
            "--broker-service-url", f"pulsar://{brokers[0].host.address}:{_SERVICE}",
        ]  # fmt: skip
        done = subprocess.run(self.host.command(words), capture_output=True, text=True, check=False)
        if done.returncode:
            raise RuntimeError(f"the metadata of Pulsar: {(done.stdout + done.stderr)[-2000:]}")


class Bookie(Part):
    """One server of entries. Its disk is a file system of its own, which can be full."""

    port = _BOOKIE
    starter = ("org.apache.bookkeeper.server.Main", "--conf")

    def prepare(self) -> None:
        self.disk = self.host.disk(DISK)
        super().prepare()

    def properties(self) -> Mapping[str, object]:
        return {
            "metadataServiceUri": f"metadata-store:{self._metadata}",
            "zkTimeout": SESSION * 1000,
            "bookiePort": _BOOKIE,
            "advertisedAddress": self.host.address,
            "journalDirectories": self.disk / "journal",
            "ledgerDirectories": self.disk / "ledgers",
            "journalMaxSizeMB": 16,
            "journalMaxBackups": 1,
            "journalSyncData": "false",
            "logSizeLimit": 16 << 20,
            "gcWaitTime": 10_000,
            "minUsableSizeForEntryLogCreation": 1 << 20,
            "minUsableSizeForIndexFileCreation": 1 << 20,
            "diskUsageThreshold": 0.8,
            "diskUsageWarnThreshold": 0.75,
            "diskUsageLwmThreshold": 0.7,
            "diskCheckInterval": 1000,
            "httpServerEnabled": "false",
            "numAddWorkerThreads": 1,
            "numReadWorkerThreads": 1,
        }


class Broker(Part):
    """One broker."""

    port = _SERVICE
    starter = ("org.apache.pulsar.PulsarBrokerStarter", "--broker-conf")

    @property
    def admin(self) -> str:
        return f"http://{self.host.address}:{_WEB}"

    def properties(self) -> Mapping[str, object]:
        return {
            **PROPERTIES,
            "advertisedAddress": self.host.address,
            "bindAddress": "0.0.0.0",
            "brokerServicePort": _SERVICE,
            "webServicePort": _WEB,
            "clusterName": "proof",
            "metadataStoreUrl": self._metadata,
            "configurationMetadataStoreUrl": self._metadata,
            "metadataStoreSessionTimeoutMillis": SESSION * 1000,
            "managedLedgerDefaultEnsembleSize": 2,
            "managedLedgerDefaultWriteQuorum": 2,
            "managedLedgerDefaultAckQuorum": 2,
            "bookkeeperClientTimeoutInSeconds": 5,
            "brokerDeleteInactiveTopicsEnabled": "false",
        }

    def answers(self) -> bool:
        return carries(self.admin, {})


class PulsarCluster:
    """The cluster, as ``proof.laboratory`` wants one.

    Attributes:
        names: The names of its hosts.
        brokers: The names of those that gateways and workers connect to.
        processes: Its programs, by the names of their hosts.
        lease: Seconds in which a worker that lost the brokers may still deliver.
    """

    names = (KEEPER, *BOOKIES, *BROKERS)
    brokers = BROKERS
    lease = 5.0
    commit = 3.0  # a broker stores acknowledgements about once a second
    settle = 20.0
    version = f"Pulsar {VERSION}, two brokers, three bookies, entries on two bookies, one ZooKeeper"

    def __init__(self, network: Network, folder: Path) -> None:
        self._keeper = Keeper(network, KEEPER, folder)
        self._bookies = [Bookie(network, name, folder) for name in BOOKIES]
        self._brokers = [Broker(network, name, folder) for name in BROKERS]
        parts = (self._keeper, *self._bookies, *self._brokers)
        self.processes = {each.name: each for each in parts}
        self._topic = ""

    def start(self) -> None:
        self._keeper.start()
        self._keeper.make_cluster(self._brokers)
        for group in (self._bookies, self._brokers):
            for each in group:
                each.begin()
            for each in group:
                each.wait_until_answering()

    def settings(self, topic: str) -> Mapping[str, Any]:
        """Return the settings of the broker ``main``. The first process of the service makes the topic."""
        self._topic = topic
        services, webs = (
            ",".join(f"{each.host.address}:{port}" for each in self._brokers)
            for port in (_SERVICE, _WEB)
        )
        return {
            "kind": "pulsar",
            "service_url": f"pulsar://{services}",
            "admin_url": f"http://{webs}",
            "topics": {"create": True, "partitions": PARTITIONS},
        }

    def heal(self) -> Mapping[str, float]:
        """Return when all programs run, and messages pass through both brokers."""
        for each in self.processes.values():
            if not each.running:
                each.begin()
            each.resume()
        for each in self.processes.values():
            each.wait_until_answering()
        wait_until(lambda: self._owner() != "", "the topic to have an owner", turn=0.5)
        return {}

    def place(self, role: str) -> str:
        """Return the host of a role at this moment: ``leader`` serves the first partition of the topic."""
        return (self._owner() or BROKERS[0]) if role == "leader" else role

    def _owner(self) -> str:
        """Return the host of the broker that serves the first partition, or "" if none answers."""
        path = f"/lookup/v2/topic/persistent/public/default/{self._topic}-partition-0"
        for each in self._brokers:
            try:
                found = httpx.get(each.admin + path, timeout=5, trust_env=False)
                address = found.json()["brokerUrl"]
            except (httpx.HTTPError, ValueError, KeyError):
                continue
            return next((b.name for b in self._brokers if f"//{b.host.address}:" in address), "")
        return ""


def _java() -> list[str]:
    home = install()
    logs = f"-Dlog4j.configurationFile={home}/log4j2.xml"
    return java(home, *_SMALL, logs, *_DRIVERS)


def _listens(address: str, port: int) -> bool:
    try:
        socket.create_connection((address, port), timeout=2).close()
    except OSError:
        return False
    return True
