"""All scenarios of the laboratory."""

from __future__ import annotations

from collections.abc import Sequence

from proof import scenarios_kafka
from proof.scenario import Scenario

SCENARIOS: Sequence[Scenario] = (*scenarios_kafka.SCENARIOS,)


def scenario(name: str) -> Scenario:
    """Return the scenario of this name. Raises KeyError if there is none."""
    return {each.name: each for each in SCENARIOS}[name]
