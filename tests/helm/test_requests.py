"""What the chart asks of a node is what docs/capacity.md has measured that its example needs."""

from __future__ import annotations

import re
from typing import Any

import pytest
import yaml

import chart
from pages import CHECKOUT

VALUES = yaml.safe_load((chart.CHART / "values.yaml").read_text())
_NEEDS = re.compile(r"<!-- the example needs: ([\d.]+) cores, (\d+) MB -->")
MI = 1024 * 1024


def needs() -> tuple[float, float]:
    """Cores, and bytes: the one line of the page that is for programs."""
    (found,) = _NEEDS.findall((CHECKOUT / "docs" / "capacity.md").read_text())
    return float(found[0]), float(found[1]) * MI


def requests(of: dict[str, Any]) -> tuple[float, float]:
    asked = of["resources"]["requests"]
    cores = float(asked["cpu"].removesuffix("m")) / 1000
    return cores, float(asked["memory"].removesuffix("Mi")) * MI


def test_a_pod_that_does_both_requests_what_the_example_needs():
    cores, memory = needs()
    asked_cores, asked_memory = requests(VALUES["single"])
    assert asked_cores >= cores
    assert asked_memory >= memory


def test_gateways_and_workers_together_do():
    """CPU is shared out among them; each is a whole process."""
    cores, memory = needs()
    roles = [VALUES["gateway"], VALUES["worker"]]
    assert sum(each["replicas"] * requests(each)[0] for each in roles) >= cores
    assert all(requests(each)[1] >= memory for each in roles)


@pytest.mark.parametrize("role", ["single", "gateway", "worker"])
def test_a_limit_of_memory_leaves_room(role: str):
    """For the bounds of what has no answer yet, beside the process itself."""
    limit = float(VALUES[role]["resources"]["limits"]["memory"].removesuffix("Gi")) * 1024 * MI
    assert limit >= 2 * requests(VALUES[role])[1]
