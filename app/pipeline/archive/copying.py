"""Copy the records of topics into ``events_raw``: a batch of Spark for each range of offsets.

The snapshot of a batch has its rows, and states up to where the topics are copied. So the next batch
begins there, in this process or in another one. Iceberg refuses the commit of a batch if another
program has added rows since the range was chosen. A process that was suspended can thus not repeat
records.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

import msgspec

from app.errors import BrokerUnavailable, SetupError
from app.pipeline import history, tables
from app.pipeline.archive import commit, iceberg_adapter, progress, topics
from app.pipeline.archive.job import ArchiveJob, ArchivePlan
from app.pipeline.archive.topics import ArchivedTopics
from app.spark import positions, source
from app.spark.faults import LOST, is_any
from app.spark.positions import PositionReader, Where
from app.spark.pulsar.options import SCHEME
from app.spark.source import Offsets

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FEW: Final = 50_000
"""The largest number of records that one file is worth. A task writes them in about a second."""
_TRIES: Final = 5
NO_OFFSETS: Final[Offsets] = {}
_PER_TASK: Final = 64
"""The partitions that a task reads one after another, if a batch is small. Each costs some 10 ms."""


class CopyRange(msgspec.Struct, frozen=True, kw_only=True):
    """The records that one batch copies.

    Attributes:
        begun: The time at which the ends of the topics were read, in seconds since 1970.
        start: The first offset of each partition that the lake does not have.
        end: The first offset of each partition that the batch does not have.
        latest: The end of each partition in the broker.
        state: The topics.
    """

    begun: float
    start: Offsets
    end: Offsets
    latest: Offsets
    state: ArchivedTopics = ArchivedTopics()

    @property
    def size(self) -> int:
        """Return the number of offsets; 0 if there is no new record."""
        return sum(max(0, at - self.start[topic][n]) for topic, n, at in _each(self.end))

    @property
    def waiting(self) -> int:
        """Return the number of offsets that the broker has and the lake has not."""
        return msgspec.structs.replace(self, end=self.latest).size

    def stored(self, offsets: Offsets) -> Offsets:
        """Return offsets by the values of the column ``topic``."""
        return {self.state.names.get(topic, topic): each for topic, each in offsets.items()}

    @property
    def is_sparse(self) -> bool:
        """Return True if offsets do not count records. This is so for message ids of Pulsar."""
        return any(topic.startswith(SCHEME) for topic in self.end)

    @property
    def is_last(self) -> bool:
        """Return True if the batch reads all records that the broker had."""
        return self.end == self.latest


class TopicsRenewed(Exception):
    """The error for topics that were created again while a batch was read."""


def next_range(job: ArchiveJob) -> CopyRange:
    """Return the records to copy next. Topics that were created again are reported, and read from their
    earliest record.

    Raises:
        SetupError: Topics are missing, or retention deleted records before they were read.
        BrokerUnavailable: The broker does not answer.
    """
    spark, lake, plan = job.spark, job.lake, job.plan
    broker, begun = plan.place.broker, time.time()  # noqa: TID251 - compared with the times of records
    loaded = history.iceberg_table(spark, lake.table(tables.RAW_TABLE))
    known = topics.states(loaded).get(broker, ArchivedTopics())
    current = positions.topic_ids(spark, plan.place, plan.topics)
    state, held = known.with_current(current), topics.copied(spark, lake, loaded).get(broker, {})
    again = topics.renewed(known.ids, current)
    with positions.open_positions(spark, plan.place) as asked:
        first = asked.at(plan.topics, "earliest")
        latest = _within(asked.at(plan.topics, "latest"), first)
        begin = first
        if unknown := [t for t in plan.topics if t not in again and not _is_known(state, held, t)]:
            begin = {**first, **_begin(asked, plan.start, unknown, first, latest)}
    wanted, new = dict[str, dict[int, int]](), dict[str, dict[int, int]]()
    for topic, n, _ in _each(latest):
        at = _known_offset(state, held, topic, n)
        if at is None:
            at = new.setdefault(topic, {})[n] = begin[topic][n]
        wanted.setdefault(topic, {})[n] = at
    if new or state != known:
        firsts = {t: {**state.first.get(t, {}), **new.get(t, {})} for t in {*state.first, *new}}
        state = msgspec.structs.replace(state, first=firsts)
        topics.keep(loaded, broker, state)
    for topic in again:
        job.notice(
            f"Topic {topic} was deleted and created again. Its records are read from the earliest one,"
            f" and stored as topic {state.names[topic]}."
        )
    _demand_kept(wanted, first, latest, plan)
    start = {t: {n: max(at, first[t][n]) for n, at in each.items()} for t, each in wanted.items()}
    return CopyRange(begun=begun, start=start, end=latest, latest=latest, state=state)


def limited(found: CopyRange, until: Offsets, most: int) -> CopyRange:
    """Return the part of a range before ``until``, by the values of the column ``topic``, with at most
    about ``most`` records of Kafka. Offsets of Pulsar do not count records."""
    names = found.state.names
    bounds = {topic: until.get(names.get(topic, topic), {}) for topic in found.end}
    end = {
        topic: {n: min(at, bounds[topic].get(n, at)) for n, at in each.items()}
        for topic, each in found.end.items()
    }
    if not found.is_sparse:
        return msgspec.structs.replace(
            found, end=progress.slice_of({"": found.start}, {"": end}, most)[""]
        )
    return msgspec.structs.replace(found, end=end)


def copy(job: ArchiveJob, found: CopyRange) -> int:
    """Copy the records of a range, and return their number.

    Raises:
        TopicsRenewed: A topic was created again meanwhile. Nothing was committed.
    """
    spark, place, name = job.spark, job.plan.place, job.lake.table(tables.RAW_TABLE)
    loaded = history.iceberg_table(spark, name)
    start, end = _filled(found)
    frame = source.records(spark, place, [*end], start, end, names=found.state.names)
    tasks = _tasks(spark, found, sum(map(len, end.values())))
    try:
        files = iceberg_adapter.write_files(spark, frame.coalesce(tasks), name, loaded)
    except Exception:
        with contextlib.suppress(BrokerUnavailable):  # the first error matters
            _demand_same(job, found)
        raise
    job.observe("files written")
    with commit.removing_on_error(spark, name, files):
        _demand_same(job, found)
    begin, reached = ({place.broker: found.stored(each)} for each in (found.start, found.end))
    ends = progress.merged(topics.copied(spark, job.lake, loaded), reached)
    commit.append(spark, name, files, ends, start=begin)
    return sum(each.java.recordCount() for each in files)


def _demand_same(job: ArchiveJob, found: CopyRange) -> None:
    """Raise TopicsRenewed if a topic was created again after a range was chosen."""
    current = positions.topic_ids(job.spark, job.plan.place, job.plan.topics)
    if again := topics.renewed(found.state.ids, current):
        raise TopicsRenewed(f"topics were created again: {', '.join(again)}")


def copy_next(job: ArchiveJob, until: Offsets = NO_OFFSETS) -> tuple[CopyRange, int]:
    """Copy the next batch before ``until``, and return its range and the number of its records.

    The batch is chosen again if another program has committed meanwhile, or if the state of the commit is
    unknown. It is also chosen again if a topic was created again or has lost records.
    """
    for left in reversed(range(_TRIES)):
        found = limited(next_range(job), until, job.plan.most)
        job.observe("prepared")
        try:
            return found, copy(job, found) if found.size else 0
        except Exception as error:
            passing = isinstance(error, TopicsRenewed) or is_any(error, LOST)
            if not left or not (passing or commit.may_be_repeated(error)):
                raise
            job.held.demand()
    raise AssertionError("unreachable")


def _filled(found: CopyRange) -> tuple[Offsets, Offsets]:
    """Return the bounds of the partitions that have records in a range."""
    start: dict[str, dict[int, int]] = {}
    end: dict[str, dict[int, int]] = {}
    for topic, n, at in _each(found.end):
        if found.start[topic][n] < at:
            start.setdefault(topic, {})[n] = found.start[topic][n]
            end.setdefault(topic, {})[n] = at
    return start, end


def _tasks(spark: SparkSession, found: CopyRange, partitions: int) -> int:
    """Return the number of tasks that read a batch. Small batches are worth a file for each day."""
    if found.size <= FEW and not found.is_sparse:
        return -(-partitions // _PER_TASK)
    return source.readers(spark)


def _each(offsets: Offsets) -> list[tuple[str, int, int]]:
    return [(topic, n, at) for topic, each in offsets.items() for n, at in each.items()]


def _within(offsets: Offsets, known: Offsets) -> Offsets:
    """Return offsets of known partitions. A Pulsar adds one with its first message, at any time."""
    return {
        topic: {n: at for n, at in each.items() if n in known.get(topic, {})}
        for topic, each in offsets.items()
    }


def _known(state: ArchivedTopics, held: Offsets, topic: str) -> list[Mapping[int, int]]:
    """Return what the lake knows of a topic: its offsets by partition, the first ones count most."""
    stored = state.names.get(topic, topic)
    known = (held.get(stored), state.first.get(topic), state.starts.get(topic))
    return [each for each in known if each]


def _is_known(state: ArchivedTopics, held: Offsets, topic: str) -> bool:
    return bool(_known(state, held, topic))


def _known_offset(state: ArchivedTopics, held: Offsets, topic: str, n: int) -> int | None:
    """Return the first offset of a partition that the lake does not have; None if the partition is
    new to the lake."""
    return next((each[n] for each in _known(state, held, topic) if n in each), None)


def _begin(
    asked: PositionReader, start: Where, topics: Sequence[str], first: Offsets, latest: Offsets
) -> Offsets:
    """Return where reading begins in topics that are new to the lake. That is not after the end that was
    read before: a topic goes on while its offsets are asked for."""
    if isinstance(start, str):
        return {topic: (first if start == "earliest" else latest)[topic] for topic in topics}
    found = asked.at(topics, start)
    return {
        topic: {n: min(at, found[topic].get(n, at)) for n, at in latest[topic].items()}
        for topic in topics
    }


def _demand_kept(wanted: Offsets, first: Offsets, end: Offsets, plan: ArchivePlan) -> None:
    """Raise SetupError if retention has deleted records that were to be read, without ``skip_lost``, or
    if a partition has become shorter."""
    shorter = [
        f"{topic}/{n} ends at {end[topic][n]}, the lake is at {at}"
        for topic, n, at in _each(wanted)
        if at > end[topic][n]
    ]
    if shorter:
        raise SetupError(
            f"a topic is shorter than what was archived of it: {'; '.join(shorter)}",
            setting="pipeline.archive.topics",
            cure="the broker lost records, or created the topic again without a new id: give the broker"
            " another name in the configuration, or take another pipeline.lake.namespace",
        )
    gone = [
        f"{topic}/{n}: offsets {at} to {first[topic][n] - 1}"
        for topic, n, at in _each(wanted)
        if at < first[topic][n]
    ]
    if gone and not plan.skip_lost:
        raise SetupError(
            f"retention dropped records before they were archived: {'; '.join(gone)}",
            setting="pipeline.archive",
            cure="archive more often or keep the topic for longer; --skip-lost continues after the gap",
        )
