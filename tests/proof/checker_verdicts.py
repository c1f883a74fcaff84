"""The verdicts of the checker: each finds one kind of fault in the tables of a history.

A verdict is a function that returns witnesses. A witness has the numbers of the smallest set of lines that proves
the fault. ``docs/guarantees.md`` has the promises.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from itertools import groupby, pairwise
from typing import Any

from proof.checker_order import Witness, out_of_order
from proof.checker_tables import Tables

Verdict = Callable[[Tables], Iterable[Witness]]


def lost(tables: Tables) -> Iterator[Witness]:
    """An event was acknowledged, and a subscription of its topic neither got nor keeps it. Witness: the request."""
    yield from tables.rows(
        "SELECT acked_line FROM event JOIN subscription USING (topic)"
        " LEFT JOIN result ON result.subscription = name AND result.id = event.id"
        " WHERE acked_at IS NOT NULL AND finished IS NULL AND NOT EXISTS"
        " (SELECT 1 FROM kept WHERE kept.subscription = name AND kept.id = event.id)"
    )


def invented(tables: Tables) -> Iterator[Witness]:
    """An event arrived that was never sent, not yet sent, sent to another topic, or refused for good.

    Witness: the attempt, and the request if there is one.
    """
    yield from _witnesses(
        tables.rows(
            "SELECT attempt_line, sent_line FROM result LEFT JOIN event USING (id)"
            " LEFT JOIN subscription ON name = subscription"
            " WHERE event.id IS NULL OR copies = 0 OR attempt < first_sent"
            " OR subscription.topic IS NOT event.topic"
        )
    )


def changed(tables: Tables) -> Iterator[Witness]:
    """An event arrived with other bytes, or with another key. Witness: the request, and the attempt."""
    yield from tables.rows(
        "SELECT sent_line, arrived.line FROM arrived JOIN event USING (id)"
        " WHERE arrived.hash <> event.hash OR arrived.key <> event.key"
    )


def one_receipt(tables: Tables) -> Iterator[Witness]:
    """Two events were acknowledged with one place in a log, or one lock token of a pull queue twice.

    Witness: the two requests, or the two hand-outs.
    """
    yield from tables.rows(
        "SELECT min(line), max(line) FROM sent WHERE outcome = 'stored' AND receipt IS NOT NULL"
        " GROUP BY receipt HAVING count(DISTINCT id) > 1"
    )
    yield from tables.rows(
        "SELECT min(line), max(line) FROM arrived WHERE done AND receipt IS NOT NULL"
        " GROUP BY subscription, receipt HAVING count(*) > 1"
    )


def begun_in_pause(tables: Tables) -> Iterator[Witness]:
    """An attempt began too long after ``:pause`` was answered, before ``:resume``. Witness: the call, the attempt."""
    yield from tables.rows(
        "SELECT pause.line, arrived.line FROM call AS pause JOIN arrived"
        " ON arrived.subscription = pause.subscription AND arrived.start > pause.end + ?"
        " WHERE pause.verb = 'pause' AND pause.status BETWEEN 200 AND 299 AND NOT EXISTS"
        " (SELECT 1 FROM call AS resume WHERE resume.verb = 'resume'"
        "  AND resume.subscription = pause.subscription"
        "  AND resume.start > pause.start AND resume.start < arrived.start)"
        " GROUP BY arrived.line",
        tables.terms.pause,
    )


def two_owners(tables: Tables) -> Iterator[Witness]:
    """Two workers owned one partition at once for longer than the lease.

    Witness: the two times of ownership; or the fault that isolated a worker, the first attempt of another worker at a
    key, and an attempt that the isolated worker began at the same key after the lease.
    """
    lease = tables.terms.lease
    yield from tables.rows(
        "SELECT a.line, b.line FROM owner AS a JOIN owner AS b USING (subscription, partition)"
        " WHERE a.worker < b.worker"
        " AND min(coalesce(a.end, 9e99), coalesce(b.end, 9e99)) - max(a.start, b.start) > ?",
        lease,
    )
    yield from tables.rows(
        "WITH other AS (SELECT fault.line AS fault, subscription, key, min(arrived.start) AS start,"
        "  arrived.line AS line, fault.host AS host, fault.end AS end FROM fault JOIN arrived"
        "  ON arrived.start BETWEEN fault.start AND fault.end AND arrived.worker <> fault.host"
        "  WHERE isolates AND key <> '' GROUP BY fault.line, subscription, key)"
        " SELECT other.fault, other.line, arrived.line FROM other JOIN arrived"
        " ON arrived.subscription = other.subscription AND arrived.key = other.key"
        " AND arrived.worker = other.host AND arrived.start > other.start + ?"
        " AND arrived.start <= other.end",
        lease,
    )


def repeated(tables: Tables) -> Iterator[Witness]:
    """An event was delivered again, and no guarantee allows it. Witness: the request, and the two deliveries."""
    for cause, witness in repeats(tables):
        if cause == FORBIDDEN:
            yield witness


FORBIDDEN = "forbidden"

_REPEATS = """
SELECT arrived.subscription, arrived.id, sent_line, copies, first_sent, acked_at, arrived.line, arrived.start,
    arrived.end
