"""Where the copy of a topic begins, without Spark: no record is left out, and a topic may go on meanwhile."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

import pytest

from app.errors import SetupError
from app.pipeline import history
from app.pipeline.archive import copying, topics
from app.pipeline.archive.copying import CopyRange
from app.pipeline.archive.job import ArchiveJob, ArchivePlan
from app.pipeline.archive.topics import ArchivedTopics
from app.pipeline.settings import Lake
from app.spark import positions
from app.spark.positions import Where
from app.spark.settings import KafkaPlace, LakeCatalog
from app.spark.source import Offsets

LAKE = Lake(LakeCatalog("hadoop", "", "file:///lake"))
NOTHING: Any = None


class Broker:
    """A topic that gets 5 records in each partition between two questions. It loses as many if
    ``drops``, and gets a partition if ``grows``."""

    partitions, asked, drops, grows = 1, 0, False, False

    def at(self, names: Sequence[str], where: Where) -> Offsets:
        self.asked += 1
        self.partitions += self.grows
        end = 100 + 5 * self.asked
        at = end if where != "earliest" else 5 * self.asked if self.drops else 10
        return {name: dict.fromkeys(range(self.partitions), at) for name in names}


class House:
    """A lake, of which only the positions are kept."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.broker, self.state = Broker(), ArchivedTopics()
        self.copied: Mapping[str, Offsets] = {}
        monkeypatch.setattr(history, "iceberg_table", lambda *_: NOTHING)
        monkeypatch.setattr(topics, "states", lambda _: {"main": self.state})
        monkeypatch.setattr(topics, "copied", lambda *_: self.copied)
        monkeypatch.setattr(topics, "keep", self._keep)
        monkeypatch.setattr(positions, "topic_ids", lambda *_: {"orders": "id"})
        monkeypatch.setattr(positions, "open_positions", self._open)

    def _keep(self, _loaded: Any, _broker: str, state: ArchivedTopics) -> None:
        self.state = state

    @contextmanager
    def _open(self, *_: Any) -> Iterator[Broker]:
        yield self.broker

    def next(self, start: Where) -> CopyRange:
        plan = ArchivePlan(place=KafkaPlace("main", ""), topics=("orders",), start=start)
        found = copying.next_range(ArchiveJob(NOTHING, LAKE, plan, NOTHING))
        self.copied = {"main": found.stored(found.end)}
        return found


@pytest.fixture
def house(monkeypatch: pytest.MonkeyPatch) -> House:
    return House(monkeypatch)


@pytest.mark.parametrize(
    ("start", "begin"),
    [("earliest", 10), ("latest", 110), (datetime(2999, 1, 1, tzinfo=UTC), 110)],
)
def test_a_topic_goes_on_while_its_offsets_are_read(house: House, start: Where, begin: int) -> None:
    """The archive once ended with "a topic is shorter than what was archived of it"."""
    found = house.next(start)
    assert (found.start, found.end) == ({"orders": {0: begin}}, {"orders": {0: 110}})


def test_retention_goes_on_while_offsets_are_read(house: House) -> None:
    house.broker.drops = True
    assert house.next("earliest").size == 105


def test_a_partition_is_added_while_offsets_are_read(house: House) -> None:
    """A partition of Pulsar is made by its first message."""
    house.broker.grows = True
    assert [*house.next("earliest").start["orders"]] == [0, 1]


@pytest.mark.parametrize("start", ["earliest", "latest"])
def test_a_partition_that_is_added_to_a_topic_is_read_from_its_first_record(
    house: House, start: Where
) -> None:
    """``archive.start`` is for topics that are new to the lake. The records of a new partition that
    came before the archive saw it are of a topic that the lake knows."""
    house.next(start)
    house.broker.partitions = 2
    assert house.next(start).start["orders"][1] == 10


def test_a_topic_that_is_shorter_than_the_lake_is_refused(house: House) -> None:
    house.copied = {"main": {"orders": {0: 500}}}
    with pytest.raises(SetupError, match="shorter"):
        house.next("earliest")
