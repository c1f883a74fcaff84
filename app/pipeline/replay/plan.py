"""What a replay would send, counted before the first record leaves, and fixed with it."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import msgspec
from pyspark.sql import functions as f

from app.errors import SetupError
from app.pipeline import tables
from app.pipeline.archive import progress
from app.pipeline.archive.progress import Progress
from app.pipeline.replay.choice import Choice
from app.pipeline.replay.chosen import Chosen, slices
from app.pipeline.replay.topic import Form
from app.pipeline.settings import Lake

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

GATEWAY: Final = "gateway"
RECORDS: Final = 10_000  # of a slice, at most about
BYTES: Final = 32 << 20  # of a slice, about: it is held twice
_DIGITS: Final = 12  # of a digest: an id that a person can type


class Order(msgspec.Struct, frozen=True):
    """What is asked for. ``to``: ``BROKER/TOPIC``, or ``gateway``."""

    choice: Choice
    to: str
    form: Form = "recorded"
    marked: bool = True

    @property
    def broker(self) -> str:
        return self.to.partition("/")[0]

    @property
    def topic(self) -> str:
        return self.to.partition("/")[2]

    @property
    def events_only(self) -> bool:
        """Whether records that are no event stay behind."""
        return self.to == GATEWAY or self.form != "recorded"


class Count(msgspec.Struct, frozen=True):
    """Of one ``type``; None: of records that do not decode, of which ``verdict`` says why. ``bytes``: of data."""

    type: str | None
    verdict: str | None
    records: int
    bytes: int
    sent: bool


class Plan(msgspec.Struct, frozen=True):
    """``id``: the same for the same order on the same records. ``slices``: where each ends."""

    id: str
    order: Order
    reach: Progress
    counts: Sequence[Count]
    slices: Sequence[Progress]

    @property
    def total(self) -> int:
        """Records that are read; those that stay behind are among them."""
        return sum(count.records for count in self.counts)

    @property
    def sent(self) -> int:
        return sum(count.records for count in self.counts if count.sent)


def planned(
    spark: SparkSession, lake: Lake, order: Order, *, most: int = RECORDS
) -> tuple[Plan, Chosen]:
    """Counts everything, sends nothing. ``most``: records of a slice. Raises SetupError for no lake."""
    tables.check(spark, lake)
    reach = progress.reach(spark.table(lake.table(tables.RAW_TABLE)))
    chosen = Chosen(spark, lake, order.choice, reach)
    counts = _counts(chosen.places, order)
    total, size = sum(c.records for c in counts), sum(c.bytes for c in counts)
    fitting = max(1, BYTES * total // max(1, size))
    cuts = slices(chosen.places, total, min(most, fitting))
    return Plan(_id(order, reach), order, reach, counts, cuts), chosen


def demand_no_loop(plan: Plan, archived: Sequence[tuple[str, str]]) -> None:
    """``archived``: broker and topic of what the archive reads. Raises SetupError for a target among them, or
    from which the lake has records.
    """
    broker, topic = plan.order.broker, plan.order.topic
    if topic and (topic in plan.reach.get(broker, {}) or (broker, topic) in archived):
        raise SetupError(
            f"{plan.order.to} is archived into this lake: what is sent there comes back as new records",
            setting="--to",
            cure="name another topic, or say --allow-loop",
        )


def _counts(places: DataFrame, order: Order) -> list[Count]:
    sums = f.count(f.lit(1)).alias("records"), f.sum("size").alias("bytes")
    rows = places.groupBy("type", "verdict").agg(*sums).collect()
    found = [
        Count(type_, verdict, records, size, verdict is None or not order.events_only)
        for type_, verdict, records, size in rows
    ]
    return sorted(found, key=lambda count: (-count.records, count.type or "", count.verdict or ""))


def _id(order: Order, reach: Progress) -> str:
    said = msgspec.json.encode(order) + progress.as_text(reach).encode()
    return hashlib.sha256(said).hexdigest()[:_DIGITS]
