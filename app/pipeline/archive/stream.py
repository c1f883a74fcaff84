"""The stream from Kafka into ``events_raw``, by Iceberg's own sink.

Where there is no checkpoint (the first run, other topics, a lost disk), or a killed driver has left a batch in it, the
lake itself says where to go on: a snapshot has all rows of a batch or none.
A checkpoint is named in a property of the table: an old one is never gone back to.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final
from uuid import uuid4

import msgspec

from app.errors import SetupError
from app.pipeline import history, source, tables
from app.pipeline.archive import positions
from app.pipeline.archive.lag import offsets
from app.pipeline.history import EPOCH, QUERY
from app.pipeline.pulsar_options import SCHEME
from app.pipeline.session import file_of
from app.pipeline.settings import KafkaPlace, Lake, PulsarPlace
from app.pipeline.source import Offsets
from app.pipeline.spark_adapter import jvm

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamWriter

_PROPERTY: Final = "skybridge.archive."


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """What is archived, and how.

    ``start``       where reading begins in partitions that the lake has nothing of.
    ``trigger``     seconds from the begin of one batch to the next.
    ``most``        most records of one batch.
    ``at_once``     most records that are derived at once, and done again after a kill.
    ``checkpoints`` the folder, as a URI, that checkpoints are below.
    ``skip_lost``   go on behind a gap that retention has torn.
    """

    place: KafkaPlace | PulsarPlace
    topics: tuple[str, ...]
    checkpoints: str
    start: positions.Where = "earliest"
    trigger: float = 30.0
    most: int = 200_000
    at_once: int = 500_000
    skip_lost: bool = False


class Standing(msgspec.Struct, frozen=True):
    """Kept in a property of ``events_raw``: the checkpoint in force, and the resolved first offsets."""

    checkpoint: str
    topics: tuple[str, ...]
    starts: dict[str, dict[int, int]]


class Ready(msgspec.Struct, frozen=True):
    """``next``: the first offset of each partition that the lake has not. ``end``: of Kafka, now."""

    standing: Standing
    next: Offsets
    end: Offsets

    @property
    def pending(self) -> int | None:
        """Records that are to be read; None where offsets do not count them."""
        if any(topic.startswith(SCHEME) for topic in self.end):
            return None
        return sum(
            max(0, self.end[topic][n] - at)
            for topic, each in self.next.items()
            for n, at in each.items()
        )


def prepare(spark: SparkSession, lake: Lake, plan: Plan, held: Offsets) -> Ready:
    """Where the stream goes on. ``held``: one beyond the last record of each partition in the lake. Raises SetupError for topics that are not there, and for records that
    retention dropped before they were read.
    """
    known = _standing(spark, lake, plan.place.broker)
    with positions.asking(spark, plan.place) as kafka:
        first, end = kafka.at(plan.topics, "earliest"), kafka.at(plan.topics, "latest")
        begin = kafka.at(plan.topics, plan.start)
    known_starts: Offsets = {} if known is None else known.starts
    wanted = {
        topic: {n: _next(held, known_starts, begin, topic, n) for n in numbers}
        for topic, numbers in end.items()
    }
    lost = _lost(wanted, first, end, plan)
    following = {
        topic: {n: max(at, first[topic][n]) for n, at in each.items()}
        for topic, each in wanted.items()
    }
    if (
        known is None
        or lost
        or set(known.topics) != set(plan.topics)
        or not _goes_on(spark, lake, f"{plan.checkpoints}/{known.checkpoint}")
    ):
        name = f"{plan.place.broker}-{uuid4().hex[:8]}"
        starts = {**known_starts, **following}
        known = Standing(name, plan.topics, {t: dict(each) for t, each in starts.items()})
        _keep(spark, lake, plan.place.broker, known)
    return Ready(known, following, end)


def start(
    spark: SparkSession, lake: Lake, plan: Plan, ready: Ready, *, once: bool
) -> StreamingQuery:
    """``once``: it ends by itself when everything is there that is stored now."""
    records = source.stream(
        spark,
        plan.place,
        plan.topics,
        {topic: ready.standing.starts[topic] for topic in plan.topics},
        max_offsets_per_trigger=plan.most,
    )
    writer: DataStreamWriter = (
        records.writeStream.format("iceberg")
        .outputMode("append")
        .queryName(f"archive {plan.place.broker}")
        .option("checkpointLocation", f"{plan.checkpoints}/{ready.standing.checkpoint}")
        .option("fanout-enabled", "true")  # days in any order, without a sort
    )
    timed = (
        writer.trigger(availableNow=True)
        if once
        else writer.trigger(processingTime=f"{round(plan.trigger * 1000)} milliseconds")
    )
    return timed.toTable(lake.table(tables.RAW_TABLE))


def reached(batch: Mapping[str, Any]) -> Offsets:
    """How far a batch read, as Spark tells of it; nothing where its source does not say."""
    return {
        topic: {int(number): at for number, at in each.items()}
        for source in batch["sources"]
        for topic, each in offsets(source.get("endOffset")).items()
    }


def _next(held: Offsets, starts: Offsets, begin: Offsets, topic: str, number: int) -> int:
    """Rows of the lake come first, then what an earlier run resolved, then the setting."""
    for known in (held, starts):
        if (found := known.get(topic, {}).get(number)) is not None:
            return found
    return begin[topic][number]


def _lost(wanted: Offsets, first: Offsets, end: Offsets, plan: Plan) -> bool:
    """Whether records are gone that were to be read. Raises SetupError where that is not agreed to."""
    gone, renewed = [], []
    for topic, each in wanted.items():
        for number, at in each.items():
            if at < first[topic][number]:
                gone.append(f"{topic}/{number}: offsets {at} to {first[topic][number] - 1}")
            if at > end[topic][number]:
                renewed.append(
                    f"{topic}/{number} ends at {end[topic][number]}, the lake is at {at}"
                )
    if renewed:
        raise SetupError(
            f"a topic is not the one that was archived: {'; '.join(renewed)}",
            setting="pipeline.archive.topics",
            cure="a topic that was created again begins at offset 0: give the broker another name in"
            " the configuration, or take another pipeline.lake.namespace",
        )
    if gone and not plan.skip_lost:
        raise SetupError(
            f"retention dropped records before they were archived: {'; '.join(gone)}",
            setting="pipeline.archive",
            cure="archive more often or keep the topic for longer; --skip-lost goes on behind the gap",
        )
    return bool(gone)


def _standing(spark: SparkSession, lake: Lake, broker: str) -> Standing | None:
    text = tables.properties(spark, lake, tables.RAW_TABLE).get(_PROPERTY + broker)
    return None if text is None else msgspec.json.decode(text, type=Standing)


def _keep(spark: SparkSession, lake: Lake, broker: str, standing: Standing) -> None:
    text = msgspec.json.encode(standing).decode()
    table = lake.table(tables.RAW_TABLE)
    spark.sql(f"ALTER TABLE {table} SET TBLPROPERTIES ('{_PROPERTY}{broker}' = '{text}')")


def _goes_on(spark: SparkSession, lake: Lake, checkpoint: str) -> bool:
    """Whether every batch that was begun there has ended, or a snapshot says that the lake has had its rows: some may
    be erased since. The snapshot may have expired by now; then the rows say it.
    """
    begun, ended = (_newest(spark, f"{checkpoint}/{name}") for name in ("offsets", "commits"))
    return begun is not None and (begun == ended or _stored(spark, lake, checkpoint, begun))


def _stored(spark: SparkSession, lake: Lake, checkpoint: str, batch: int) -> bool:
    """Whether a snapshot of ``events_raw`` names the batch, as Iceberg's sink looks for it."""
    system, path = file_of(spark, f"{checkpoint}/metadata")
    text = jvm(spark).org.apache.commons.io.IOUtils.toString(system.open(path), "UTF-8")
    query = msgspec.json.decode(text)["id"]
    newest = (
        int(each.summary[EPOCH])
        for each in history.snapshots(spark, lake.table(tables.RAW_TABLE))
        if each.summary.get(QUERY) == query and EPOCH in each.summary
    )
    return next(newest, -1) >= batch


def _newest(spark: SparkSession, folder: str) -> int | None:
    """The number of the last batch."""
    system, path = file_of(spark, folder)
    if not system.exists(path):
        return None
    names = (each.getPath().getName() for each in system.listStatus(path))
    return max((int(name) for name in names if name.isdigit()), default=None)
