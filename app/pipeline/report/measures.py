"""The measures of a report: SQL for DuckDB whose answers are small tables that fit on a page.

``Scope`` is a connection with the three tables narrowed to the range, as ``raw``, ``made`` (events)
and ``refused`` (quarantine). Counts are exact, and percentiles are exact up to ``EXACT`` events.
"""

# ruff: noqa: S608 - only constant names and numbers are put into SQL

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from app.errors import SetupError
from app.pipeline import tables as lake_tables
from app.pipeline.query.duck import connected, open_datasets
from app.pipeline.report.spans import Span
from app.pipeline.report.tables import Table, of
from app.pipeline.settings import Lake
from app.pipeline.state import derived_progress
from app.pipeline.to_python import python_values
from app.store.attempt_log import LONGEST_ID, EventAttempts

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

EXACT: Final = 20_000_000
"""The largest number of events for exact percentiles, which need all values in memory."""

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

MEMORY: Final = "2GB"
"""The memory of DuckDB. Percentiles need about 40 bytes for each event."""

_YEAR_9999: Final = "9999-01-01T00:00:00+00:00"
"""The time up to which the range of a report may extend: bins end a year later at the latest."""

_DELAY: Final = "(epoch_us(record_time) - epoch_us(time)) / 1e6"
"""The seconds from the producer's time to the broker's; null without a time, negative for a fast
clock.
"""
_VIEWS: Final = {
    lake_tables.RAW_TABLE: "raw",
    lake_tables.EVENTS_TABLE: "made",
    lake_tables.QUARANTINE_TABLE: "refused",
}
_DONE: Final = pa.schema(
    [("broker", pa.string()), ("topic", pa.string()), ("partition", pa.int32()), ("reached", pa.int64())]
)  # fmt: skip
_TRIED: Final = pa.schema(
    [("subscription", pa.string()), ("source", pa.string()), ("id", pa.string()),
     ("attempts", pa.int64()), ("delivered_ms", pa.int64()), ("given_up", pa.bool_())]
)  # fmt: skip


class Scope:
    """A connection to the derived records of the range, without offsets that the archive has only
    begun.
    """

    def __init__(
        self, connection: DuckDBPyConnection, since: datetime | None, until: datetime | None
    ) -> None:
        """Raise SetupError if there is no record in the range."""
        self._connection = connection
        self.asked = _within(since, until)
        self.span = self._range(since, until)
        self._quantile = "quantile_disc"

    def narrow(self, done: lake_tables.Progress | None) -> None:
        """Create the views. ``done`` is the progress of the archive; None reads it from quarantine."""
        by, within = 'USING (broker, topic, "partition")', self.asked
        if done is None:
            reached = 'broker, topic, "partition", max("offset") + 1 AS reached FROM quarantine GROUP BY ALL'
            self._connection.execute(f"CREATE TEMP TABLE done AS SELECT {reached}")
        else:
            ends = [dict(zip(_DONE.names, each, strict=True)) for each in lake_tables.places(done)]
            self.register("done", pa.Table.from_pylist(ends, _DONE))
        for table, view in _VIEWS.items():
            made = f'SELECT r.* FROM {table} AS r JOIN done {by} WHERE r."offset" < reached AND {within}'
            if view == "refused":  # the events of the other rows are counted with events
                self._connection.execute(f"CREATE TEMP VIEW quarantined AS {made}")
                made += f" AND verdict IS DISTINCT FROM '{lake_tables.UNFIT}'"
            self._connection.execute(f"CREATE TEMP VIEW {view} AS {made}")
        [count] = self.ask("SELECT count(*) AS n FROM made").column("n")
        self._quantile = "quantile_disc" if count <= EXACT else "approx_quantile"

    def ask(self, sql: str, **values: Any) -> Table:
        """Return the rows of a query. They are read by Arrow, whose times have a zone."""
        found = self._connection.sql(sql, params=values or None).to_arrow_table()
        columns = map(python_values, found.columns)
        return Table(tuple(found.column_names), list(zip(*columns, strict=True)))

    def register(self, name: str, rows: pa.Table) -> None:
        self._connection.register(name, rows)

    def bin(self) -> str:
        """Return SQL for the start of a row's bin."""
        step = int(self.span.step.total_seconds())
        return f"to_timestamp(epoch_us(record_time) // {step * 1_000_000} * {step})"

    def percentiles(self, column: str, name: str) -> str:
        """Return SQL for the 50th and 99th percentile of a column, named with the suffixes _p50 and
        _p99.
        """
        shares = (("p50", 0.5), ("p99", 0.99))
        return ", ".join(
            f"{self._quantile}({column}, {at}) AS {name}_{each}" for each, at in shares
        )

    def _range(self, since: datetime | None, until: datetime | None) -> Span:
        """Return the requested range. A missing bound is replaced by the first or last record.

        Records whose time Python cannot hold do not extend the range, but all counts include them.
        """
        near = f"record_time < TIMESTAMPTZ '{_YEAR_9999}'"
        ends = (
            f"SELECT coalesce(min(record_time) FILTER ({near}), TIMESTAMPTZ '{_YEAR_9999}') AS first,"
            f" coalesce(max(record_time) FILTER ({near}), TIMESTAMPTZ '{_YEAR_9999}') AS last,"
            f" count(*) AS records, count(*) FILTER (NOT {near}) AS far FROM events_raw WHERE {_within(since, until)}"
        )
        [row] = self.ask(ends).dicts()
        if not row["records"]:
            raise SetupError(
                "the lake has no record in this range",
                cure="leave --since and --until out for all there is; skybridge pipeline archive fills the lake",
            )
        self.far = row["far"]
        return Span(since or row["first"], until or row["last"] + timedelta(microseconds=1))


