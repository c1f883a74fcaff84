"""RabbitMQ of three nodes, each on a host of its own: quorum queues or streams with a replica on each node."""

from __future__ import annotations

import re
import socket
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

from proof.network import Network
from proof.processes import HostProcess
from rabbitmq_server import CONFIG, GREETING, PLUGINS, SCRIPTS, START_METHOD, install
from waiting import wait_until

NAMES = ("rabbit1", "rabbit2", "rabbit3")
PARTITIONS = 3
ALONE = 40.0  # seconds in which a node finds back after a cut
CAUGHT_UP = 120.0  # seconds in which its replicas do
TICK = 8  # seconds after which a node that is not heard counts as away
USER = PASSWORD = "proof"
_PORT, _DISTRIBUTION = 5672, 25672
_COOKIE = "of-the-laboratory-alone"
_OWN = {
    "cluster_formation.peer_discovery_backend": "classic_config",
    **{
        f"cluster_formation.classic_config.nodes.{n}": f"rabbit@{name}"
        for n, name in enumerate(NAMES, 1)
    },
    "cluster_partition_handling": "pause_minority",  # as RabbitMQ advises for three nodes
    "default_user": USER,
    "default_pass": PASSWORD,
    "vm_memory_high_watermark.absolute": "400MB",
}


class Node(HostProcess):
    """One node of the cluster, named after its host."""

    def __init__(self, network: Network, name: str, folder: Path) -> None:
        super().__init__(network[name], folder / name)

    @property
    def address(self) -> str:
        return f"{self.host.address}:{_PORT}"

    def prepare(self) -> None:
        install()
        settings = {**CONFIG, **_OWN}
        lines = "".join(f"{name} = {value}\n" for name, value in settings.items())
        (self.folder / "rabbitmq.conf").write_text(lines)
        (self.folder / "enabled_plugins").write_text(f"[{','.join(PLUGINS)}].\n")
        cookie = self.folder / ".erlang.cookie"
        cookie.write_text(_COOKIE)
        cookie.chmod(0o400)

    def command(self) -> Sequence[str]:
        return [str(SCRIPTS / "rabbitmq-server")]

    def environ(self) -> Mapping[str, str]:
        folder = str(self.folder)
        return {
            "HOME": folder,  # the folder of the cookie
            "RABBITMQ_NODENAME": f"rabbit@{self.name}",
            "RABBITMQ_NODE_PORT": str(_PORT),
            "RABBITMQ_DIST_PORT": str(_DISTRIBUTION),
            "RABBITMQ_MNESIA_BASE": f"{folder}/data",
            "RABBITMQ_LOG_BASE": f"{folder}/log",
            "RABBITMQ_CONFIG_FILE": f"{folder}/rabbitmq.conf",
            "RABBITMQ_ENABLED_PLUGINS_FILE": f"{folder}/enabled_plugins",
            "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": f"-kernel net_ticktime {TICK} +S 1:1 +sbwt none",
            "RUNNING_UNDER_SYSTEMD": "true",  # the script then replaces itself with the node
        }

    def answers(self) -> bool:
        """Return True if the node answers a greeting with the start of the AMQP protocol."""
        try:
            with socket.create_connection((self.host.address, _PORT), timeout=2) as connection:
                connection.settimeout(2)
                connection.sendall(GREETING)
                return connection.recv(4096)[7:11] == START_METHOD
        except OSError:
            return False

    def ctl(self, *words: str) -> str:
        """Run ``rabbitmqctl`` on the host, and return its output. Raises RuntimeError if it fails."""
        command = [str(SCRIPTS / "rabbitmqctl"), "--quiet", "--timeout", "20", *words]
        environ = [f"{name}={value}" for name, value in self.environ().items()]
        return self.host.run("env", *environ, *command)


