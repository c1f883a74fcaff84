"""Run the steps of a report one after another: from a lake to a ``LakeReport``."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any, Final

import msgspec

from app.pipeline.report import measures, samples, tables
from app.pipeline.report.samples import Shapes
from app.pipeline.report.spans import Span
from app.pipeline.report.tables import Table
from app.pipeline.settings import Lake
from app.store.attempt_log import Reader

Tell = Callable[[str], None]
"""A callback that receives the name of each step of ``STEPS`` before it begins."""

STEPS: Final = (
    "the range", "types", "volume", "arrivals", "what became of records", "what is invalid", "sizes", "keys",
    "schemas of data", "deliveries",
)  # fmt: skip
SCHEMAS: Final = "schemas"
"""The name of the table that the next report compares with."""


class ReportRequest(msgspec.Struct, frozen=True):
    """A request for a report.

    Attributes:
        since: The first record time by the broker's clock; None for the oldest record.
        until: The first record time that is no longer included; None for the newest record.
        attempts: Reads the delivery attempts from the store; None leaves deliveries out.
        successes: Whether the store keeps successful attempts too.
        against: The shapes of an earlier report; None compares the two halves of the range.
    """

    since: datetime | None = None
    until: datetime | None = None
    attempts: Reader | None = None
    successes: bool = False
    against: Shapes | None = None


class Totals(msgspec.Struct, frozen=True):
    """The totals of a report: ``records = events + duplicates + invalid``. Delays are in seconds,
    sizes in bytes.

    Attributes:
        records: The records in the range.
        events: The different events among them.
        duplicates: The records whose event the lake already had.
        invalid: The quarantined records.
        waiting: The records that are not yet decoded, counted nowhere else.
        keys: The number of different record keys.
        untimed: The events without a time.
        ahead: The events whose time is later than the broker's time.
    """

    records: int
    events: int
    duplicates: int
    invalid: int
    waiting: int
    keys: int
    untimed: int
    ahead: int
    delay_p50: float | None
    delay_p99: float | None
    size_p50: int | None
    size_p99: int | None
    size_most: int | None
    size_total: int


class LakeReport(msgspec.Struct, frozen=True):
    """The measured tables of a lake, from which the page is made.

    Attributes:
        lake: The address of the lake.
        made: The time of the report.
        span: The range of time.
        totals: The totals.
        tables: The tables by name; ``measures`` describes them.
        fresh: The types that did not occur before the range; None if the lake has no older event.
        successes: Whether successful deliveries are known; None without a store.
        against: Whether the data was compared with an earlier report.
        far: The number of records whose time is after the range, because Python cannot hold it.
    """

    lake: str
    made: datetime
    span: Span
    totals: Totals
    tables: Mapping[str, Table]
    fresh: tuple[str, ...] | None
    successes: bool | None
    against: bool
    far: int = 0


def run(
    lake: Lake, wanted: ReportRequest, *, made: datetime, tell: Tell = lambda _: None
) -> LakeReport:
    """Measure a lake and return the report. The function calls ``tell`` with the name of each step
    before it begins.

    Raises:
        SetupError: A table is missing, or there is no record in the range.
    """
    tell("the range")
    with measures.scope(lake, wanted.since, wanted.until) as scope:
        return _measured(scope, lake, wanted, made, tell)


def _measured(
    scope: measures.Scope, lake: Lake, wanted: ReportRequest, made: datetime, tell: Tell
) -> LakeReport:
    waiting = measures.waiting(scope)
    found: dict[str, Table] = {}
    tell("types")
    found["types"] = measures.types(scope)
    found["sources"] = measures.sources(scope)
    names = found["types"].column("type")
    before = measures.known_before(scope, names)
    tell("volume")
    found["volume_by_type"] = measures.volume(scope, "type", names)
    found["volume_by_source"] = measures.volume(scope, "source", found["sources"].column("source"))
    tell("arrivals")
    found["arrivals"], arrived = measures.arrivals(scope)
    tell("what became of records")
    found["flow"] = measures.flow(scope)
    tell("what is invalid")
    found["invalid"] = measures.invalid(scope)
    tell("sizes")
    found["sizes"], size = measures.sizes(scope)
    tell("keys")
    found["keys"], keys = measures.keys(scope)
    found["partitions"] = measures.partitions(scope)
    tell("schemas of data")
    found["drift"], found[SCHEMAS] = _drift(scope, found["types"], wanted.against)
    tell("deliveries")
    tried = (
        () if wanted.attempts is None else wanted.attempts(int(scope.span.begin.timestamp() * 1000))
    )
    found["deliveries"] = measures.deliveries(scope, tried)
    totals = _totals(found["flow"], arrived, size, waiting=waiting, keys=keys)
    found["totals"] = tables.of("measure value", msgspec.structs.asdict(totals).items())
    return LakeReport(
        lake=f"{lake.catalog.warehouse} ({lake.namespace})",
        made=made,
        span=scope.span,
        totals=totals,
        tables=found,
        fresh=None if before is None else tuple(name for name in names if name not in before),
        successes=None if wanted.attempts is None else wanted.successes,
        against=wanted.against is not None,
        far=scope.far,
    )


def _drift(scope: measures.Scope, types: Table, against: Shapes | None) -> tuple[Table, Table]:
    """Return the table of changes in the data, and the shapes of the whole range."""
    first, second = samples.halves(scope, types)
    whole = samples.combined(first, second)
    compared = (
        samples.drifted(first, second) if against is None else samples.drifted(against, whole)
    )
    return compared, samples.as_table(whole)


def _totals(
    flow: Table, arrived: Mapping[str, Any], size: Mapping[str, Any], *, waiting: int, keys: int
) -> Totals:
    counts = ("records", "events", "duplicates", "invalid")
    events = arrived.get("events") or 0
    return Totals(
        **{name: sum(flow.column(name)) for name in counts},
        waiting=waiting,
        keys=keys,
        untimed=events - (arrived.get("timed") or 0),
        ahead=arrived.get("ahead") or 0,
        delay_p50=arrived.get("delay_p50"),
        delay_p99=arrived.get("delay_p99"),
        **size,
    )
