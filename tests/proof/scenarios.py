"""All scenarios of the laboratory."""

from __future__ import annotations

from collections.abc import Sequence

from proof import scenarios_kafka, scenarios_pulsar, scenarios_rabbitmq, scenarios_store
from proof.scenario import Scenario

SCENARIOS: Sequence[Scenario] = (
    *scenarios_kafka.SCENARIOS,
    *scenarios_rabbitmq.SCENARIOS,
    *scenarios_pulsar.SCENARIOS,
    *scenarios_store.SCENARIOS,
)


def scenario(name: str) -> Scenario:
    """Return the scenario of this name. Raises KeyError if there is none."""
    return {each.name: each for each in SCENARIOS}[name]