class RabbitCluster:
    """The cluster, as ``proof.laboratory`` wants one.

    Attributes:
        names: The names of its hosts.
        brokers: The names of those that gateways and workers connect to.
        processes: Its nodes, by the names of their hosts.
        queue_type: The type of the queues that the service declares.
        lease: Seconds in which a worker that lost the brokers may still deliver: its heartbeat.
    """

    names = NAMES
    brokers = NAMES
    lease = 10.0
    commit = 0.6
    settle = 20.0
    queue_type: ClassVar[str] = "quorum"

    def __init__(self, network: Network, folder: Path) -> None:
        self.processes = {name: Node(network, name, folder) for name in NAMES}
        self._topic = ""

    @property
    def version(self) -> str:
        folders = (SCRIPTS.parent / "lib").glob("rabbitmq_server-*")
        number = next((each.name.rpartition("-")[2] for each in folders), "")
        kind = "streams" if self.queue_type == "stream" else "quorum queues"
        return f"RabbitMQ {number}, three nodes, {kind}, cluster_partition_handling pause_minority"

    def start(self) -> None:
        """Start the first node, and then the others, which join it."""
        for each in self.processes.values():
            each.start()
        wait_until(self._whole, "three nodes in one cluster", turn=0.5)

    def settings(self, topic: str) -> Mapping[str, Any]:
        """Return the settings of the broker ``main``. The service declares exchange and queues itself."""
        self._topic = topic
        queue = {} if self.queue_type == "stream" else {"queue": "{topic}.{group}.{partition}"}
        return {
            "kind": "rabbitmq",
            "addresses": ",".join(each.address for each in self.processes.values()),
            "security": {"username": USER, "password": PASSWORD},
            "queue_type": self.queue_type,
            "topics": {"create": True, "partitions": PARTITIONS},
            **queue,
        }

    def heal(self) -> Mapping[str, float]:
        """Return when all nodes run, and every queue of the topic has all its replicas.

        Return the nodes that did not find back by themselves, to the cluster or as a replica of each queue, and the times
        at which they were killed to be restarted.
        """
        for each in self.processes.values():
            each.resume()
            if not each.running:
                each.start()
        lost = self._restart_unless(self._whole, ALONE, self._lost)
        wait_until(self._whole, "three nodes in one cluster", turn=0.5)
        behind = self._restart_unless(self._in_sync, CAUGHT_UP, self._without_replica)
        wait_until(self._whole, "three nodes in one cluster again", turn=0.5)
        wait_until(self._in_sync, "a leader and all replicas of every queue", turn=0.5)
        return {
            **behind,
            **lost,
        }  # a node that was restarted twice is at fault since the first time

    def _restart_unless(
        self, found_back: Callable[[], bool], within: float, lost: Callable[[], list[Node]]
    ) -> Mapping[str, float]:
        """Restart the nodes that do not find back by themselves in some seconds, as an operator has to.

        Return their names, and the times before they were killed.
        """
        try:
            wait_until(found_back, within=within, turn=0.5)
        except TimeoutError:
            nodes, since = lost(), time.monotonic()
        else:
            return {}
        for each in nodes:
            each.kill_if_running()
        for each in nodes:
            each.begin()  # a node that starts may wait for another one
        for each in nodes:
            each.wait_until_answering()
        return dict.fromkeys((each.name for each in nodes), since)

    def _lost(self) -> list[Node]:
        return [each for each in self.processes.values() if self._running(each) < len(NAMES)]

    def _without_replica(self) -> list[Node]:
        """Return the nodes that lack a replica of a queue."""
        online = [nodes for _, nodes in self._queues()]
        return [
            each
            for name, each in self.processes.items()
            if any(name not in nodes for nodes in online)
        ]

    def place(self, role: str) -> str:
        """Return the host of a role at this moment: ``leader`` leads the first queue of the topic."""
        if role != "leader":
            return role
        return next((leader for leader, _ in self._queues()), NAMES[0])

    def _whole(self) -> bool:
        return all(self._running(each) == len(NAMES) for each in self.processes.values())

    def _running(self, node: Node) -> int:
        """Return how many nodes this node sees, itself included; 0 if it does not answer."""
        try:
            return int(node.ctl("eval", "length(rabbit_nodes:all_running()).").strip())
        except (RuntimeError, ValueError):
            return 0

    def _in_sync(self) -> bool:
        return all(leader and len(online) == len(NAMES) for leader, online in self._queues())

    def _queues(self) -> list[tuple[str, list[str]]]:
        """Return the host of the leader and those of the replicas that are online, for each queue of the topic."""
        for node in self.processes.values():
            try:
                lines = node.ctl(
                    "list_queues", "--no-table-headers", "name", "leader", "online"
                ).splitlines()
            except RuntimeError:
                continue  # it is away; another one knows as well
            rows = [line.split("\t") for line in lines if line.startswith(f"{self._topic}.")]
            return [
                (leader.rpartition("@")[2], re.findall(r"@(\w+)", online))
                for _, leader, online in sorted(rows)
            ]
        return []


class RabbitStreams(RabbitCluster):
    """The same cluster, where every queue is a stream."""

    queue_type = "stream"
