"""Topics that were deleted and created again.

Kafka gives each topic an id. The lake keeps the ids that a name has had, in a property of
``events_raw``. A topic with another id is another topic, and its offsets begin at 0 again. So its
records are stored under a name of their own (``orders@2``) and read from the earliest one.

The archive looks at the ids after a batch and before it decodes the batch. If a topic was created
again in between, records of the new topic may already be in ``events_raw`` under the name of the
old one. They can only be among the records that are not decoded yet. They are removed, and then
read again under their own name.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Final

from app.errors import BrokerUnavailable, SkybridgeError
from app.pipeline import history, tables
from app.pipeline.archive import progress
from app.pipeline.archive.progress import Progress
from app.spark import positions, source
from app.spark.source import Offsets

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from app.pipeline.settings import Lake
    from app.spark.settings import KafkaPlace, PulsarPlace

TopicIds = Mapping[str, tuple[str, ...]]
"""The ids that each topic name has had, from the oldest to the current one."""

_SAME: Final = ("partition", "offset", "record_time", "key", "value")
"""The columns by which a row of the lake and a record of the broker are the same."""


class ArchiveFailed(SkybridgeError):
    """The error for a stream that ended with an error. The committed records are in the lake, and
    the next run copies the others."""


class TopicsRenewed(SkybridgeError):
    """The error for topics that were created again while the archive read them."""


def renewed(known: TopicIds, current: Mapping[str, str]) -> list[str]:
    """Return the topics whose current id is not the one that the lake knows."""
    return [topic for topic, each in current.items() if (known.get(topic) or (each,))[-1] != each]


def with_current(known: TopicIds, current: Mapping[str, str]) -> dict[str, tuple[str, ...]]:
    """Return the known ids with the current ones as the last of their topics."""
    found = dict(known)
    for topic, each in current.items():
        before = known.get(topic, ())
        found[topic] = before if before[-1:] == (each,) else (*before, each)
    return found


def stored_names(ids: TopicIds) -> dict[str, str]:
    """Return the value of the column ``topic`` for the current topic of each name."""
    return {topic: tables.stored_topic(topic, len(each)) for topic, each in ids.items()}


@contextmanager
def demanding_same_topics(
    spark: SparkSession, place: KafkaPlace | PulsarPlace, known: TopicIds
) -> Iterator[None]:
    """Raise TopicsRenewed after the block if a topic was created again by then. The stream may have
    failed for that reason.
    """

    def check() -> None:
        if names := renewed(known, positions.topic_ids(spark, place, list(known))):
            raise TopicsRenewed(f"topics were created again: {', '.join(names)}")

    try:
        yield
    except ArchiveFailed:
        with suppress(BrokerUnavailable):  # the first error matters
            check()
        raise
    check()


def remove_misplaced(
    spark: SparkSession,
    lake: Lake,
    place: KafkaPlace | PulsarPlace,
    names: Mapping[str, str],
    start: Progress,
    end: Progress,
) -> None:
    """Remove the rows of ``events_raw`` that were read from renewed topics under their old names.

    Args:
        spark: The session.
        lake: The lake.
        place: The cluster.
        names: The renewed topics, and the names of their predecessors in the column ``topic``.
        start: The start of the records that are not decoded yet.
        end: The end of these records.
    """
    with positions.open_positions(spark, place) as broker:
        first, last = (broker.at(list(names), where) for where in ("earliest", "latest"))
    table = lake.table(tables.RAW_TABLE)
    rows = spark.table(table).where(progress.between(start, end))
    for topic, stored in names.items():
        read = {
            n: tuple(
                min(max(at, progress.offset_at(each, place.broker, stored, n)), last[topic][n])
                for each in (start, end)
            )
            for n, at in first[topic].items()
        }
        lower, upper = ({topic: {n: each[at] for n, each in read.items()}} for at in (0, 1))
        if _is_empty(lower, upper):
            continue
        again = source.records(spark, place, [topic], lower, upper).select(*_SAME)
        here = rows.where((rows.broker == place.broker) & (rows.topic == stored))
        equal = [here[name].eqNullSafe(again[name]) for name in _SAME]
        found = here.join(again, equal, "left_semi").select(*tables.PLACE)
        if not found.isEmpty():
            history.delete(spark, table, found)


def _is_empty(start: Offsets, end: Offsets) -> bool:
    return all(at >= end[topic][n] for topic, each in start.items() for n, at in each.items())
