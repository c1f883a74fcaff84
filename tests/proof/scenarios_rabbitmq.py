"""The scenarios on RabbitMQ of three nodes, with quorum queues and with streams."""

from __future__ import annotations

from collections.abc import Sequence

from proof.attacks import Attacks
from proof.rabbitmq_cluster_hosts import NAMES
from proof.scenario import Scenario

SCENARIOS: Sequence[Scenario] = (
    *Attacks("rabbitmq", NAMES, "rabbit*").scenarios(),
    *Attacks("rabbitmq-streams", NAMES, "rabbit*").scenarios(),
)
