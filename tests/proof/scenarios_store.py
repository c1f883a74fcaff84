"""The scenarios on PostgreSQL with a standby, while parked keys drain. The broker is Kafka."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

from proof.faults import Step
from proof.scenario import NOTHING_LOST, Scenario


def promoted(dice: Random) -> list[Step]:
    """Keys park, the standby loses the primary, and takes its place while the keys drain; the primary is killed.

    A commit that only the primary has is lost then. A commit that waits for the standby does not return before.
    """
    cut, begin = round(dice.uniform(8, 12), 1), round(dice.uniform(22, 26), 1)
    drain = round(begin - dice.uniform(-1, 2), 1)
    return [
        Step("target", "answers", 2, drain, "moody refuse"),
        Step("copy", "cut from", cut, begin + 12, "primary"),
        Step("primary", "replaced", begin, begin + 14, "killed"),
    ]


def cut_off(dice: Random) -> list[Step]:
    """The primary is cut off while keys park, and stays away; statements that were sent to it get no answer."""
    begin = round(dice.uniform(10, 14), 1)
    return [
        Step("target", "answers", 2, begin + 4, "moody refuse"),
        Step("primary", "replaced", begin, begin + 45, "cut"),
    ]


SCENARIOS: Sequence[Scenario] = (
    Scenario("store-promoted", "kafka-pair", NOTHING_LOST, "The primary is killed, and the standby promoted.", promoted),
    Scenario("store-cut-off", "kafka-pair", NOTHING_LOST, "The primary is cut off, and the standby promoted.", cut_off),
    Scenario(
        "store-promoted-unsafe", "kafka-unsafe-pair",
        "Control: a store whose commits do not wait for the standby loses parked events.",
        "The primary is killed, and the standby promoted.", promoted, convicts="lost",
    ),
)  # fmt: skip
