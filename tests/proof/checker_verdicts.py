"""The verdicts of the checker: each finds one kind of fault in the tables of a history.

A verdict is a function that returns witnesses. A witness has the numbers of the smallest set of lines that proves
the fault. ``docs/guarantees.md`` has the promises.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from proof.checker_flight import two_at_once
from proof.checker_order import Witness, out_of_order
from proof.checker_owners import two_owners
from proof.checker_repeats import repeated
from proof.checker_rewinds import backwards
from proof.checker_tables import Tables

Verdict = Callable[[Tables], Iterable[Witness]]


def lost(tables: Tables) -> Iterator[Witness]:
    """An event was acknowledged, and a subscription of its topic neither got nor keeps it.

    It counts once, also if several subscriptions lack it. Witness: the request.
    """
    yield from tables.rows(
        "SELECT acked_line FROM event JOIN subscription USING (topic)"
        " LEFT JOIN result ON result.subscription = name AND result.id = event.id"
        " WHERE acked_at IS NOT NULL AND finished IS NULL AND NOT EXISTS"
        " (SELECT 1 FROM kept WHERE kept.subscription = name AND kept.id = event.id)"
        " GROUP BY event.id"
    )


def invented(tables: Tables) -> Iterator[Witness]:
    """An event arrived or is kept that was never sent, not yet sent, sent to another topic, or refused for good.

    Witness: the attempt or the line of the kept event, and the request if there is one.
    """
    yield from _witnesses(
        tables.rows(
            "SELECT attempt_line, sent_line FROM result LEFT JOIN event USING (id)"
            " LEFT JOIN subscription ON name = subscription"
            " WHERE event.id IS NULL OR copies = 0 OR attempt < first_sent"
            " OR subscription.topic IS NOT event.topic"
            " UNION ALL SELECT kept.line, sent_line FROM kept LEFT JOIN event USING (id)"
            " LEFT JOIN subscription ON name = subscription"
            " WHERE (event.id IS NULL OR copies = 0 OR subscription.topic IS NOT event.topic)"
            " AND NOT EXISTS (SELECT 1 FROM result"
            "  WHERE result.subscription = kept.subscription AND result.id = kept.id)"
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
    """An attempt began too long after ``:pause`` was answered, before any ``:resume`` that may have had an effect.

    Witness: the call, and the attempt.
    """
    yield from tables.rows(
        "SELECT pause.line, arrived.line FROM call AS pause JOIN arrived"
        " ON arrived.subscription = pause.subscription AND arrived.start > pause.end + ?"
        " WHERE pause.verb = 'pause' AND pause.status BETWEEN 200 AND 299 AND NOT EXISTS"
        " (SELECT 1 FROM call AS resume WHERE resume.verb = 'resume'"
        "  AND resume.subscription = pause.subscription"
        "  AND coalesce(resume.status, 0) NOT BETWEEN 400 AND 499"
        "  AND resume.end > pause.start AND resume.start < arrived.start)"
        " GROUP BY arrived.line",
        tables.terms.pause,
    )


VERDICTS: dict[str, Verdict] = {
    "lost": lost,
    "repeated": repeated,
    "out of order": out_of_order,
    "backwards": backwards,
    "two at once": two_at_once,
    "invented": invented,
    "changed": changed,
    "one receipt": one_receipt,
    "begun in pause": begun_in_pause,
    "two owners": two_owners,
}


def _witnesses(rows: Iterable[tuple[Any, ...]]) -> Iterator[Witness]:
    for row in rows:
        yield tuple(number for number in row if number is not None)
