"""The stream of a topic's records into ``events_raw``, by Iceberg's own sink.

If there is no usable checkpoint, the stream continues where the lake ends. A checkpoint is missing
in the first run, with other topics, after the loss of a disk, or after a kill within a batch. No
record is lost or repeated, because a snapshot has all rows of a batch or none. The current
checkpoint is named in a property of the table, so an older one is never used again.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final
from uuid import uuid4

import msgspec

from app.errors import SetupError
from app.pipeline import tables
from app.pipeline.archive import progress
from app.pipeline.archive.checkpoints import CheckpointState, is_usable, keep, stored_state
from app.pipeline.archive.lag import offsets
from app.pipeline.archive.renewed import remove_misplaced, renewed, stored_names, with_current
from app.pipeline.settings import Lake
from app.spark import positions, source
from app.spark.pulsar.options import SCHEME
from app.spark.settings import KafkaPlace, PulsarPlace
from app.spark.source import Offsets

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamWriter

    from app.pipeline.archive.ranges import DeriveRange

_PER_TASK: Final = 64
"""The partitions that a task reads one after another, if a batch is small. Each costs some 10 ms."""


class ArchivePlan(msgspec.Struct, frozen=True, kw_only=True):
    """The topics that are archived, and the limits.

    Attributes:
        place: The cluster of the topics.
        topics: The topics.
        checkpoints: The URI of the folder of all checkpoints.
        start: Where reading begins in partitions that the lake does not know.
        trigger: The seconds from the start of one batch to the next.
        most: The largest number of records in a batch.
        at_once: The largest number of records that are derived at once, and repeated after a kill.
        skip_lost: Whether to continue after a gap that retention left.
    """

    place: KafkaPlace | PulsarPlace
    topics: tuple[str, ...]
    checkpoints: str
    start: positions.Where = "earliest"
    trigger: float = 30.0
    most: int = 200_000
    at_once: int = 500_000
    skip_lost: bool = False


class PreparedStream(msgspec.Struct, frozen=True):
    """A prepared stream.

    Attributes:
        state: The checkpoint and the topics.
        next: The first offset of each partition that the lake does not have.
        end: The end of each partition in the broker now.
        renewed: The topics that were created again since the lake last read them.
    """

    state: CheckpointState
    next: Offsets
    end: Offsets
    renewed: tuple[str, ...] = ()

    @property
    def names(self) -> Mapping[str, str]:
        """Return the value of the column ``topic`` for each topic that the broker gave an id."""
        return stored_names({topic: self.state.ids.get(topic, ()) for topic in self.state.topics})

    def stored(self, offsets: Offsets) -> Offsets:
        """Return offsets by the values of the column ``topic``."""
        return {self.names.get(topic, topic): each for topic, each in offsets.items()}

    @property
    def pending(self) -> int | None:
        """Return the number of records to read; None if offsets do not count them."""
        if any(topic.startswith(SCHEME) for topic in self.end):
            return None
        return sum(
            max(0, self.end[topic][n] - at)
            for topic, each in self.next.items()
            for n, at in each.items()
        )


def prepare(
    spark: SparkSession, lake: Lake, plan: ArchivePlan, left: DeriveRange
) -> PreparedStream:
    """Find where the stream continues, and store a new checkpoint name if the old checkpoint cannot
    be used. Topics that were created again are read from their earliest record.

    Args:
        spark: The session.
        lake: The lake.
        plan: The topics and limits.
        left: The records of the lake that are not decoded yet.

    Raises:
        SetupError: Topics are missing, or retention deleted records before they were read.
    """
    broker = plan.place.broker
    known = stored_state(spark, lake, broker)
    current = positions.topic_ids(spark, plan.place, plan.topics)
    with positions.open_positions(spark, plan.place) as kafka:
        first, end = kafka.at(plan.topics, "earliest"), kafka.at(plan.topics, "latest")
        begin = kafka.at(plan.topics, plan.start)
    before = {} if known is None else known.ids
    again, ids = renewed(before, current), with_current(before, current)
    if again:
        names = stored_names({topic: before[topic] for topic in again})
        remove_misplaced(spark, lake, plan.place, names, left.start, left.end)
    erased = {} if known is None else known.erased
    here = progress.merged(left.end, {broker: erased}).get(broker, {})
    known_starts: Offsets = {
        **({} if known is None else known.starts),
        **{topic: first[topic] for topic in again},
    }
    now = stored_names(ids)
    held = {topic: here.get(now.get(topic, topic), {}) for topic in plan.topics}
    wanted = {
        topic: {n: _next_offset(held, known_starts, begin, topic, n) for n in numbers}
        for topic, numbers in end.items()
    }
    lost = _are_records_lost(wanted, first, end, plan)
    following = {
        topic: {n: max(at, first[topic][n]) for n, at in each.items()}
        for topic, each in wanted.items()
    }
    if (
        known is None
        or lost
        or ids != before
        or set(known.topics) != set(plan.topics)
        or not is_usable(spark, lake, f"{plan.checkpoints}/{known.checkpoint}")
    ):
        name = f"{broker}-{uuid4().hex[:8]}"
        kept: Offsets = {**known_starts, **following}
        starts = {topic: dict(each) for topic, each in kept.items()}
        known = CheckpointState(name, plan.topics, starts, ids, erased)
        keep(spark, lake, broker, known)
    return PreparedStream(known, following, end, tuple(again))


def start(
    spark: SparkSession,
    lake: Lake,
    plan: ArchivePlan,
    ready: PreparedStream,
    *,
    once: bool,
    few_files: bool = False,
) -> StreamingQuery:
    """Start the stream. With ``once`` the stream ends when it has read all records that are stored
    now. With ``few_files`` a batch has a file for each day, and for each ``_PER_TASK`` partitions.
    """
    partitions = sum(map(len, ready.next.values()))
    records = source.stream(
        spark,
        plan.place,
        plan.topics,
        {topic: ready.state.starts[topic] for topic in plan.topics},
        max_offsets_per_trigger=plan.most,
        names=ready.names,
        tasks=-(-partitions // _PER_TASK) if few_files else None,
    )
    writer: DataStreamWriter = (
        records.writeStream.format("iceberg")
        .outputMode("append")
        .queryName(f"archive {plan.place.broker}")
        .option("checkpointLocation", f"{plan.checkpoints}/{ready.state.checkpoint}")
        .option("fanout-enabled", "true")  # writes days in any order, without a sort
    )
    timed = (
        writer.trigger(availableNow=True)
        if once
        else writer.trigger(processingTime=f"{round(plan.trigger * 1000)} milliseconds")
    )
    return timed.toTable(lake.table(tables.RAW_TABLE))


def reached(batch: Mapping[str, Any]) -> Offsets:
    """Return how far a batch read, from its progress report; empty if the source does not report
    it.
    """
    return {
        topic: {int(number): at for number, at in each.items()}
        for source in batch["sources"]
        for topic, each in offsets(source.get("endOffset")).items()
    }


def _next_offset(held: Offsets, starts: Offsets, begin: Offsets, topic: str, number: int) -> int:
    """Return the first offset to read. Rows of the lake come first, then the start of an earlier
    run, then the setting.
    """
    for known in (held, starts):
        if (found := known.get(topic, {}).get(number)) is not None:
            return found
    return begin[topic][number]


def _are_records_lost(wanted: Offsets, first: Offsets, end: Offsets, plan: ArchivePlan) -> bool:
    """Return True if retention has deleted records that were to be read, and ``skip_lost`` permits
    that.

    Raises:
        SetupError: Records are gone without that permission, or a partition has become shorter.
    """
    gone, shorter = [], []
    for topic, each in wanted.items():
        for number, at in each.items():
            if at < first[topic][number]:
                gone.append(f"{topic}/{number}: offsets {at} to {first[topic][number] - 1}")
            if at > end[topic][number]:
                shorter.append(
                    f"{topic}/{number} ends at {end[topic][number]}, the lake is at {at}"
                )
    if shorter:
        raise SetupError(
            f"a topic is shorter than what was archived of it: {'; '.join(shorter)}",
            setting="pipeline.archive.topics",
            cure="the broker lost records, or created the topic again without a new id: give the broker"
            " another name in the configuration, or take another pipeline.lake.namespace",
        )
    if gone and not plan.skip_lost:
        raise SetupError(
            f"retention dropped records before they were archived: {'; '.join(gone)}",
            setting="pipeline.archive",
            cure="archive more often or keep the topic for longer; --skip-lost continues after the gap",
        )
    return bool(gone)