@contextmanager
def scope(lake: Lake, since: datetime | None, until: datetime | None) -> Iterator[Scope]:
    """Open a scope inside the context. Raise SetupError if the lake or the range has no record to
    read.
    """
    rows = open_datasets(lake)
    with connected(rows, MEMORY) as connection:
        found = Scope(connection, since, until)
        found.narrow(derived_progress(rows[lake_tables.QUARANTINE_TABLE].table))
        yield found


def waiting(scope: Scope) -> int:
    """Return the number of records in the range that are not yet derived."""
    [count] = scope.ask(
        'SELECT count(*) AS n FROM events_raw AS r LEFT JOIN done USING (broker, topic, "partition")'
        f' WHERE coalesce(r."offset" >= reached, true) AND {scope.asked}'
    ).column("n")
    return int(count)


def types(scope: Scope) -> Table:
    """Return one row for each type, the most frequent first. ``size`` is that of the payload."""
    size = "coalesce(strlen(data), octet_length(data_bytes), 0)"
    return scope.ask(
        "SELECT type, count(*) AS events, count(DISTINCT source) AS sources, min(record_time) AS first,"
        f" max(record_time) AS last, {scope.percentiles(_DELAY, 'delay')}, {scope.percentiles(size, 'size')}"
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
        f"SELECT {scope.bin()} AS begin, CASE WHEN {shown} THEN {column} ELSE '{OTHER}' END AS {column},"
        " count(*) AS events FROM made GROUP BY ALL ORDER BY ALL",
        names=list(names[:SERIES]),
    )


def arrivals(scope: Scope) -> tuple[Table, Mapping[str, Any]]:
    """Return the delay by bin, and totals: ``events``, ``timed`` and ``ahead`` of the broker's
    clock.
    """
    found = scope.ask(
        "SELECT begin, count(*) AS events, count(delay) AS timed, count(*) FILTER (delay < 0) AS ahead,"
        f" {scope.percentiles('delay', 'delay')} FROM (SELECT {scope.bin()} AS begin, {_DELAY} AS delay FROM made)"
        " GROUP BY ROLLUP (begin) ORDER BY begin NULLS FIRST"
    )
    total = found.dicts()[0] if found.rows else {}
    return Table(found.columns, found.rows[1:]), total


def flow(scope: Scope) -> Table:
    """Return the counts of each bin and topic: ``records = events + duplicates + invalid``.

    A duplicate is a record whose event (source and id) the lake already had.
    """
    each = " UNION ALL ".join(
        f"SELECT record_time, broker, topic, '{view}' AS view FROM {view}"
        for view in _VIEWS.values()
    )
    return scope.ask(
        "SELECT begin, broker, topic, records, events, records - events - invalid AS duplicates, invalid FROM ("
        f"SELECT {scope.bin()} AS begin, broker, topic, count(*) FILTER (view = 'raw') AS records,"
        " count(*) FILTER (view = 'made') AS events, count(*) FILTER (view = 'refused') AS invalid"
        f" FROM ({each}) GROUP BY ALL) ORDER BY ALL"
    )


