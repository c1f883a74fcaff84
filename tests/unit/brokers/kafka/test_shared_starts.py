"""Positions of subscriptions that join a shared group."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest
from aiokafka import TopicPartition

from app.brokers.driver import JoinRequest
from app.brokers.kafka import shared_starts
from app.brokers.kafka.shared_starts import SharedStarts
from app.errors import BrokerUnavailable
from app.interfaces import Commit, Progress
from app.model.message import Partition
from app.model.start import EARLIEST
from memory_tables import OffsetRows, ProgressRows

AT, KAFKA_AT = Partition("orders", 0), TopicPartition("orders", 0)


class Cluster:
    """A cluster with one partition, whose end is 10, and whose groups the test decides."""

    def __init__(self) -> None:
        self.own: dict[str, Commit] = {}
        self.members: set[str] = set()
        self.answers = asyncio.Event()
        self.answers.set()
        self.asked = asyncio.Event()

    async def ensure(self, _topics: Sequence[str]) -> None: ...

    async def places(self, _topics: Sequence[str]) -> list[TopicPartition]:
        self.asked.set()
        await self.answers.wait()
        return [KAFKA_AT]

    async def groups(self) -> set[str]:
        return {*self.own, *self.members}

    async def is_empty(self, group: str) -> bool:
        return group not in self.members

    async def commits(self, group: str) -> dict[TopicPartition, Commit]:
        return {KAFKA_AT: self.own[group]} if group in self.own else {}


@pytest.fixture
def store() -> ProgressRows:
    return ProgressRows(OffsetRows())


@pytest.fixture
def cluster() -> Cluster:
    return Cluster()


@pytest.fixture
def starts(cluster: Cluster, store: ProgressRows, monkeypatch: pytest.MonkeyPatch) -> SharedStarts:
    async def resolve(self: SharedStarts, places: object, start: object) -> dict[Partition, int]:
        return {AT: 10}

    monkeypatch.setattr(shared_starts.SharedStarts, "_resolve", resolve)
    return SharedStarts("kafka", cluster, store)  # type: ignore[arg-type]


def joining(group: str) -> JoinRequest:
    return JoinRequest(group, ["orders"], EARLIEST, shared="shared")


async def test_a_new_subscription_begins_at_its_start(starts: SharedStarts) -> None:
    assert await starts.begin("shared", joining("a")) == {AT: Progress(10, "", True)}


async def test_a_subscription_takes_over_the_commits_of_its_own_group(
    starts: SharedStarts, cluster: Cluster
) -> None:
    """The finished ranges in the metadata of the commit move too."""
    cluster.own["a"] = Commit(3, "f1:2-4")
    assert await starts.begin("shared", joining("a")) == {AT: Progress(3, "f1:2-4", True)}


async def test_a_group_with_members_is_not_taken_over(
    starts: SharedStarts, cluster: Cluster, store: ProgressRows
) -> None:
    """Another worker may still deliver from it. Other subscriptions that join at the same time are not affected."""
    cluster.members.add("a")
    refused, begun = await asyncio.gather(
        starts.begin("shared", joining("a")),
        starts.begin("shared", joining("b")),
        return_exceptions=True,
    )
    assert isinstance(refused, BrokerUnavailable)
    assert begun == {AT: Progress(10, "", True)}
    assert await store.find("kafka", ["a"]) == {}


async def test_a_subscription_that_has_ended_gets_no_rows(
    starts: SharedStarts, cluster: Cluster, store: ProgressRows
) -> None:
    """It may run in a group of its own by then, and rows would move it back at its next start."""
    cluster.answers.clear()
    ending = asyncio.create_task(starts.begin("shared", joining("a")))
    await cluster.asked.wait()
    ending.cancel()
    other = asyncio.create_task(starts.begin("shared", joining("b")))
    await asyncio.wait({ending})
    cluster.answers.set()
    await other
    assert await store.find("kafka", ["a", "b"]) == {"b": {AT: Progress(10, "", True)}}


async def test_a_subscription_that_was_moved_away_gets_no_rows_of_added_partitions(
    starts: SharedStarts, store: ProgressRows
) -> None:
    """Another worker has deleted its rows. It would receive the whole topic again. A subscription that has rows of other
    partitions begins at the earliest record of the added one."""
    await store.begin("kafka", "shared", {"a": {Partition("orders", 1): Commit(3)}})
    gone = await starts.begin_partitions("shared", lambda: ["a", "moved"], [AT])
    assert gone == ["moved"]
    assert (await store.find("kafka", ["a"]))["a"][AT] == Progress(10, "", True)
    assert await store.find("kafka", ["moved"]) == {}
