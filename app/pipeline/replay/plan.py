"""The plan of a replay: what it would send, counted and fixed before the first record is sent."""

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
from app.pipeline.replay.choice import RecordChoice
from app.pipeline.replay.chosen import ChosenRecords, slices
from app.pipeline.replay.topic import Form
from app.pipeline.settings import Lake

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

GATEWAY: Final = "gateway"
RECORDS: Final = 10_000  # approximate limit of a slice
BYTES: Final = 32 << 20  # approximate limit of a slice, which is held twice in memory
_DIGITS: Final = 12  # hexadecimal digits of an id, few enough to type


class LakeReplayOrder(msgspec.Struct, frozen=True):
    """A request for a replay.

    Attributes:
        choice: The conditions for records.
        to: The target: ``BROKER/TOPIC``, or ``gateway``.
        form: The form in which records are sent.
        marked: Whether sent records have the header that marks a replay.
    """

    choice: RecordChoice
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
        """Return True if records that are not events are left out."""
        return self.to == GATEWAY or self.form != "recorded"


class TypeCount(msgspec.Struct, frozen=True):
    """The number of chosen records of one type.

    Attributes:
        type: The event type; None for records that do not decode.
        verdict: Why the records do not decode; None for events.
        records: The number of records.
        bytes: The size of their data in bytes.
        sent: Whether the replay sends them.
    """

    type: str | None
    verdict: str | None
    records: int
    bytes: int
    sent: bool


class LakeReplayPlan(msgspec.Struct, frozen=True):
    """The plan of a replay.

    Attributes:
        id: A digest of the order and the records: the same order on the same records has the same
            id.
        order: The request.
        reach: The end of ``events_raw`` at planning.
        counts: The counts of the chosen records.
        slices: The end of each slice.
    """

    id: str
    order: LakeReplayOrder
    reach: Progress
    counts: Sequence[TypeCount]
    slices: Sequence[Progress]

    @property
    def total(self) -> int:
        """Return the number of records that are read, including those that are not sent."""
        return sum(count.records for count in self.counts)

    @property
    def sent(self) -> int:
        return sum(count.records for count in self.counts if count.sent)


def plan_replay(
    spark: SparkSession, lake: Lake, order: LakeReplayOrder, *, most: int = RECORDS
) -> tuple[LakeReplayPlan, ChosenRecords]:
    """Count the chosen records and plan the slices, without sending anything.

    Args:
        spark: The session.
        lake: The lake.
        order: The request.
        most: The largest number of records in a slice.

    Raises:
        SetupError: The lake does not exist.
    """
    tables.check(spark, lake)
    reach = progress.reach(spark.table(lake.table(tables.RAW_TABLE)))
    chosen = ChosenRecords(spark, lake, order.choice, reach)
    counts = _counts(chosen.places, order)
    total, size = sum(c.records for c in counts), sum(c.bytes for c in counts)
    fitting = max(1, BYTES * total // max(1, size))
    cuts = slices(chosen.places, total, min(most, fitting))
    return LakeReplayPlan(_id(order, reach), order, reach, counts, cuts), chosen


def demand_no_loop(plan: LakeReplayPlan, archived: Sequence[tuple[str, str]]) -> None:
    """Raise SetupError if the target is a topic that is archived into this lake.

    Args:
        plan: The plan.
        archived: Broker and topic of all topics that the archive reads.
    """
    broker, topic = plan.order.broker, plan.order.topic
    if topic and (topic in plan.reach.get(broker, {}) or (broker, topic) in archived):
        raise SetupError(
            f"{plan.order.to} is archived into this lake, so the sent records would come back as new ones",
            setting="--to",
            cure="name another topic, or add --allow-loop",
        )


def _counts(places: DataFrame, order: LakeReplayOrder) -> list[TypeCount]:
    sums = f.count(f.lit(1)).alias("records"), f.sum("size").alias("bytes")
    rows = places.groupBy("type", "verdict").agg(*sums).collect()
    found = [
        TypeCount(type_, verdict, records, size, verdict is None or not order.events_only)
        for type_, verdict, records, size in rows
    ]
    return sorted(found, key=lambda count: (-count.records, count.type or "", count.verdict or ""))


def _id(order: LakeReplayOrder, reach: Progress) -> str:
    text = msgspec.json.encode(order) + progress.as_text(reach).encode()
    return hashlib.sha256(text).hexdigest()[:_DIGITS]
