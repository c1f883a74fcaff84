"""The scenarios on PostgreSQL with a standby, while parked keys drain. The broker is Kafka."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random

from proof.faults import Step
from proof.scenario import NOTHING_LOST, Scenario


def replaced(how: str) -> Callable[[Random], list[Step]]:
    """Return a drawer: keys park, the standby loses the primary, and takes its place while the keys drain.

    A commit that only the primary has is lost then. A commit that waits for the standby does not return before.
    """

    def draw(dice: Random) -> list[Step]:
        cut, promoted = round(dice.uniform(8, 12), 1), round(dice.uniform(22, 26), 1)
        drain = round(promoted - dice.uniform(-1, 2), 1)
        return [
            Step("target", "answers", 2, drain, "moody refuse"),
            Step("copy", "cut from", cut, promoted + 12, "primary"),
            Step("primary", "replaced", promoted, promoted + 14, how),
        ]

    return draw


SCENARIOS: Sequence[Scenario] = (
    Scenario("store-promoted", "kafka-pair", NOTHING_LOST, "The primary is killed, and the standby promoted.", replaced("killed")),
    Scenario("store-cut-off", "kafka-pair", NOTHING_LOST, "The primary is cut off, and the standby promoted.", replaced("cut")),
    Scenario(
        "store-promoted-unsafe", "kafka-unsafe-pair",
        "Control: a store whose commits do not wait for the standby loses parked events.",
        "The primary is killed, and the standby promoted.", replaced("killed"), convicts="lost",
    ),
)  # fmt: skip
