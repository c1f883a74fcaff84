"""Run the steps of a report one after another: from a lake to a ``LakeReport``."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Final

import msgspec

from app.pipeline.report import measures, samples, tables
from app.pipeline.report.samples import Shapes
from app.pipeline.report.scope import Scope
from app.pipeline.report.scope import scope as open_scope
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
COUNTS: Final = ("records", "events", "duplicates", "invalid")
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
    untimed: int = 0
    ahead: int = 0
    delay_p50: float | None = None
    delay_p99: float | None = None
    size_p50: int | None = None
    size_p99: int | None = None
    size_most: int | None = None
    size_total: int = 0


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
    with open_scope(lake, wanted.since, wanted.until) as scope:
        found, totals, before = _measured(scope, wanted, tell)
    names = found["types"].column("type")
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


def _measured(
    scope: Scope, wanted: ReportRequest, tell: Tell
) -> tuple[dict[str, Table], Totals, set[str] | None]:
    """Return the tables, the totals, and the types that the lake had before the range."""
    found: dict[str, Table] = {}
    waiting = measures.waiting(scope)
    tell("types")
    found["types"], found["sources"] = measures.types(scope), measures.sources(scope)
    before = measures.known_before(scope, found["types"].column("type"))
    tell("volume")
    for name in ("type", "source"):
        most = found[f"{name}s"].column(name)
        found[f"volume_by_{name}"] = measures.volume(scope, name, most)
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
    first, second = samples.halves(scope, found["types"])
    whole = samples.combined(first, second)
    pair = (first, second) if wanted.against is None else (wanted.against, whole)
    found["drift"], found[SCHEMAS] = samples.drifted(*pair), samples.as_table(whole)
    tell("deliveries")
    since = int(scope.span.begin.timestamp() * 1000)
    tried = () if wanted.attempts is None else wanted.attempts(since)
    found["deliveries"] = measures.deliveries(scope, tried)
    counts = {name: sum(found["flow"].column(name)) for name in COUNTS}
    totals = Totals(**counts, **arrived, **size, waiting=waiting, keys=keys)
    found["totals"] = tables.of("measure value", msgspec.structs.asdict(totals).items())
    return found, totals, before
