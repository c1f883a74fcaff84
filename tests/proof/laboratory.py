"""The laboratory: a cluster, a store, two gateways, three workers, a target and the senders, each on a host of its own.

::

    with Laboratory("kafka", folder) as laboratory:
        result = Trial(laboratory, scenario("kafka-leader"), seed=1).run()
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Protocol, Self

import psycopg

from proof.hosts import Network
from proof.kafka_cluster_hosts import KafkaCluster
from proof.processes import HostProcess
from proof.pulsar_cluster_hosts import PulsarCluster
from proof.rabbitmq_cluster_hosts import RabbitCluster, RabbitStreams
from proof.service_hosts import GATEWAYS, WORKERS
from proof.store_host import Postgres

STORE, TARGET, LOAD = "store", "target", "load"


class Cluster(Protocol):
    """A cluster of brokers on hosts of its own.

    Attributes:
        names: The names of its hosts.
        version: What it is, for the page.
        processes: Its programs, by the names of their hosts.
        lease: Seconds in which a worker that lost the brokers may still deliver.
    """

    names: tuple[str, ...]
    lease: float
    version: str
    processes: Mapping[str, HostProcess]

    def __init__(self, network: Network, folder: Path) -> None: ...

    def start(self) -> None:
        """Start all programs, and return when the cluster works."""

    def settings(self, topic: str) -> Mapping[str, Any]:
        """Return the settings of the broker ``main`` for a run with this topic, and make what must be there."""

    def heal(self) -> None:
        """Start and resume what does not run, and return when the cluster is whole again."""

    def place(self, role: str) -> str:
        """Return the host that has a role at this moment, or the argument, if it is no role."""


CLUSTERS: Mapping[str, Callable[[Network, Path], Cluster]] = {
    "kafka": KafkaCluster,
    "rabbitmq": RabbitCluster,
    "rabbitmq-streams": RabbitStreams,
    "pulsar": PulsarCluster,
}


class Laboratory:
    """The hosts with a cluster and a store, which serve one trial after another.

    Attributes:
        network: The hosts.
        folder: The folder of all files of the laboratory, which is removed in the end.
    """

    def __init__(self, kind: str, folder: Path) -> None:
        self.kind = kind
        self.folder = folder
        names = CLUSTERS[kind].names  # type: ignore[attr-defined]
        self.network = Network([*names, STORE, *GATEWAYS, *WORKERS, TARGET, LOAD], TARGET)

    def __enter__(self) -> Self:
        self.folder.mkdir(parents=True, exist_ok=True)
        self.folder.chmod(0o755)  # PostgreSQL is another user
        self.network.__enter__()
        try:
            self.cluster: Cluster = CLUSTERS[self.kind](self.network, self.folder)
            self.store = Postgres(self.network[STORE], self.folder)
            self.store.begin()
            self.cluster.start()
            self.store.wait_until_answering()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.network.__exit__()
        shutil.rmtree(self.folder, ignore_errors=True)

    def fresh_database(self, name: str) -> str:
        """Make an empty database for a trial, and return its address."""
        with psycopg.connect(self.store.dsn, autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {name}")  # type: ignore[call-overload]
        return self.store.dsn.rpartition("/")[0] + f"/{name}"
