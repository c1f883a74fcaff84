"""The measures of a report: each asks DuckDB one question, whose answer is a small table.

Counts are exact, and percentiles are exact up to ``EXACT`` events. A measure may read the tables of the
measures before it.
"""

# ruff: noqa: S608 - only constant names and numbers are put into SQL

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, Final

import pyarrow as pa

from app.pipeline.report.scope import Scope, within
from app.pipeline.report.tables import Table, of
from app.store.attempt_log import LONGEST_ID, EventAttempts

TYPES: Final = 500  # largest number of rows in a table of types
TOP: Final = 20  # largest number of rows in a table of keys or sources
SERIES: Final = 6  # largest number of names in a chart; all others are one more
OTHER: Final = "all others"
SIZES: Final = (0, *(2**n for n in range(5, 25)))
"""The lower bounds of the histogram's bars, in bytes."""

DELIVERIES: Final = (
    "subscription type events delivered at_once given_up open attempts latency_p50 latency_p99"
)
"""The columns of ``deliveries``. Latency is the seconds from the record to its delivery.

``events`` counts events with attempts in the store, ``at_once`` those delivered by the first attempt, and ``open``
those not decided yet.
"""
_TRIED: Final = pa.schema(
    [("subscription", pa.string()), ("source", pa.string()), ("id", pa.string()),
     ("attempts", pa.int64()), ("delivered_ms", pa.int64()), ("given_up", pa.bool_())]
)  # fmt: skip


def waiting(scope: Scope) -> int:
    """Return the number of records in the range that are not yet derived."""
    [count] = scope.ask(
        'SELECT count(*) AS n FROM events_raw AS r LEFT JOIN done USING (broker, topic, "partition")'
        f' WHERE coalesce(r."offset" >= reached, true) AND {scope.asked}'
    ).column("n")
    return int(count)


def types(scope: Scope) -> Table:
    """Return one row for each type, the most frequent first. ``size`` is that of the payload."""
    return scope.ask(
        "SELECT type, count(*) AS events, count(DISTINCT source) AS sources, min(record_time) AS first,"
        f" max(record_time) AS last, {scope.percentiles('delay')}, {scope.percentiles('size')}"
        f" FROM made GROUP BY type ORDER BY events DESC, type LIMIT {TYPES}"
    )


def sources(scope: Scope) -> Table:
    return scope.ask(
        "SELECT source, count(*) AS events, count(DISTINCT type) AS types FROM made"
        f" GROUP BY source ORDER BY events DESC, source LIMIT {TOP}"
    )


def volume(scope: Scope, column: str, names: Sequence[str]) -> Table:
    """Return the events of each bin by name. The first ``SERIES`` names are counted each; all others are counted
    together."""
    shown = f"{column} IN (SELECT unnest($names::VARCHAR[]))"
    return scope.ask(
        f"SELECT begin, CASE WHEN {shown} THEN {column} ELSE '{OTHER}' END AS {column},"
        " count(*) AS events FROM made GROUP BY ALL ORDER BY ALL",
        names=list(names[:SERIES]),
    )


def arrivals(scope: Scope) -> tuple[Table, dict[str, Any]]:
    """Return the delay by bin, and totals of the events: those that are ``untimed`` or ``ahead`` of the
    broker's clock, and percentiles of the delay.
    """
    found = scope.ask(
        "SELECT begin, count(*) AS events, count(delay) AS timed, count(*) FILTER (delay < 0) AS ahead,"
        f" {scope.percentiles('delay')} FROM made GROUP BY ROLLUP (begin) ORDER BY begin NULLS FIRST"
    )
    if not found.rows:
        return found, {}
    total = found.dicts()[0]
    del total["begin"]
    untimed = total.pop("events") - total.pop("timed")
    return Table(found.columns, found.rows[1:]), {"untimed": untimed, **total}


def flow(scope: Scope) -> Table:
    """Return the counts of each bin and topic: ``records = events + duplicates + invalid``.

    A duplicate is a record whose event (source and id) the lake already had.
    """
    place, refused = "SELECT begin, broker, topic", "count(*) FILTER (of = 'refused')"
    return scope.ask(
        f"{place}, count(*) FILTER (of = 'raw') AS records, count(*) FILTER (of = 'made') AS events,"
        f" records - events - {refused} AS duplicates, {refused} AS invalid"
        f" FROM ({place}, 'raw' AS of FROM raw UNION ALL {place}, 'made' FROM made"
        f" UNION ALL {place}, 'refused' FROM refused WHERE is_event IS NOT TRUE) GROUP BY ALL ORDER BY ALL"
    )


