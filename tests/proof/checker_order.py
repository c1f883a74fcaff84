"""Judge the order of each key: no attempt of an event begins before the earlier events of its key are finished.

An event is earlier than another one if it was acknowledged before the first request of the other one began. In one request
it is earlier if it comes first, both were stored, and no other request may have stored one of them. So the order of
acceptance is certain, whatever repeated requests and unknown outcomes there were. A parked event is never finished, so
that all later ones of its key wait. A dead letter is finished by its last attempt. Events that were lost hold up no later
event.

Events of one request may wait for each other: those before an event in the same request count as finished for it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from heapq import heapify, heappop, heappush
from itertools import groupby
from operator import attrgetter
from typing import NamedTuple

from proof.checker_tables import Tables

Witness = tuple[int, ...]
"""The numbers of the lines that prove a verdict."""

_PLACE = "CASE WHEN :per_gateway THEN event.gateway ELSE '' END"

# The place of an event in its request, if the request orders it.
_POS = "CASE WHEN copies = 1 AND acked_line = sent_line THEN event.pos END"

_ATTEMPTS = f"""
SELECT arrived.subscription, event.key, {_PLACE} AS place, arrived.start, arrived.line, id, first_sent, sent_line, {_POS}
FROM arrived JOIN event USING (id)
WHERE event.key <> '' AND place IS NOT NULL AND first_sent IS NOT NULL
ORDER BY arrived.subscription, event.key, place, arrived.start, arrived.line, arrived.pos
"""

# A letter whose key was disturbed, or that was sent twice, may have been attempted again after it was stored. Later events
# do not wait for a letter that is redriven. A worker gives up an attempt after the time-out, whatever the target sees.
_AWAITED = f"""
SELECT acked_at, acked_line, event.id,
    CASE WHEN letter.line IS NOT NULL THEN coalesce((SELECT max(min(end, start + :timeout)) FROM arrived
            WHERE arrived.subscription = :subscription AND arrived.id = event.id AND NOT EXISTS
                (SELECT 1 FROM call WHERE verb = 'redrive' AND call.subscription = :subscription
                    AND call.start <= arrived.start)), 0)
        WHEN finished IS NOT NULL THEN finished ELSE 9e99 END AS over,
    coalesce(letter.line, finished_line, parked.line), sent_line, {_POS}
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
    pos: int | None


class _Awaited(NamedTuple):
    """An event for which later ones wait until it is ``finished``: a parked one never is, which is 9e99."""

    acked: float
    acked_line: int
    id: str
    finished: float
    finished_line: int
    sent_line: int
    pos: int | None


_Found = tuple[_Attempt, _Awaited]


def out_of_order(tables: Tables) -> Iterator[Witness]:
    """Return a witness for each event of which an attempt began too early.

    A witness has the two requests, the attempt that began too early, and the line that finished or keeps the earlier event.
    """
    terms = tables.terms
    named = {name: getattr(terms, name) for name in ("per_gateway", "commit", "settle", "timeout")}
    rows = tables.rows(_ATTEMPTS, **named)
    for (subscription, key, place), group in groupby(rows, key=lambda row: row[:3]):
        of_key = named | {"subscription": subscription, "key": key, "place": place}
        awaited = [_Awaited(*row) for row in tables.rows(_AWAITED, **of_key)]
        yield from _of_key([_Attempt(*row[3:]) for row in group], awaited)


def _of_key(attempts: Sequence[_Attempt], awaited: Sequence[_Awaited]) -> Iterator[Witness]:
    waiting, convicted = _Waiting(awaited, lambda each: each.acked), set[str]()
    requests = _Requests(awaited)
    for _, group in groupby(attempts, key=attrgetter("line")):
        request = list(group)
        found = [
            *waiting.passed_by(request, lambda later: later.sent),
            *requests.passed_by(request),
        ]
        for later, passed in found:
            if later.id not in convicted:
                convicted.add(later.id)
                yield (passed.acked_line, later.sent_line, later.line, passed.finished_line)


class _Waiting:
    """The events that are not finished at a moment which only moves forward; the one of the lowest rank is first."""

    def __init__(self, awaited: Sequence[_Awaited], rank: Callable[[_Awaited], float]) -> None:
        self._waiting = [(rank(each), each) for each in awaited]
        heapify(self._waiting)
        self._finished: set[str] = set()
        self._ends = sorted(awaited, key=attrgetter("finished"), reverse=True)

    def passed_by(
        self, request: Iterable[_Attempt], most: Callable[[_Attempt], float]
    ) -> Iterator[_Found]:
        """Return the events of a request that began too early, each with an earlier event that was not finished.

        Args:
            request: The events of one request to a target.
            most: Return the highest rank of the events that are earlier than this one.
        """
        before: set[str] = set()
        skipped: list[tuple[float, _Awaited]] = []
        for later in request:
            self._finish_until(later.start)
            first = self._first(before, skipped)
            if first is not None and first[0] <= most(later) and first[1].id != later.id:
                yield later, first[1]
            before.add(later.id)
        for each in skipped:
            heappush(self._waiting, each)

    def _finish_until(self, now: float) -> None:
        while self._ends and self._ends[-1].finished <= now:
            self._finished.add(self._ends.pop().id)

    def _first(
        self, before: set[str], skipped: list[tuple[float, _Awaited]]
    ) -> tuple[float, _Awaited] | None:
        """Return the first waiting event that is not among those before. Move these from the heap to ``skipped``."""
        while self._waiting:
            first = self._waiting[0]
            name = first[1].id
            if name not in self._finished and name not in before:
                return first
            heappop(self._waiting)
            if name not in self._finished:
                skipped.append(first)
        return None


class _Requests:
    """The events that wait for each other because one request to a gateway had them in this order."""

    def __init__(self, awaited: Iterable[_Awaited]) -> None:
        found: dict[int, list[_Awaited]] = {}
        for each in awaited:
            if each.pos is not None:
                found.setdefault(each.sent_line, []).append(each)
        self._waiting = {
            line: _Waiting(events, lambda each: each.pos or 0)
            for line, events in found.items()
            if len(events) > 1
        }

    def passed_by(self, request: Iterable[_Attempt]) -> Iterator[_Found]:
        """Return the events of a request to a target that began too early, as ``_Waiting.passed_by`` does."""
        found: dict[int, list[_Attempt]] = {}
        for each in request:
            if each.pos is not None and each.sent_line in self._waiting:
                found.setdefault(each.sent_line, []).append(each)
        for line, events in found.items():
            yield from self._waiting[line].passed_by(events, lambda later: (later.pos or 0) - 1)
