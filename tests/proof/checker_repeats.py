"""Judge repeated deliveries: each attempt after a success needs a cause that ``docs/guarantees.md`` allows."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import NamedTuple

from proof.checker_faults import Faults
from proof.checker_order import Witness
from proof.checker_tables import Tables

FORBIDDEN = "forbidden"
NEVER = 9e99

_ATTEMPTS = """
SELECT subscription, id, event.key, sent_line, first_sent, acked_at, arrived.line, arrived.start, arrived.end, done
FROM result JOIN arrived USING (subscription, id) JOIN event USING (id)
WHERE successes > 0 AND attempts > 1 AND copies > 0
UNION ALL
SELECT subscription, id, event.key, sent_line, first_sent, acked_at, arrived.line, arrived.start, arrived.end, done
FROM result JOIN arrived USING (subscription, id) JOIN event USING (id)
WHERE done AND attempts = 1 AND copies > 0 AND EXISTS
    (SELECT 1 FROM kept WHERE kept.subscription = result.subscription AND kept.id = result.id)
UNION ALL
SELECT subscription, id, event.key, sent_line, first_sent, acked_at, min(kept.line), 9e99, 9e99, 0
FROM result JOIN kept USING (subscription, id) JOIN event USING (id)
WHERE successes > 0 AND copies > 0 GROUP BY subscription, id
ORDER BY 1, 2, 8, 7
"""


class _Attempt(NamedTuple):
    """One attempt of an event. One that the service still keeps in the end has an attempt that begins at ``NEVER``."""

    sent_line: int
    sent: float
    acked: float | None
    line: int
    start: float
    end: float
    done: bool


class _Repeat(NamedTuple):
    """A success, and the first and the last attempt of the repeated delivery after it."""

    success: _Attempt
    first: _Attempt
    last: _Attempt


def repeated(tables: Tables) -> Iterator[Witness]:
    """An event was delivered, attempted again or kept although it had been delivered, and no guarantee allows it.

    Witness: the request, the delivery, and the end of its repetition.
    """
    for cause, witness in _causes_and_witnesses(tables):
        if cause == FORBIDDEN:
            yield witness


def allowed_repeats(tables: Tables) -> dict[str, int]:
    """Return the count of repeated deliveries by cause, without the forbidden ones.

    The causes are ``fault``, ``timeout``, ``spool`` and ``sender``.
    """
    found = Counter(cause for cause, _ in _causes_and_witnesses(tables))
    return {cause: count for cause, count in sorted(found.items()) if cause != FORBIDDEN}


def _causes_and_witnesses(tables: Tables) -> Iterator[tuple[str, Witness]]:
    causes = _Causes(tables)
    rows = tables.rows(_ATTEMPTS)
    for (subscription, event, key), group in groupby(rows, key=lambda row: row[:3]):
        by_sender = 0
        for each in _repeats(_Attempt(*row[3:]) for row in group):
            cause = causes.of(each, subscription, key)
            if cause == FORBIDDEN and causes.copies(event, each.first.start) > by_sender + 1:
                cause, by_sender = "sender", by_sender + 1
            yield cause, (each.success.sent_line, each.success.line, each.last.line)


def _repeats(attempts: Iterable[_Attempt]) -> Iterator[_Repeat]:
    """Return the repeated deliveries of an event, from its attempts in the order of their beginnings.

    A repeated delivery is retried too, so it has all attempts until the next success. An attempt that failed, and began
    before the success had ended, is none: its worker had given it up.
    """
    success = first = last = None
    for each in attempts:
        if success is not None and (each.done or each.start >= success.end):
            first, last = first or each, each
        if each.done and success is not None:
            assert first is not None
            yield _Repeat(success, first, each)
        if each.done:
            success, first = each, None
    if success is not None and first is not None and last is not None:
        yield _Repeat(success, first, last)


class _Causes:
    """What a run allows to repeat deliveries: its faults, changes of owners, and attempts that were given up."""

    def __init__(self, tables: Tables) -> None:
        self._tables, self._terms = tables, tables.terms
        faults = Faults(tables)
        self._repeating, self._spooling = faults.repeating(), faults.storing_twice()
        self._delaying = faults.delaying()

    def of(self, repeat: _Repeat, subscription: str, key: str) -> str:
        """Return the cause of a repeated delivery, without those that the sender caused."""
        terms, done, again = self._terms, repeat.success, repeat.first
        one_request = done.line == again.line  # with the event twice: a worker reads a record once
        if not one_request and self._by_fault(repeat, subscription, key):
            return "fault"
        if not one_request and min(done.end, again.start) - done.start >= terms.timeout:
            return "timeout"
        last = done.sent if done.acked is None else done.acked
        if terms.spool and any(
            done.sent <= end + terms.settle and last >= start for start, end in self._spooling
        ):
            return "spool"
        return FORBIDDEN

    def _by_fault(self, repeat: _Repeat, subscription: str, key: str) -> bool:
        """Return whether a fault repeats what was finished since the last commit, soon enough after it."""
        terms, done, again = self._terms, repeat.success, repeat.first
        latest = max(
            (
                self._delaying.end_of(end)
                for start, end in self._repeating
                if start - terms.commit <= done.end <= end + terms.settle and again.start >= start
            ),
            default=-NEVER,
        )
        if again.start <= latest or (latest > -NEVER and again.start == NEVER):
            return True
        return latest > -NEVER and again.start <= self._delayed(latest, again, subscription, key)

    def _delayed(self, latest: float, again: _Attempt, subscription: str, key: str) -> float:
        """Return by when a repetition has begun if attempts of its key failed meanwhile: it waits, or is parked."""
        failed = self._tables.rows(
            "SELECT start, end FROM arrived WHERE subscription = ? AND key = ? AND NOT done"
            " AND start < ? ORDER BY start",
            subscription, key, again.start,
        )  # fmt: skip
        for start, end in failed:
            if start <= latest:
                latest = max(latest, end + self._terms.settle + self._terms.again)
        return latest

    def copies(self, event: str, before: float) -> int:
        """Return how many requests with an event, of those that were not refused, began before a moment."""
        rows = self._tables.rows(
            "SELECT start FROM sent WHERE id = ? AND outcome <> 'refused' ORDER BY start", event
        )
        return bisect_left([start for (start,) in rows], before)
