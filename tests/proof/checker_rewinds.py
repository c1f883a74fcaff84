"""Judge the order of repeated deliveries: a worker that goes back in its log goes forward again from there.

Its log continues at a committed position, and positions do not go back. So the worker does not repeat an event of a key
after a later one, if it has left out this event since the last fault that lets it go back. It does not go back further than
before either.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from itertools import groupby
from typing import NamedTuple

from proof.checker_faults import Faults, Windows
from proof.checker_flight import LATE
from proof.checker_order import Witness
from proof.checker_tables import Tables
from proof.history import Terms

_PLACE = "CASE WHEN :per_gateway THEN event.gateway ELSE '' END"

# A success that came too late was a failure for its worker.
_ATTEMPTS = f"""
SELECT arrived.subscription, event.key, {_PLACE} AS place, worker, id, arrived.start, arrived.end, arrived.line,
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
    end: float
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
        """Return whether its request alone may have stored it, and was acknowledged."""
        return self.copies == 1 and self.acked_line == self.sent_line

    def precedes(self, other: _Attempt) -> bool:
        """Return whether this event certainly stands before another one in the log."""
        if not self.ordered:
            return False
        if self.sent_line == other.sent_line and other.ordered:
            return self.pos < other.pos
        return self.acked is not None and self.acked <= other.sent


def backwards(tables: Tables) -> Iterator[Witness]:
    """A worker repeated an event after a later event of its key.

    Witness: the two requests, and the two attempts.
    """
    faults, terms = Faults(tables), tables.terms
    timeout = max(0.0, terms.timeout - LATE)
    rows = tables.rows(_ATTEMPTS, per_gateway=terms.per_gateway, timeout=timeout)
    for _, of_key in groupby(rows, key=lambda row: row[:3]):
        key = _Key(terms, faults.disturb)
        yield from key.judge(_Attempt(*row[3:]) for row in of_key)


class _Run:
    """A record of what a worker has attempted of a key since its log could last go back."""

    def __init__(self, uncommitted: Iterable[_Attempt] = ()) -> None:
        """Begin with the attempts that may not be committed yet."""
        self._uncommitted = deque(uncommitted)
        self._attempted = {each.id for each in self._uncommitted}
        self._delivered = {each.id for each in self._uncommitted if each.succeeded}
        self._before = self._uncommitted[-1] if self._uncommitted else None
        self._back: _Attempt | None = None
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

    def gone_back(self, each: _Attempt) -> _Attempt | None:
        """Return a later event to which the worker had gone back before it went back to this one."""
        back = self._back
        return back if back is not None and each.precedes(back) else None

    def add(self, each: _Attempt, commit: float) -> None:
        """Add an attempt. Those that ended ``commit`` seconds before it are committed."""
        if each.ordered and each.id in self._delivered and self._is_rewind(each):
            self._back = each
        self.last, self._before = each.start, each
        self._attempted.add(each.id)
        if each.succeeded:
            self._delivered.add(each.id)
        if self._latest is None or each.sent > self._latest.sent:
            self._latest = each
        if each.ordered:
            other = self._in_request.get(each.sent_line)
            if other is None or each.pos > other.pos:
                self._in_request[each.sent_line] = each
        self._uncommitted.append(each)
        while self._uncommitted[0].end < each.start - commit:
            self._uncommitted.popleft()

    def _is_rewind(self, each: _Attempt) -> bool:
        before = self._before
        return before is not None and (each.id == before.id or each.precedes(before))

    def again(self, moment: float, commit: float) -> _Run:
        """Return a new run at this moment, with the attempts that may not be committed then."""
        return _Run(one for one in self._uncommitted if one.end >= moment - commit)


class _Key:
    """The runs of all workers at one key of a subscription."""

    def __init__(self, terms: Terms, disturb: Callable[[str], Windows]) -> None:
        self._commit, self._spool, self._disturb = terms.commit, terms.spool, disturb
        self._runs: dict[str, _Run] = {}

    def judge(self, attempts: Iterable[_Attempt]) -> Iterator[Witness]:
        # Events that failed after their success are perhaps dead letters that are redriven.
        known: set[str] = set()
        for each in attempts:
            run = self._run_of(each)
            repeated = each.finished <= each.start
            if repeated and each.id not in known and (other := self._later(run, each)) is not None:
                known.add(each.id)
                yield (each.sent_line, other.sent_line, other.line, each.line)
            if repeated and not each.succeeded:
                known.add(each.id)
            run.add(each, self._commit)

    def _run_of(self, each: _Attempt) -> _Run:
        run = self._runs.get(each.worker)
        if run is None:
            run = self._runs[each.worker] = _Run()
        elif self._disturb(each.worker).meets(run.last, each.start):
            run = self._runs[each.worker] = run.again(each.start, self._commit)
        return run

    def _later(self, run: _Run, each: _Attempt) -> _Attempt | None:
        """Return a later event after which this one must not be repeated. A spool may store an event in two places."""
        return run.passed_by(each) or (None if self._spool else run.gone_back(each))