FROM result JOIN arrived USING (subscription, id) JOIN event USING (id)
WHERE successes > 1 AND done ORDER BY arrived.subscription, arrived.id, arrived.end, arrived.line
"""


def repeats(tables: Tables) -> Iterator[tuple[str, Witness]]:
    """Return the cause and the witness of each repeated delivery.

    The causes are ``fault``, ``timeout``, ``spool``, ``sender``, and ``forbidden`` if none of them explains it.
    """
    causes = _Causes(tables)
    for _, group in groupby(tables.rows(_REPEATS), key=lambda row: row[:2]):
        deliveries = list(group)
        by_sender = deliveries[0][3] - 1
        for first, second in pairwise(deliveries):
            cause = causes.of(first, second)
            if cause == FORBIDDEN and by_sender > 0:
                cause, by_sender = "sender", by_sender - 1
            yield cause, (first[2], first[6], second[6])


class _Causes:
    """What a run allows to repeat deliveries: its faults, changes of owners, and attempts that were given up."""

    def __init__(self, tables: Tables) -> None:
        self._terms = tables.terms
        self._times = list(
            tables.rows("SELECT start, end FROM fault UNION ALL SELECT start, start FROM owner")
        )

    def of(self, first: tuple[Any, ...], second: tuple[Any, ...]) -> str:
        (_, _, _, _, sent, acked, _, begun, ended), again = first, second[7]
        terms = self._terms
        if any(
            start - terms.commit <= ended <= end + terms.settle and again >= start
            for start, end in self._times
        ):
            return "fault"
        if ended - begun >= terms.timeout:
            return "timeout"
        last = sent if acked is None else acked
        if terms.spool and any(
            sent <= end + terms.settle and last >= start for start, end in self._times
        ):
            return "spool"
        return FORBIDDEN


VERDICTS: dict[str, Verdict] = {
    "lost": lost,
    "repeated": repeated,
    "out of order": out_of_order,
    "invented": invented,
    "changed": changed,
    "one receipt": one_receipt,
    "begun in pause": begun_in_pause,
    "two owners": two_owners,
}


def allowed_repeats(tables: Tables) -> dict[str, int]:
    """Return the count of repeated deliveries by cause, without the forbidden ones."""
    found = Counter(cause for cause, _ in repeats(tables))
    return {cause: count for cause, count in sorted(found.items()) if cause != FORBIDDEN}


def _witnesses(rows: Iterable[tuple[Any, ...]]) -> Iterator[Witness]:
    for row in rows:
        yield tuple(number for number in row if number is not None)
