"""The scenarios on RabbitMQ of three nodes, with quorum queues and with streams."""

from __future__ import annotations

from collections.abc import Sequence

from proof.attacks import Attacks
from proof.attacks_service import service_scenarios
from proof.rabbitmq_cluster_hosts import NAMES
from proof.scenario import Scenario

ATTACKS = Attacks("rabbitmq", NAMES, "rabbit*")
STREAMS = Attacks("rabbitmq-streams", NAMES, "rabbit*")

SCENARIOS: Sequence[Scenario] = (
    *ATTACKS.scenarios(),
    *service_scenarios("rabbitmq", "rabbit*"),
    *STREAMS.scenarios(),
    *service_scenarios("rabbitmq-streams", "rabbit*"),
    Scenario(
        "rabbitmq-away-unconfirmed", "rabbitmq",
        "Control: a gateway that does not wait for the confirms of RabbitMQ loses events.",
        "Each broker is away for half a minute.", ATTACKS.one_away,
        gives_up="confirms", convicts="lost",
    ),
    Scenario(
        "rabbitmq-streams-leader-shared", "rabbitmq-streams",
        "Control: a gateway that publishes to all streams through one channel loses events.",
        "The leader is cut from its followers.", STREAMS.leader_cut_off,
        gives_up="channels", convicts="lost",
    ),
)  # fmt: skip
