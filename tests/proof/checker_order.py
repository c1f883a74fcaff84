"""Judge the order of each key: no attempt of an event begins before the earlier events of its key are finished.

An event is earlier than another one if it was acknowledged before the first request of the other one began. So
the order of acceptance is certain, whatever repeated requests and unknown outcomes there were. A parked event
is never finished, so that all later ones of its key wait. A dead letter is finished by its last attempt. Events that were
lost hold up no later event.

Events of one request may wait for each other: those before an event in the same request count as finished for it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from heapq import heapify, heappop, heappush
from itertools import groupby
from operator import attrgetter
from typing import NamedTuple

from proof.checker_tables import Tables

Witness = tuple[int, ...]
"""The numbers of the lines that prove a verdict."""

_PLACE = "CASE WHEN :per_gateway THEN event.gateway ELSE '' END"

_ATTEMPTS = f"""
SELECT arrived.subscription, event.key, {_PLACE} AS place, arrived.start, arrived.line, id, first_sent, sent_line
FROM arrived JOIN event USING (id)
WHERE event.key <> '' AND place IS NOT NULL AND first_sent IS NOT NULL
ORDER BY arrived.subscription, event.key, place, arrived.start, arrived.line, pos
"""

# A letter whose key was disturbed, or that was sent twice, may have been attempted again after it was stored.
_AWAITED = f"""
SELECT acked_at, acked_line, event.id,
    CASE WHEN letter.line IS NOT NULL THEN (SELECT max(end) FROM arrived
            WHERE arrived.subscription = :subscription AND arrived.id = event.id)
        WHEN finished IS NOT NULL THEN finished ELSE 9e99 END AS over,
    coalesce(letter.line, finished_line, parked.line)
FROM event LEFT JOIN result ON result.subscription = :subscription AND result.id = event.id
    LEFT JOIN kept AS parked
        ON parked.subscription = :subscription AND parked.id = event.id AND parked.place = 'parked'
    LEFT JOIN kept AS letter
        ON letter.subscription = :subscription AND letter.id = event.id AND letter.place <> 'parked'
WHERE event.key = :key AND {_PLACE} = :place AND acked_at IS NOT NULL AND CASE
    WHEN letter.line IS NULL THEN coalesce(finished, parked.line) IS NOT NULL
    ELSE finished IS NULL AND attempts > 0 AND copies = 1 AND parked.line IS NULL
        AND NOT EXISTS (SELECT 1 FROM fault WHERE repeats
            AND fault.start - :commit <= over AND attempt <= fault.end + :settle) END
GROUP BY event.id
"""


class _Attempt(NamedTuple):
    """One event of one request to a target."""

    start: float
    line: int
    id: str
    sent: float
    sent_line: int


class _Awaited(NamedTuple):
    """An event for which later ones wait until it is ``finished``: a parked one never is, which is 9e99."""

    acked: float
    acked_line: int
    id: str
    finished: float
    finished_line: int


def out_of_order(tables: Tables) -> Iterator[Witness]:
    """Return a witness for each event of which an attempt began too early.

    A witness has the two requests, the attempt that began too early, and the line that finished or keeps the earlier event.
    """
    terms = tables.terms
    named = {"per_gateway": terms.per_gateway, "commit": terms.commit, "settle": terms.settle}
    rows = tables.rows(_ATTEMPTS, **named)
    for (subscription, key, place), group in groupby(rows, key=lambda row: row[:3]):
        of_key = named | {"subscription": subscription, "key": key, "place": place}
        awaited = [_Awaited(*row) for row in tables.rows(_AWAITED, **of_key)]
        yield from _of_key([_Attempt(*row[3:]) for row in group], awaited)


def _of_key(attempts: Sequence[_Attempt], awaited: Sequence[_Awaited]) -> Iterator[Witness]:
    waiting, convicted = _Waiting(awaited), set[str]()
    for _, request in groupby(attempts, key=attrgetter("line")):
        for later, passed in waiting.passed_by(request):
            if later.id not in convicted:
                convicted.add(later.id)
                yield (passed.acked_line, later.sent_line, later.line, passed.finished_line)


class _Waiting:
    """The events that are not finished at a moment which only moves forward; the earliest acknowledged one is first."""

    def __init__(self, awaited: Sequence[_Awaited]) -> None:
        self._waiting = [*awaited]
        heapify(self._waiting)
        self._finished: set[str] = set()
        self._ends = sorted(awaited, key=attrgetter("finished"), reverse=True)

    def passed_by(self, request: Iterable[_Attempt]) -> Iterator[tuple[_Attempt, _Awaited]]:
        """Return the events of a request that began too early, each with an earlier event that was not finished."""
        before: set[str] = set()
        skipped: list[_Awaited] = []
        for later in request:
            self._finish_until(later.start)
            first = self._first(before, skipped)
            if first is not None and first.acked <= later.sent and first.id != later.id:
                yield later, first
            before.add(later.id)
        for each in skipped:
            heappush(self._waiting, each)

    def _finish_until(self, now: float) -> None:
        while self._ends and self._ends[-1].finished <= now:
            self._finished.add(self._ends.pop().id)

    def _first(self, before: set[str], skipped: list[_Awaited]) -> _Awaited | None:
        """Return the first waiting event that is not among those before. Move these from the heap to ``skipped``."""
        while self._waiting:
            first = self._waiting[0]
            if first.id not in self._finished and first.id not in before:
                return first
            heappop(self._waiting)
            if first.id not in self._finished:
                skipped.append(first)
        return None
