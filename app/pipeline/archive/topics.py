"""The topics of a lake: the ids that each name has had, and where reading began.

Kafka gives each topic an id. A topic with another id is another topic, and its offsets begin at 0
again. So its records are stored under a name of their own (``orders@2``) and read from the earliest
one.

Ids and first offsets seldom change. They are in a property of ``events_raw`` for each broker. How far
the topics are copied is in the snapshots of that table (``progress``).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

import msgspec

from app.pipeline import history, tables
from app.pipeline.archive import commit, progress
from app.pipeline.archive.progress import Progress
from app.pipeline.settings import Lake

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TopicIds = Mapping[str, tuple[str, ...]]
"""The ids that each topic name has had, from the oldest to the current one."""

_PROPERTY: Final = "skybridge.archive."


class ArchivedTopics(msgspec.Struct, frozen=True, omit_defaults=True):
    """The topics of one broker.

    Attributes:
        ids: The ids that each topic has had.
        first: The first offset that is read of each partition of the current topic.
        starts: In lakes of earlier versions: the same, or a later offset from which reading went on.
        erased: In lakes of earlier versions: up to where the lake had records before erasures, by the
            values of the column ``topic``.
    """

    ids: dict[str, tuple[str, ...]] = {}
    first: dict[str, dict[int, int]] = {}
    starts: dict[str, dict[int, int]] = {}
    erased: dict[str, dict[int, int]] = {}

    @property
    def names(self) -> dict[str, str]:
        """Return the value of the column ``topic`` for the current topic of each name."""
        return {topic: tables.stored_topic(topic, len(each)) for topic, each in self.ids.items()}

    def with_current(self, current: Mapping[str, str]) -> ArchivedTopics:
        """Return the state with the current ids as the last of their topics. Offsets of topics that
        were created again are left out."""
        again, ids = renewed(self.ids, current), dict(self.ids)
        for topic, each in current.items():
            if ids.get(topic, ())[-1:] != (each,):
                ids[topic] = (*ids.get(topic, ()), each)
        return msgspec.structs.replace(
            self, ids=ids, first=_without(self.first, again), starts=_without(self.starts, again)
        )


def _without(offsets: Mapping[str, dict[int, int]], gone: list[str]) -> dict[str, dict[int, int]]:
    return {topic: each for topic, each in offsets.items() if topic not in gone}


def renewed(known: TopicIds, current: Mapping[str, str]) -> list[str]:
    """Return the topics whose current id is not the one that the lake knows."""
    return [topic for topic, each in current.items() if (known.get(topic) or (each,))[-1] != each]


def states(loaded: Any) -> dict[str, ArchivedTopics]:
    """Return the topics of each broker, from the loaded table ``events_raw``."""
    return {
        name.removeprefix(_PROPERTY): msgspec.json.decode(text, type=ArchivedTopics)
        for name, text in dict(loaded.properties()).items()
        if name.startswith(_PROPERTY)
    }


def keep(loaded: Any, broker: str, state: ArchivedTopics) -> None:
    """Store the topics of a broker in the loaded table ``events_raw``."""
    text = msgspec.json.encode(state).decode()
    loaded.updateProperties().set(_PROPERTY + broker, text).commit()


def first_offsets(loaded: Any) -> Progress:
    """Return the first offset of each partition, by the values of the column ``topic``."""
    return {
        broker: {state.names.get(topic, topic): each for topic, each in state.first.items()}
        for broker, state in states(loaded).items()
    }


def copied(spark: SparkSession, lake: Lake, loaded: Any) -> Progress:
    """Return up to where the loaded table ``events_raw`` has records. The snapshots of earlier versions
    do not state it. So the rows are read that are not derived yet."""
    if (found := progress.stated(loaded)) is not None:
        return found
    done = progress.read(spark, lake.table(tables.QUARANTINE_TABLE))
    rows = spark.table(lake.table(tables.RAW_TABLE)).where(progress.beyond(done))
    erased = {broker: each.erased for broker, each in states(loaded).items()}
    return progress.merged(progress.merged(done, progress.reach(rows)), erased)


def keep_position(spark: SparkSession, lake: Lake) -> None:
    """State in a snapshot up to where ``events_raw`` has records, if none does. An erasure may remove
    the last rows, which stated it in earlier versions."""
    name = lake.table(tables.RAW_TABLE)
    loaded = history.iceberg_table(spark, name)
    if progress.stated(loaded) is None:
        commit.append(spark, name, [], copied(spark, lake, loaded))
