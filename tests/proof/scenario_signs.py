"""The signs that an attack had an effect, and the part of a run that no fault has touched.

An attack without a sign proves little, for example because the cut of a network ended before any program noticed it. The
verdict then says so.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from proof.progress import Progress
from proof.result import Result

LEAST: Mapping[str, float] = {
    "unanswered": 1,
    "gap": 2.0,
    "silence": 2.0,
    "moved": 1,
    "repeated": 1,
    "failed": 1,
}
"""The least value of each sign.

- ``unanswered``: requests without an answer, or with a 5xx.
- ``gap``: the longest time in seconds without an acknowledged request.
- ``silence``: the longest time in seconds without a delivery to a subscription.
- ``moved``: how often a key of a subscription was delivered by another worker than before.
- ``repeated``: repeated deliveries.
- ``failed``: attempts that were not answered 204.
"""


class Pauses:
    """The calls of ``:pause`` and ``:resume`` of a run.

    Attributes:
        called: How many calls of ``:pause`` there were.
        answered: How many of them were answered 2xx.
        waiting: The subscriptions that may still be paused.
    """

    def __init__(self) -> None:
        self.called = self.answered = 0
        self.waiting: set[str] = set()

    def note(self, verb: str, subscription: str, status: int | None) -> None:
        """Note a call and the status of its answer."""
        done = status is not None and 200 <= status < 300
        if verb == "pause":
            self.called += 1
            self.answered += done
            self.waiting.add(subscription)
        elif done:
            self.waiting.discard(subscription)


def outside(windows: Sequence[tuple[float, float]], begin: float, end: float) -> float:
    """Return the seconds between two times that are in none of the windows."""
    left, at = 0.0, begin
    for first, last in sorted(windows):
        left += max(0.0, min(first, end) - at)
        at = max(at, last)
    return left + max(0.0, end - at)


def note_signs(result: Result, seen: Progress, pauses: Pauses) -> None:
    """Write the signs of the attack into the result, and a note if there are none.

    A pause that was not answered 2xx proves nothing. This is a remark if pauses are the attack, otherwise a note.
    """
    values = {
        "unanswered": seen.unanswered,
        "gap": seen.longest_gap,
        "silence": max(seen.silence.values()),
        "moved": seen.moved,
        "repeated": sum(result.repeats.values()),
        "failed": seen.failed,
    }
    wanted = result.scenario.signs
    result.signs = {name: values[name] for name in wanted if values[name] >= LEAST[name]}
    if not result.signs:
        result.notes.append("no sign of the attack")
    if missing := pauses.called - pauses.answered:
        where = result.remarks if result.scenario.pauses else result.notes
        where.append(f"{missing} of {pauses.called} pauses were not answered 2xx")
    found = ", ".join(f"{name} {value:,.4g}" for name, value in result.signs.items())
    result.text += f"\nsigns of the attack: {found or 'none'}"
