"""Judge the order of repeated deliveries: a worker that goes back in its log goes forward again from there.

Its log continues at a committed position, and positions do not go back. So the worker does not repeat an event of a key
after a later one, if it has left out this event since the last fault that lets it go back.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import groupby
from typing import NamedTuple

from proof.checker_faults import Faults, Windows
from proof.checker_order import Witness
from proof.checker_tables import Tables

_PLACE = "CASE WHEN :per_gateway THEN event.gateway ELSE '' END"

# A success that came too late was a failure for its worker.
_ATTEMPTS = f"""
SELECT arrived.subscription, event.key, {_PLACE} AS place, worker, id, arrived.start, arrived.line,
    done AND arrived.end - arrived.start < :timeout, first_sent, sent_line, acked_at, acked_line, copies, event.pos,
    coalesce(finished, 9e99)
FROM arrived JOIN event USING (id) JOIN result USING (subscription, id)
WHERE event.key <> '' AND place IS NOT NULL AND first_sent IS NOT NULL
ORDER BY arrived.subscription, event.key, place, arrived.start, arrived.line, arrived.pos
"""


class _Attempt(NamedTuple):
    """One event of one request to a target. ``finished`` is the time of its first success."""

    worker: str
    id: str
    start: float
    line: int
    succeeded: bool
    sent: float
    sent_line: int
    acked: float | None
    acked_line: int | None
    copies: int
    pos: int
    finished: float

    @property
    def ordered(self) -> bool:
        """Whether its request alone may have stored it, and was acknowledged."""
        return self.copies == 1 and self.acked_line == self.sent_line


def backwards(tables: Tables) -> Iterator[Witness]:
    """A worker repeated an event after a later event of its key.

    Witness: the two requests, and the two attempts.
    """
    faults, terms = Faults(tables), tables.terms
    rows = tables.rows(_ATTEMPTS, per_gateway=terms.per_gateway, timeout=terms.timeout)
    for _, of_key in groupby(rows, key=lambda row: row[:3]):
        yield from _of_key((_Attempt(*row[3:]) for row in of_key), faults.disturb)


class _Run:
    """What a worker has attempted of a key since it could last go back."""

    def __init__(self) -> None:
        self._attempted: set[str] = set()
        self._latest: _Attempt | None = None
        self._in_request: dict[int, _Attempt] = {}
        self.last = 0.0

    def passed_by(self, each: _Attempt) -> _Attempt | None:
        """Return a later event that was attempted before, if this event is attempted for the first time in this run."""
        if not each.ordered or each.id in self._attempted:
            return None
        if self._latest is not None and each.acked is not None and each.acked <= self._latest.sent:
            return self._latest
        other = self._in_request.get(each.sent_line)
        return other if other is not None and other.pos > each.pos else None

    def add(self, each: _Attempt) -> None:
        self.last = each.start
        self._attempted.add(each.id)
        if self._latest is None or each.sent > self._latest.sent:
            self._latest = each
        if each.ordered:
            other = self._in_request.get(each.sent_line)
            if other is None or each.pos > other.pos:
                self._in_request[each.sent_line] = each


def _of_key(attempts: Iterable[_Attempt], disturb: Callable[[str], Windows]) -> Iterator[Witness]:
    runs: dict[str, _Run] = {}
    failed: set[str] = (
        set()
    )  # events that failed after their success: perhaps dead letters that are redriven
    convicted: set[str] = set()
    for each in attempts:
        run = runs.get(each.worker)
        if run is None or disturb(each.worker).meets(run.last, each.start):
            run = runs[each.worker] = _Run()
        repeated = each.finished <= each.start
        known = each.id in failed or each.id in convicted
        if repeated and not known and (other := run.passed_by(each)) is not None:
            convicted.add(each.id)
            yield (each.sent_line, other.sent_line, other.line, each.line)
        if repeated and not each.succeeded:
            failed.add(each.id)
        run.add(each)
