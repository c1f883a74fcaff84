"""Judge repeated deliveries: each attempt after a success needs a cause that ``docs/guarantees.md`` allows."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from itertools import accumulate, groupby
from typing import NamedTuple

from proof.checker_faults import Faults, Windows
from proof.checker_flight import LATE
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
ORDER BY 1, 3, 2, 8, 7
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
    _classify(tables)
    yield from tables.rows(
        "SELECT sent_line, done_line, again_line FROM repeat WHERE cause = ?", FORBIDDEN
    )


def allowed_repeats(tables: Tables) -> dict[str, int]:
    """Return the count of repeated deliveries by cause, without the forbidden ones.

    The causes are ``fault``, ``timeout``, ``spool`` and ``sender``.
    """
    _classify(tables)
    rows = tables.rows(
        "SELECT cause, count(*) FROM repeat WHERE cause <> ? GROUP BY cause ORDER BY cause",
        FORBIDDEN,
    )
    return dict(rows)


def _classify(tables: Tables) -> None:
    """Make the table of the repeated deliveries with their causes, once for a history."""
    if tables.count("SELECT count(*) FROM sqlite_master WHERE name = 'repeat'"):
        return
    tables.database.execute(
        "CREATE TABLE repeat (cause TEXT, sent_line INTEGER, done_line INTEGER, again_line INTEGER)"
    )
    for cause, witness in _causes_and_witnesses(tables):
        tables.database.execute("INSERT INTO repeat VALUES (?, ?, ?, ?)", (cause, *witness))


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


class _Ends:
    """The ends of spans of time, by their beginnings."""

    def __init__(self, spans: Iterable[tuple[float, float]]) -> None:
        ordered = sorted(spans)
        self._starts = [start for start, _ in ordered]
        self._latest = list(accumulate((end for _, end in ordered), max))

    def latest(self, until: float) -> float:
        """Return the latest end of a span that begins until a moment, or ``-NEVER`` if there is none."""
        number = bisect_right(self._starts, until)
        return self._latest[number - 1] if number else -NEVER


class _Causes:
    """The causes for which a run may repeat deliveries: its faults, changes of owners, and attempts that were given up."""

    def __init__(self, tables: Tables) -> None:
        self._tables, self._terms = tables, tables.terms
        faults = Faults(tables)
        self._repeating, self._spooling = _Ends(faults.repeating()), _Ends(faults.storing_twice())
        self._delaying = faults.delaying()
        self._key, self._failing = ("", ""), Windows(())

    def of(self, repeat: _Repeat, subscription: str, key: str) -> str:
        """Return the cause of a repeated delivery, without those that the sender caused."""
        terms, done, again = self._terms, repeat.success, repeat.first
        one_request = done.line == again.line  # with the event twice: a worker reads a record once
        if not one_request and self._by_fault(repeat, subscription, key):
            return "fault"
        if not one_request and min(done.end, again.start) - done.start >= terms.timeout - LATE:
            return "timeout"
        last = done.sent if done.acked is None else done.acked
        if terms.spool and done.sent <= self._spooling.latest(last) + terms.settle:
            return "spool"
        return FORBIDDEN

    def _by_fault(self, repeat: _Repeat, subscription: str, key: str) -> bool:
        """Return whether a fault repeats what was finished since the last commit, soon enough after it."""
        terms, done, again = self._terms, repeat.success, repeat.first
        end = self._repeating.latest(min(done.end + terms.commit, again.start))
        if done.end > end + terms.settle:
            return False
        latest = self._delaying.end_of(end)
        if again.start <= latest or again.start == NEVER:
            return True
        return again.start <= self._failing_of(subscription, key).end_of(latest)

    def _failing_of(self, subscription: str, key: str) -> Windows:
        """Return when attempts of a key fail, and the time after them in which its repetitions wait or are parked."""
        if self._key != (subscription, key):
            late = self._terms.settle + self._terms.again
            failed = self._tables.rows(
                "SELECT start, end FROM arrived WHERE subscription = ? AND key = ? AND NOT done",
                subscription, key,
            )  # fmt: skip
            self._key = (subscription, key)
            self._failing = Windows((start, end + late) for start, end in failed)
        return self._failing

    def copies(self, event: str, before: float) -> int:
        """Return how many requests with an event, of those that were not refused, began before a moment."""
        rows = self._tables.rows(
            "SELECT start FROM sent WHERE id = ? AND outcome <> 'refused' ORDER BY start", event
        )
        return bisect_left([start for (start,) in rows], before)
