"""Three real Kafka brokers on loopback with replication factor 3, for failures that one node
cannot show. ``tests/proof`` has three on hosts of their own, whose networks fail too.
"""

from __future__ import annotations

import time

from kafka_librdkafka import PATIENCE, in_sync, make_topic
from kafka_server import KafkaServer

NODES = 3


class Node(KafkaServer):
    """One broker of the cluster, which is a controller too."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self.number = number
        self.voters = ""

    def _properties(self) -> dict[str, str]:
        return {
            **super()._properties(),
            "node.id": str(self.number),
            "controller.quorum.voters": self.voters,
            "default.replication.factor": str(NODES),
            "min.insync.replicas": "2",
            "metadata.max.idle.interval.ms": "500",
            "unclean.leader.election.enable": "false",
            "offsets.topic.replication.factor": str(NODES),
        }


class KafkaCluster:
    """The cluster. ``nodes`` has the brokers by their numbers, 1 to 3."""

    def __init__(self) -> None:
        self.nodes = {number: Node(number) for number in range(1, NODES + 1)}
        first = self.nodes[1]
        for node in self.nodes.values():
            node.cluster = first.cluster
            node.voters = ",".join(
                f"{each.number}@127.0.0.1:{each.controller_port}" for each in self.nodes.values()
            )

    @property
    def bootstrap_servers(self) -> str:
        return ",".join(node.bootstrap_servers for node in self.nodes.values())

    def start(self) -> None:
        for node in self.nodes.values():
            node.begin()
        for node in self.nodes.values():
            node.wait_until_answering()

    def revive(self) -> None:
        """Start or resume every node that a test has stopped or paused."""
        for node in self.nodes.values():
            node.revive()

    def stop(self) -> None:
        for node in self.nodes.values():
            node.stop()

    def topic(self, name: str, leader: int = 1) -> None:
        """Create a topic with one partition, which ``leader`` leads, and with a replica on each
        node. Wait until all replicas are in sync."""
        others = [number for number in self.nodes if number != leader]
        make_topic(self.bootstrap_servers, name, 1, [[leader, *others]])
        self.until_in_sync(name)

    def until_in_sync(self, topic: str) -> None:
        deadline = time.monotonic() + PATIENCE
        while in_sync(self.bootstrap_servers, topic) != set(self.nodes):
            assert time.monotonic() < deadline, f"{topic} is not in sync in time"
            time.sleep(0.1)