def invalid(scope: Scope) -> Table:
    """Return the quarantined records by the first rule that they broke, with the newest as an
    example.
    """
    return scope.ask(
        "SELECT verdict, rule, count(*) AS records, min(record_time) AS first, max(record_time) AS last,"
        " max_by(left(detail, 300), record_time) AS detail,"
        """ max_by(concat_ws('/', topic, "partition", "offset"), record_time) AS example FROM quarantined"""
        f" GROUP BY verdict, rule ORDER BY records DESC, verdict, rule LIMIT {TYPES}"
    )


def sizes(scope: Scope) -> tuple[Table, Mapping[str, Any]]:
    """Return a histogram of value sizes, and percentiles, maximum and total of the sizes in bytes."""
    ends = (*SIZES[1:], None)
    bars = ", ".join(
        f"count(*) FILTER (size >= {begin}{'' if end is None else f' AND size < {end}'}) AS at_{begin}"
        for begin, end in zip(SIZES, ends, strict=True)
    )
    [row] = scope.ask(
        f"SELECT {bars}, {scope.percentiles('size', 'size')}, max(size) AS size_most,"
        " coalesce(sum(size), 0)::BIGINT AS size_total"
        " FROM (SELECT coalesce(octet_length(value), 0) AS size FROM raw)"
    ).dicts()
    rows = [(begin, end, row.pop(f"at_{begin}")) for begin, end in zip(SIZES, ends, strict=True)]
    return of("at_least below records", rows), row


def keys(scope: Scope) -> tuple[Table, int]:
    """Return the keys with the most records, and the number of different keys. Null is no key."""
    found = scope.ask(
        "SELECT key, records, count(key) OVER () AS keys"
        " FROM (SELECT key, count(*) AS records FROM raw GROUP BY key)"
        f" ORDER BY records DESC, key LIMIT {TOP}"
    ).dicts()
    rows = [
        (None if row["key"] is None else _readable(row["key"]), row["records"]) for row in found
    ]
    return of("key records", rows), found[0]["keys"] if found else 0


def partitions(scope: Scope) -> Table:
    return scope.ask(
        'SELECT broker, topic, "partition", count(*) AS records FROM raw GROUP BY ALL ORDER BY ALL'
    )


def known_before(scope: Scope, names: Collection[str]) -> set[str] | None:
    """Return the types among ``names`` that the lake had before the range. Return None if the lake had no event
    before."""
    before = f"FROM events WHERE {_within(None, scope.span.begin)}"
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
    waited = "(delivered_ms - epoch_us(record_time) / 1000) / 1000.0"
    delivered, gone = "delivered_ms IS NOT NULL", "delivered_ms IS NULL AND given_up"
    return scope.ask(
        "SELECT subscription, type, count(*) AS events,"
        f" count(*) FILTER ({delivered}) AS delivered,"
        f" count(*) FILTER ({delivered} AND attempts = 1) AS at_once, count(*) FILTER ({gone}) AS given_up,"
        " count(*) FILTER (delivered_ms IS NULL AND NOT given_up) AS open,"
        f" sum(attempts)::BIGINT AS attempts, {scope.percentiles(waited, 'latency')}"
        f" FROM tried JOIN made ON made.source = tried.source AND left(made.id, {LONGEST_ID}) = tried.id"
        " GROUP BY subscription, type ORDER BY subscription, events DESC"
    )


def _within(since: datetime | None, until: datetime | None) -> str:
    """Return SQL for record times from ``since`` to before ``until``."""
    bounds = ((">=", since), ("<", until))
    conditions = [f"record_time {sign} TIMESTAMPTZ '{at.isoformat()}'" for sign, at in bounds if at]
    return " AND ".join(conditions) or "true"


def _readable(key: bytes) -> str:
    """Return a key as text, or in hexadecimal if it is not printable."""
    try:
        text = key.decode()
    except UnicodeDecodeError:
        return f"0x{key.hex()}"
    return text if text.isprintable() else f"0x{key.hex()}"
