"""The records of a report: a connection to DuckDB with the three tables narrowed to the range.

The views are ``raw``, ``made`` (events) and ``refused`` (quarantine). All have the column ``begin``, the
start of a row's bin. ``raw`` and ``made`` have the ``size`` of a value and of a payload in bytes. ``made``
has the ``delay``: the seconds from the producer's time to the broker's, null without a time, negative for
a fast clock. ``refused`` has ``is_event``: whether the record is valid, so that ``made`` has its event.
"""

# ruff: noqa: S608 - only constant names and numbers are put into SQL

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from app.errors import SetupError
from app.pipeline import tables as lake_tables
from app.pipeline.query.duck import connected, open_datasets
from app.pipeline.report.spans import Span
from app.pipeline.report.tables import Table
from app.pipeline.settings import Lake
from app.pipeline.state import derived_progress

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

EXACT: Final = 20_000_000
"""The largest number of events for exact percentiles, which need all values in memory."""

MEMORY: Final = "2GB"
"""The memory of DuckDB. Percentiles need about 40 bytes for each event."""

_YEAR_9999: Final = "TIMESTAMPTZ '9999-01-01T00:00:00+00:00'"
"""The time up to which the range of a report may extend: bins end a year later at the latest."""

_VIEWS: Final = {
    "raw": f"coalesce(octet_length(value), 0) AS size FROM {lake_tables.RAW_TABLE}",
    "made": "coalesce(strlen(data), octet_length(data_bytes), 0) AS size,"
    f" (epoch_us(record_time) - epoch_us(time)) / 1e6 AS delay FROM {lake_tables.EVENTS_TABLE}",
    "refused": f"verdict = '{lake_tables.UNFIT}' AS is_event FROM {lake_tables.QUARANTINE_TABLE}",
}
"""The further columns and the table of each view."""
_DONE: Final = pa.schema(
    [("broker", pa.string()), ("topic", pa.string()), ("partition", pa.int32()), ("reached", pa.int64())]
)  # fmt: skip


class Scope:
    """A connection to the derived records of the range, without offsets that the archive has only
    begun.

    Attributes:
        asked: SQL for the record times of the requested range.
        span: The range of time.
        far: The number of records whose time is after the range, because Python cannot hold it.
    """

    def __init__(
        self,
        connection: DuckDBPyConnection,
        since: datetime | None,
        until: datetime | None,
        done: lake_tables.Progress | None,
    ) -> None:
        """Create the views. ``done`` is the progress of the archive; None reads it from quarantine.

        Raises:
            SetupError: There is no record in the range.
        """
        self._connection = connection
        self.asked = within(since, until)
        self.span, self.far = self._range(since, until)
        self._create_views(done)
        [count] = self.ask("SELECT count(*) AS n FROM made").column("n")
        self._quantile = "quantile_disc" if count <= EXACT else "approx_quantile"

    def ask(self, sql: str, **values: Any) -> Table:
        """Return the rows of a query. A time that Python cannot hold is text."""
        found = self._connection.execute(sql, values or None)
        return Table(tuple(name for name, *_ in found.description or ()), found.fetchall())

    def register(self, name: str, rows: pa.Table) -> None:
        self._connection.register(name, rows)

    def percentiles(self, column: str) -> str:
        """Return SQL for the 50th and 99th percentile of a column, named with the suffixes _p50 and
        _p99.
        """
        shares = (("p50", 0.5), ("p99", 0.99))
        return ", ".join(
            f"{self._quantile}({column}, {at}) AS {column}_{name}" for name, at in shares
        )

    def _create_views(self, done: lake_tables.Progress | None) -> None:
        if done is None:
            reached = 'broker, topic, "partition", max("offset") + 1 AS reached FROM quarantine GROUP BY ALL'
            self._connection.execute(f"CREATE TEMP TABLE done AS SELECT {reached}")
        else:
            ends = [dict(zip(_DONE.names, each, strict=True)) for each in lake_tables.places(done)]
            self.register("done", pa.Table.from_pylist(ends, _DONE))
        step = int(self.span.step.total_seconds())
        begin = f"to_timestamp(epoch_us(record_time) // {step * 1_000_000} * {step}) AS begin"
        for view, columns_of_table in _VIEWS.items():
            self._connection.execute(
                f"CREATE TEMP VIEW {view} AS SELECT r.*, {begin}, {columns_of_table} AS r"
                ' JOIN done USING (broker, topic, "partition")'
                f' WHERE r."offset" < reached AND {self.asked}'
            )

    def _range(self, since: datetime | None, until: datetime | None) -> tuple[Span, int]:
        """Return the requested range and ``far``. A missing bound is replaced by the first or last
        record.

        Records whose time Python cannot hold do not extend the range, but all counts include them.
        """
        near = f"record_time < {_YEAR_9999}"
        ends = (
            f"SELECT coalesce(min(record_time) FILTER ({near}), {_YEAR_9999}) AS first,"
            f" coalesce(max(record_time) FILTER ({near}), {_YEAR_9999}) AS last,"
            f" count(*) AS records, count(*) FILTER (NOT {near}) AS far FROM events_raw WHERE {self.asked}"
        )
        [row] = self.ask(ends).dicts()
        if not row["records"]:
            raise SetupError(
                "the lake has no record in this range",
                cure="leave --since and --until out for all there is; skybridge pipeline archive fills the lake",
            )
        last = until or row["last"] + timedelta(microseconds=1)
        return Span(since or row["first"], last), row["far"]


@contextmanager
def scope(lake: Lake, since: datetime | None, until: datetime | None) -> Iterator[Scope]:
    """Open a scope inside the context. Raise SetupError if the lake or the range has no record to
    read.
    """
    rows = open_datasets(lake)
    done = derived_progress(rows[lake_tables.QUARANTINE_TABLE].table)
    with connected(rows, MEMORY) as connection:
        yield Scope(connection, since, until, done)


def within(since: datetime | None, until: datetime | None) -> str:
    """Return SQL for record times from ``since`` to before ``until``."""
    bounds = ((">=", since), ("<", until))
    conditions = [f"record_time {sign} TIMESTAMPTZ '{at.isoformat()}'" for sign, at in bounds if at]
    return " AND ".join(conditions) or "true"
