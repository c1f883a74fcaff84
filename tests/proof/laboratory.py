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

from proof.kafka_cluster_hosts import KafkaCluster
from proof.network import Network
from proof.processes import HostProcess
from proof.pulsar_cluster_hosts import PulsarCluster
from proof.rabbitmq_cluster_hosts import RabbitCluster, RabbitStreams
from proof.service_hosts import GATEWAYS, WORKERS
from proof.store_host import SingleStore
from proof.store_pair_hosts import StorePair, UnsafePair

TARGET, LOAD = "target", "load"


class Cluster(Protocol):
    """A cluster of brokers on hosts of its own.

    Attributes:
        names: The names of its hosts.
        brokers: The names of those hosts that gateways and workers connect to.
        version: What it is, for the page.
        processes: Its programs, by the names of their hosts.
        lease: Seconds in which a worker that lost the brokers may still deliver.
        commit: Seconds of finished deliveries that a fault may repeat (``docs/guarantees.md``).
        settle: Seconds after a fault in which a busy machine starts programs, and partitions change their owners.
    """

    names: tuple[str, ...]
    brokers: tuple[str, ...]
    lease: float
    commit: float
    settle: float
    version: str
    processes: Mapping[str, HostProcess]

    def __init__(self, network: Network, folder: Path) -> None: ...

    def start(self) -> None:
        """Start all programs, and return when the cluster works."""

    def settings(self, topic: str) -> Mapping[str, Any]:
        """Return the settings of the broker ``main`` for a run with this topic, and make what must be there."""

    def heal(self) -> Mapping[str, float]:
        """Start and resume what does not run, and return when the cluster is whole again.

        Return the hosts whose programs ran, but were restarted because they did not find back to the others, and the
        times at which they were killed.
        """

    def place(self, role: str) -> str:
        """Return the host that has a role at this moment, or the argument, if it is no role."""


class Store(Protocol):
    """A store that all workers share, on hosts of its own.

    Attributes:
        names: The names of its hosts.
        members: Its servers, by the names of their hosts.
    """

    names: tuple[str, ...]
    members: Mapping[str, HostProcess]

    def __init__(self, network: Network, folder: Path) -> None: ...

    def start(self) -> None:
        """Start all servers, and return when the store works."""

    def dsn(self, database: str = "postgres") -> str:
        """Return the address of a database."""

    def heal(self) -> None:
        """Start and resume what does not run, and return when the store is whole again."""

    def promote(self) -> None:
        """Let the standby take the place of the primary, which the caller has killed or cut off."""

    def place(self, role: str) -> str:
        """Return the host that has a role at this moment, or the argument, if it is no role."""


CLUSTERS: Mapping[str, Callable[[Network, Path], Cluster]] = {
    "kafka": KafkaCluster,
    "rabbitmq": RabbitCluster,
    "rabbitmq-streams": RabbitStreams,
    "pulsar": PulsarCluster,
    "kafka-pair": KafkaCluster,
    "kafka-unsafe-pair": KafkaCluster,
}
STORES: Mapping[str, Callable[[Network, Path], Store]] = {
    "kafka-pair": StorePair,
    "kafka-unsafe-pair": UnsafePair,
}
"""The stores of the kinds of laboratory that have another one than a single server."""


def hosts_of(kind: str) -> list[str]:
    """Return the names of all hosts of a laboratory of this kind."""
    cluster: Any = CLUSTERS[kind]
    store: Any = STORES.get(kind, SingleStore)
    return [*cluster.names, *store.names, *GATEWAYS, *WORKERS, TARGET, LOAD]


class Laboratory:
    """The hosts with a cluster and a store, which serve one trial after another.

    Attributes:
        network: The hosts.
        folder: The folder of all files of the laboratory, which is removed in the end.
    """

    def __init__(self, kind: str, folder: Path) -> None:
        self.kind = kind
        self.folder = folder
        self.network = Network(hosts_of(kind), TARGET)

    def __enter__(self) -> Self:
        self.folder.mkdir(parents=True, exist_ok=True)
        self.folder.chmod(0o755)  # PostgreSQL is another user
        self.network.__enter__()
        self.cluster: Cluster = CLUSTERS[self.kind](self.network, self.folder)
        self.store: Store = STORES.get(self.kind, SingleStore)(self.network, self.folder)
        try:
            self.store.start()
            self.cluster.start()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        for each in (*self.cluster.processes.values(), *self.store.members.values()):
            each.kill_if_running()
        self.network.__exit__()
        shutil.rmtree(self.folder, ignore_errors=True)

    def fresh_database(self, name: str) -> str:
        """Make an empty database for a trial, and return its address."""
        with psycopg.connect(self.store.dsn(), autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {name}")  # type: ignore[call-overload]
        return self.store.dsn(name)