def invalid(scope: Scope) -> Table:
    """Return the quarantined records by the first rule that they broke, with the newest as an
    example.
    """
    return scope.ask(
        "SELECT verdict, rule, count(*) AS records, min(record_time) AS first, max(record_time) AS last,"
        " max_by(left(detail, 300), record_time) AS detail,"
        """ max_by(concat_ws('/', topic, "partition", "offset"), record_time) AS example FROM refused"""
        f" GROUP BY verdict, rule ORDER BY records DESC, verdict, rule LIMIT {TYPES}"
    )


def sizes(scope: Scope) -> tuple[Table, dict[str, Any]]:
    """Return a histogram of value sizes, and percentiles, maximum and total of the sizes in bytes."""
    reached = ", ".join(f"count(*) FILTER (size >= {each}) AS at_{each}" for each in SIZES)
    [row] = scope.ask(
        f"SELECT {reached}, {scope.percentiles('size')}, max(size) AS size_most,"
        " coalesce(sum(size), 0)::BIGINT AS size_total FROM raw"
    ).dicts()
    counts = [*(row.pop(f"at_{each}") for each in SIZES), 0]
    ends = (*SIZES[1:], None)
    rows = [
        (begin, end, counts[n] - counts[n + 1])
        for n, (begin, end) in enumerate(zip(SIZES, ends, strict=True))
    ]
    return of("at_least below records", rows), row


def keys(scope: Scope) -> tuple[Table, int]:
    """Return the keys with the most records, and the number of different keys. Null is no key."""
    found = scope.ask(
        "SELECT key, records, count(key) OVER () AS keys"
        " FROM (SELECT key, count(*) AS records FROM raw GROUP BY key)"
        f" ORDER BY records DESC, key LIMIT {TOP}"
    ).dicts()
    rows = [(_readable(row["key"]), row["records"]) for row in found]
    return of("key records", rows), found[0]["keys"] if found else 0


def partitions(scope: Scope) -> Table:
    return scope.ask(
        'SELECT broker, topic, "partition", count(*) AS records FROM raw GROUP BY ALL ORDER BY ALL'
    )


def known_before(scope: Scope, names: Collection[str]) -> set[str] | None:
    """Return the types among ``names`` that the lake had before the range. Return None if the lake had no event
    before."""
    before = f"FROM events WHERE {within(None, scope.span.begin)}"
    if not scope.ask(f"SELECT 1 AS one {before} LIMIT 1").rows:
        return None
    chosen = "type IN (SELECT unnest($names::VARCHAR[]))"
    return set(
        scope.ask(f"SELECT DISTINCT type {before} AND {chosen}", names=list(names)).column("type")
    )


def deliveries(scope: Scope, tried: Sequence[EventAttempts]) -> Table:
    """Return the delivery counts of the events in the range, by subscription and type."""
    if not tried:
        return of(DELIVERIES)
    rows = [{name: getattr(each, name) for name in _TRIED.names} for each in tried]
    scope.register("tried", pa.Table.from_pylist(rows, _TRIED))
    return scope.ask(
        "SELECT subscription, type, count(*) AS events, count(delivered_ms) AS delivered,"
        " count(delivered_ms) FILTER (attempts = 1) AS at_once,"
        " count(*) FILTER (delivered_ms IS NULL AND given_up) AS given_up,"
        " count(*) FILTER (delivered_ms IS NULL AND NOT given_up) AS open,"
        f" sum(attempts)::BIGINT AS attempts, {scope.percentiles('latency')} FROM (SELECT tried.*, type,"
        " (delivered_ms - epoch_us(record_time) / 1000) / 1000.0 AS latency FROM tried"
        f" JOIN made ON made.source = tried.source AND left(made.id, {LONGEST_ID}) = tried.id)"
        " GROUP BY subscription, type ORDER BY subscription, events DESC"
    )


def _readable(key: bytes | None) -> str | None:
    """Return a key as text, or in hexadecimal if it is not printable."""
    if key is None:
        return None
    try:
        text = key.decode()
    except UnicodeDecodeError:
        return f"0x{key.hex()}"
    return text if text.isprintable() else f"0x{key.hex()}"
