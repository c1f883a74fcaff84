"""The most telling scenarios, each on a whole cluster; ``make proof`` has all of them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from folder_in_memory import folder_in_memory
from kafka_install import Missing
from proof.laboratory import Laboratory
from proof.scenarios import scenario
from proof.trial import Trial
from skipping import skip_or_fail

pytestmark = [pytest.mark.nightly, pytest.mark.postgres, pytest.mark.fault]

TELLING = [
    *(
        pytest.param(name, marks=pytest.mark.kafka)
        for name in ("kafka-leader", "kafka-leader-relaxed", "kafka-minority", "kafka-lease")
    ),
    pytest.param("rabbitmq-away", marks=pytest.mark.rabbitmq),
    pytest.param("store-cut-off", marks=pytest.mark.kafka),
]
SEED = 1


@pytest.fixture(scope="module")
def laboratory(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Laboratory]:
    """The laboratory of one kind, which all scenarios of this kind share."""
    folder = (folder_in_memory() or tmp_path_factory.getbasetemp()) / "proof-of-tests"
    try:
        with Laboratory(request.param, folder) as laboratory:
            yield laboratory
    except Missing as missing:
        skip_or_fail(missing)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Give each scenario the laboratory of its kind."""
    pairs = [
        pytest.param(scenario(str(each.values[0])).cluster, *each.values, marks=each.marks)
        for each in TELLING
    ]
    metafunc.parametrize(("laboratory", "name"), pairs, indirect=["laboratory"], scope="module")


def test_a_scenario_has_the_verdict_that_it_must_have(
    laboratory: Laboratory, name: str, tmp_path: Path
) -> None:
    """All guarantees hold on clusters whose networks fail; without ``acks=all`` the same attack loses events."""
    result = Trial(laboratory, scenario(name), SEED, tmp_path / name, print).run()
    assert result.as_expected, [result.text, *result.remarks]
