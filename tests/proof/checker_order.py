"""Judge the order of each key: no attempt of an event begins before the earlier events of its key are finished.

An event is earlier than another one if it was acknowledged before the first request of the other one began. So
the order of acceptance is certain, whatever repeated requests and unknown outcomes there were. Events that the
service keeps as dead letters, and events that were lost, hold up no later event.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby
from operator import attrgetter

from proof.checker_tables import Tables

Witness = tuple[int, ...]
"""The numbers of the lines that prove a verdict."""

_ATTEMPTED = """
SELECT result.subscription, key, CASE WHEN :per_gateway THEN gateway ELSE '' END AS place,
    sent_line, first_sent, acked_at, acked_line, attempt, attempt_line, attempt_pos,
    CASE WHEN kept.id IS NULL THEN finished END, finished_line, finished_pos
FROM result JOIN event USING (id)
    LEFT JOIN (SELECT DISTINCT subscription, id FROM kept) AS kept USING (subscription, id)
WHERE key <> '' AND place IS NOT NULL
ORDER BY result.subscription, key, place
"""


@dataclass(slots=True)
class _Event:
    """One event of a key at one subscription: when it was sent, first attempted, and first finished."""

    sent_line: int
    sent: float
    acked: float | None
    acked_line: int
    attempt: float
    attempt_line: int
    attempt_pos: int
    finished: float | None
    finished_line: int
    finished_pos: int

    def is_passed_by(self, later: _Event) -> bool:
        """Return True if the first attempt of ``later`` began before this event was finished."""
        assert self.finished is not None
        if self.finished_line == later.attempt_line:
            return self.finished_pos > later.attempt_pos
        return self.finished > later.attempt


def out_of_order(tables: Tables) -> Iterator[Witness]:
    """Return a witness for each event whose attempt began too early.

    A witness has the two requests, the attempt that began too early, and the delivery that finished the earlier event.
    """
    rows = tables.rows(_ATTEMPTED, per_gateway=tables.terms.per_gateway)
    for _, group in groupby(rows, key=lambda row: row[:3]):
        yield from _of_key([_Event(*row[3:]) for row in group])


def _of_key(events: list[_Event]) -> Iterator[Witness]:
    earlier = sorted(
        (each for each in events if each.acked is not None and each.finished is not None),
        key=attrgetter("acked"),
    )
    place, slowest = 0, _Slowest()
    for later in sorted(events, key=attrgetter("sent")):
        while place < len(earlier) and _before(earlier[place], later):
            slowest.add(earlier[place])
            place += 1
        passed = slowest.passed_by(later)
        if passed is not None:
            yield (passed.acked_line, later.sent_line, later.attempt_line, passed.finished_line)


def _before(earlier: _Event, later: _Event) -> bool:
    return earlier.acked is not None and earlier.acked <= later.sent


class _Slowest:
    """Of the events added, the one that was finished last, and the last one of another delivery.

    A delivery of several events may have the attempt of the later event too. Then the other delivery decides.
    """

    def __init__(self) -> None:
        self._two: list[_Event] = []

    def add(self, event: _Event) -> None:
        same = [each for each in self._two if each.finished_line == event.finished_line]
        if same and same[0].finished_pos > event.finished_pos:
            return
        two = [*(each for each in self._two if each not in same), event]
        self._two = sorted(two, key=_finished, reverse=True)[:2]

    def passed_by(self, later: _Event) -> _Event | None:
        return next((each for each in self._two if each.is_passed_by(later)), None)


def _finished(event: _Event) -> float:
    assert event.finished is not None
    return event.finished
