"""Kafka of three brokers in KRaft, each on a host of its own: replication factor 3, two replicas in sync at least."""

from __future__ import annotations

import subprocess
import uuid
from base64 import urlsafe_b64encode
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from confluent_kafka.admin import AdminClient, NewTopic, PartitionMetadata

import kafka_install
from kafka_librdkafka import PATIENCE
from kafka_server import PROPERTIES, brief_options, java, knows_a_broker
from proof.network import Network
from proof.processes import HostProcess
from proof.service_hosts import SUBSCRIPTIONS
from waiting import wait_until

NODES = 3
PARTITIONS = 6
NAMES = tuple(f"kafka{number}" for number in range(1, NODES + 1))
SESSION = 6  # seconds: of brokers with their controller, and of members with their group
_PORT, _CONTROLLER = 9092, 9093
_SMALL = ("-Xms128m", "-Xmx384m", "-Xss512k")
_OWN = {
    "broker.session.timeout.ms": str(SESSION * 1000),
    "broker.heartbeat.interval.ms": "1000",
    "default.replication.factor": str(NODES),
    "min.insync.replicas": "2",
    "replica.lag.time.max.ms": "10000",
    "unclean.leader.election.enable": "false",
    "offsets.topic.replication.factor": str(NODES),
    "transaction.state.log.replication.factor": str(NODES),
    "transaction.state.log.min.isr": "2",
    "metadata.max.idle.interval.ms": "500",
    "controller.quorum.election.timeout.ms": "2000",
    "controller.quorum.fetch.timeout.ms": "4000",
    "controlled.shutdown.enable": "true",
}


class Broker(HostProcess):
    """One broker, which is a controller too."""

    def __init__(self, network: Network, name: str, folder: Path, cluster: str) -> None:
        super().__init__(network[name], folder / name)
        self._voters = ",".join(
            f"{number}@{network[each].address}:{_CONTROLLER}"
            for number, each in enumerate(NAMES, start=1)
        )
        self._number = NAMES.index(name) + 1
        self._cluster = cluster

    @property
    def servers(self) -> str:
        return f"{self.host.address}:{_PORT}"

    @property
    def _config(self) -> Path:
        return self.folder / "server.properties"

    def prepare(self) -> None:
        address = self.host.address
        properties = {
            **PROPERTIES,
            **_OWN,
            "node.id": str(self._number),
            "controller.quorum.voters": self._voters,
            "listeners": f"PLAINTEXT://{address}:{_PORT},CONTROLLER://{address}:{_CONTROLLER}",
            "advertised.listeners": f"PLAINTEXT://{address}:{_PORT}",
            "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
            "log.dirs": str(self.folder / "data"),
        }
        self._config.write_text("".join(f"{name}={value}\n" for name, value in properties.items()))
        tool = ["kafka.tools.StorageTool", "format", "-t", self._cluster, "-c", str(self._config)]
        subprocess.run(
            java(kafka_install.install(), tool, brief_options()), capture_output=True, check=True
        )

    def command(self) -> Sequence[str]:
        options = (*_SMALL, *brief_options())
        return java(kafka_install.install(), ["kafka.Kafka", str(self._config)], options)

    def answers(self) -> bool:
        return knows_a_broker(self.host.address, _PORT)


class KafkaCluster:
    """The cluster, as ``proof.laboratory`` wants one.

    Attributes:
        names: The names of its hosts.
        brokers: The names of those that gateways and workers connect to.
        processes: Its brokers, by the names of their hosts.
        lease: Seconds in which a worker that lost the brokers may still deliver.
    """

    names = NAMES
    brokers = NAMES
    lease = float(SESSION)
    commit = 0.6
    settle = 20.0
    version = f"Kafka {kafka_install.VERSION}, three brokers in KRaft, replication factor 3, min.insync.replicas 2"

    def __init__(self, network: Network, folder: Path) -> None:
        cluster = "k" + urlsafe_b64encode(uuid.uuid4().bytes).decode()[1:22]
        self.processes = {name: Broker(network, name, folder, cluster) for name in NAMES}
        self._topics: list[str] = []

    @property
    def servers(self) -> str:
        return ",".join(each.servers for each in self.processes.values())

    def start(self) -> None:
        for each in self.processes.values():
            each.begin()
        for each in self.processes.values():
            each.wait_until_answering()

    def settings(self, topic: str) -> Mapping[str, Any]:
        """Return the settings of the broker ``main`` in our configuration. Make the topic first."""
        self._make(topic)
        return {
            "kind": "kafka",
            "bootstrap_servers": self.servers,
            "session_timeout": f"{SESSION}s",
        }

    def _make(self, topic: str) -> None:
        wanted = NewTopic(topic, PARTITIONS, replication_factor=NODES)
        admin = self._admin()  # its futures need it alive
        made = admin.create_topics([wanted], operation_timeout=60, request_timeout=60)
        made[topic].result(PATIENCE)
        self._topics.append(topic)
        self.heal()

    def heal(self) -> Mapping[str, float]:
        """Return when all brokers answer, and all replicas of the newest topic are in sync."""
        for each in self.processes.values():
            if not each.running:
                each.begin()
            each.resume()
        for each in self.processes.values():
            each.wait_until_answering()
        wait_until(self._in_sync, "all replicas to be in sync", turn=0.5)
        return {}

    def _in_sync(self) -> bool:
        return all(len(each.isrs) == NODES and each.leader > 0 for each in self._partitions())

    def _admin(self) -> AdminClient:
        return AdminClient({"bootstrap.servers": self.servers, "log_level": 0})

    def _partitions(self) -> Sequence[PartitionMetadata]:
        """Return the partitions of the newest topic, as one of the brokers knows them."""
        if not self._topics:
            return []
        found = self._admin().list_topics(self._topics[-1], timeout=10).topics[self._topics[-1]]
        return list(found.partitions.values())

    def place(self, role: str) -> str:
        """Return the host of a role at this moment.

        ``leader`` leads partition 0 of the newest topic, ``coordinator`` coordinates the group of a subscription.
        """
        if role == "leader":
            return NAMES[self._partitions()[0].leader - 1]
        if role == "coordinator":
            group = f"skybridge.{self._topics[-1]}.{SUBSCRIPTIONS[0]}"
            admin = self._admin()  # its futures need it alive
            found = admin.describe_consumer_groups([group])[group].result(PATIENCE)
            return NAMES[found.coordinator.id - 1]
        return role
