"""The outcome of a trial."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from proof.scenario import Scenario


@dataclass
class Result:
    """The outcome of a trial.

    Attributes:
        verdicts: The counts of the verdicts that convict, by their names.
        counts: The size of the history, as the checker counts it.
        text: What the checker said.
        gap: The longest time in seconds without an acknowledged request.
        unanswered: Requests without an answer, or with one that leaves open whether the events are stored.
        calm: Seconds of the run outside of the window of every fault. No fault may repeat a delivery that was finished in them.
        signs: What showed that the attack had an effect, by the names in ``proof.scenario_signs``.
        notes: What a reader of the verdict should know, although the run is as it must be.
        remarks: What was seen besides the history, such as a service that did not stop in order.
    """

    scenario: Scenario
    seed: int
    seconds: float = 0.0
    verdicts: Mapping[str, int] = field(default_factory=dict)
    counts: Mapping[str, int] = field(default_factory=dict)
    repeats: Mapping[str, int] = field(default_factory=dict)
    text: str = ""
    gap: float = 0.0
    unanswered: int = 0
    calm: float = 0.0
    signs: Mapping[str, float] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)

    @property
    def as_expected(self) -> bool:
        """Return True if the verdict is the one that the scenario must have."""
        if self.scenario.convicts:
            return self.scenario.convicts in self.verdicts
        return bool(self.counts.get("acknowledged")) and not self.verdicts and not self.remarks
