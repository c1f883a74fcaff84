"""What a scenario of the laboratory is: it draws a table of steps from a seed.

A control is a scenario whose configuration gives up a guarantee. The checker must convict it, otherwise the same
attack on the guarantee itself would prove nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from random import Random
from typing import Any, NamedTuple

from proof.faults import Step

WARM = 4.0  # seconds of load before the first fault of most scenarios


class Scenario(NamedTuple):
    """One attack on the guarantees.

    Attributes:
        name: Its name on the command line.
        cluster: The kind of cluster that it needs (``proof.clusters``).
        claim: What must hold.
        attack: What happens, in words.
        draw: Return the table of a seed.
        changes: What differs in the settings, from the settings without changes.
        gives_up: The promise that the service of a control gives up in its code (``proof.unsafe``); "" for none.
        convicts: The verdict of the checker that a control must have; "" for a scenario that must be clean.
        clocks: Whether the service runs with clocks that can be shifted.
        resumes: Seconds within which each subscription must receive again, whatever happens; 0 for any.
        terms: What the settings promise otherwise than usual, by the names in ``proof.history.Terms``.
        pauses: Whether pauses are the attack, so that each must be answered 2xx.
        signs: The names in ``proof.scenario_signs.LEAST`` of what shows that the attack had an effect.
    """

    name: str
    cluster: str
    claim: str
    attack: str
    draw: Callable[[Random], list[Step]]
    changes: Callable[[Mapping[str, Any]], Mapping[str, Any]] = lambda _: {}
    gives_up: str = ""
    convicts: str = ""
    clocks: bool = False
    resumes: float = 0.0
    terms: Mapping[str, bool] = {}
    pauses: bool = False
    signs: tuple[str, ...] = ("unanswered", "gap", "silence", "moved", "repeated")

    def table(self, seed: int) -> list[Step]:
        """Return the steps of a seed, in the order of their beginnings. A control has those of its attack."""
        drawn = self.draw(Random(f"{self.attack} {seed}"))
        return sorted(drawn, key=lambda step: step.begin)


def spans(
    dice: Random, count: int, lasts: tuple[float, float], pause: tuple[float, float]
) -> list[tuple[float, float]]:
    """Return the beginnings and ends of ``count`` faults, one after another, with a pause after each."""
    found, at = [], WARM
    for _ in range(count):
        end = at + dice.uniform(*lasts)
        found.append((round(at, 1), round(end, 1)))
        at = end + dice.uniform(*pause)
    return found


NOTHING_LOST = "Nothing acknowledged is lost, changed or invented, and the order per key holds."
