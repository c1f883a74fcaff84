"""The steps of a report, one after another: a lake in, a ``Report`` out."""

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
"""Told of each step of ``STEPS`` before it begins."""

STEPS: Final = (
    "the range", "types", "volume", "arrivals", "what became of records", "what is invalid", "sizes", "keys",
    "schemas of data", "deliveries",
)  # fmt: skip
SCHEMAS: Final = "schemas"
"""The table that the next report compares with."""


class Wanted(msgspec.Struct, frozen=True):
    """``since`` up to but without ``until``, by the broker's clock; None for all there is.

    ``attempts``: of the store; None leaves deliveries out. ``successes``: the store keeps those too.
    ``against``: the shapes of an earlier report; else the two halves of the range are compared.
    """

    since: datetime | None = None
    until: datetime | None = None
    attempts: Reader | None = None
    successes: bool = False
    against: Shapes | None = None


class Totals(msgspec.Struct, frozen=True):
    """``records = events + duplicates + invalid``. Delays in seconds, sizes in bytes; None where there is none.

    ``waiting``: records of the range that nothing was derived from yet, counted nowhere else. ``untimed``:
    events without a time; ``ahead``: whose time is later than the broker's.
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


class Report(msgspec.Struct, frozen=True):
    """``lake``: where it is. ``made``: when. ``tables``: by name; ``measures`` says what is in them.

    ``fresh``: types that were not there before the range, None where the lake has nothing before it.
    ``successes``: whether deliveries that went well are known; None without a store.
    """

    lake: str
    made: datetime
    span: Span
    totals: Totals
    tables: Mapping[str, Table]
    fresh: tuple[str, ...] | None
    successes: bool | None
    against: bool


def run(lake: Lake, wanted: Wanted, *, made: datetime, tell: Tell = lambda _: None) -> Report:
    """Raises SetupError without the tables, or where nothing is in the range."""
    tell("the range")
    with measures.scope(lake, wanted.since, wanted.until) as scope:
        return _measured(scope, lake, wanted, made, tell)


def _measured(
    scope: measures.Scope, lake: Lake, wanted: Wanted, made: datetime, tell: Tell
) -> Report:
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
    return Report(
        lake=f"{lake.catalog.warehouse} ({lake.namespace})",
        made=made,
        span=scope.span,
        totals=totals,
        tables=found,
        fresh=None if before is None else tuple(name for name in names if name not in before),
        successes=None if wanted.attempts is None else wanted.successes,
        against=wanted.against is not None,
    )


def _drift(scope: measures.Scope, types: Table, against: Shapes | None) -> tuple[Table, Table]:
    """What changed, and the shapes of the whole range."""
    first, second = samples.halves(scope, types)
    whole = samples.both(first, second)
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
