"""The scenarios on RabbitMQ of three nodes, with quorum queues and with streams."""

from __future__ import annotations

from collections.abc import Sequence

from proof.attacks import Attacks
from proof.rabbitmq_cluster_hosts import NAMES
from proof.scenario import Scenario

ATTACKS = Attacks("rabbitmq", NAMES, "rabbit*")

SCENARIOS: Sequence[Scenario] = (
    *ATTACKS.scenarios(),
    *Attacks("rabbitmq-streams", NAMES, "rabbit*").scenarios(),
    Scenario(
        "rabbitmq-away-unconfirmed", "rabbitmq",
        "Control: a gateway that does not wait for the confirms of RabbitMQ loses events.",
        "Each broker is away for half a minute.", ATTACKS.one_away,
        gives_up="confirms", convicts="lost",
    ),
)  # fmt: skip
