"""The scenarios on Pulsar of two brokers, three bookies and one ZooKeeper."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

from proof.attacks import Attacks
from proof.attacks_service import service_scenarios
from proof.faults import Step
from proof.pulsar_cluster_hosts import BOOKIES, BROKERS, KEEPER
from proof.scenario import NOTHING_LOST, Scenario, spans

ATTACKS = Attacks(
    "pulsar", BROKERS, "pulsar*", "The brokers are cut from each other.", (*BOOKIES, KEEPER)
)


def cut_from_bookies(dice: Random) -> list[Step]:
    """The broker that serves the first partition loses two of the three bookies."""
    return [
        Step("leader", "cut from", *span, " ".join(dice.sample(BOOKIES, 2)))
        for span in spans(dice, 2, (12, 20), (14, 18))
    ]


def full_disk(dice: Random) -> list[Step]:
    """The disk of one bookie after another has no byte left."""
    return [
        Step(name, "disk full", *span)
        for name, span in zip(
            dice.sample(BOOKIES, 2), spans(dice, 2, (12, 18), (14, 18)), strict=True
        )
    ]


def bookies_killed(dice: Random) -> list[Step]:
    """One bookie after another is killed, and starts again."""
    return [
        Step(name, "killed", *span)
        for name, span in zip(
            dice.sample(BOOKIES, 3), spans(dice, 3, (5, 9), (14, 18)), strict=True
        )
    ]


SCENARIOS: Sequence[Scenario] = (
    *ATTACKS.scenarios(),
    *service_scenarios("pulsar", "pulsar*"),
    Scenario("pulsar-bookies", "pulsar", NOTHING_LOST, "A broker is cut from two bookies.", cut_from_bookies),
    Scenario("pulsar-disk", "pulsar", NOTHING_LOST, "The disk of a bookie is full.", full_disk),
    Scenario("pulsar-bookies-killed", "pulsar", NOTHING_LOST, "Bookies are killed.", bookies_killed),
)  # fmt: skip
