"""When a member commits, by a clock that the test moves."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from aiokafka import TopicPartition
from aiokafka.errors import KafkaError
from msgspec.structs import replace

from app.brokers.kafka import commits
from app.brokers.kafka.commits import AGAIN_AFTER, CommitScheduler
from app.brokers.kafka.ownership import OwnedPartitions
from app.brokers.kafka.settings import KafkaSettings
from app.delivery.offsets import FinishedRuns
from app.model.message import Partition

SETTINGS = KafkaSettings(name="kafka", bootstrap_servers="127.0.0.1:1", commit_interval=0.0)
HELD = {TopicPartition("orders", 0): (7, "")}


class Cluster:
    """Takes commits."""

    def __init__(self) -> None:
        self.taken: list[Any] = []
        self.came = asyncio.Event()
        self.refuses = False

    async def commit(self, offsets: Any) -> None:
        self.taken.append(offsets)
        self.came.set()
        if self.refuses:
            raise KafkaError("not now")


class Hours:
    def __init__(self) -> None:
        self.passed = 0.0

    def __call__(self) -> float:
        return self.passed * 3600


async def test_a_paused_member_writes_what_it_holds_again_once_a_day(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Rule 10: Kafka forgets positions after seven days, and then the group would begin anew."""
    monkeypatch.setattr(commits, "LOOK", 0.001)
    owned, cluster, hours = (
        OwnedPartitions(1, {Partition("orders", 0): FinishedRuns(7)}),
        Cluster(),
        Hours(),
    )
    made = CommitScheduler(cluster, "g", SETTINGS, lambda: owned, pytest.fail, hours)
    made.start()
    async with asyncio.timeout(60):
        for day in range(1, 9):
            await cluster.came.wait()
            cluster.came.clear()
            hours.passed += AGAIN_AFTER / 3600 - 0.1  # not a day yet
            for _ in range(20):
                await asyncio.sleep(0.001)
            assert cluster.taken == [HELD] * day
            hours.passed += 0.2
    await made.stop(1.0)


async def test_a_member_at_rest_commits_before_the_interval_is_over() -> None:
    """So that the lag that operators see is soon true; while a message is open it waits for more."""
    place = Partition("orders", 0)
    runs = FinishedRuns(0)
    runs.take(0)
    owned, cluster = OwnedPartitions(1, {place: runs}), Cluster()
    settings = replace(SETTINGS, commit_interval=3600.0, rest_interval=0.001)
    made = CommitScheduler(cluster, "g", settings, lambda: owned, pytest.fail, Hours())
    made.start()
    made.soon()
    for _ in range(20):
        await asyncio.sleep(0.001)
    assert cluster.taken == []
    runs.finish(0)
    async with asyncio.timeout(60):
        await cluster.came.wait()
    assert cluster.taken == [{TopicPartition("orders", 0): (1, "")}]
    await made.stop(1.0)


async def test_a_commit_that_fails_is_made_again_after_a_while(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A cluster that refuses everything is not asked at the pace of one that takes them."""
    monkeypatch.setattr(commits, "PUT_OFF", 3600.0)
    runs = FinishedRuns(0)
    runs.take(0)
    runs.finish(0)
    owned, cluster = OwnedPartitions(1, {Partition("orders", 0): runs}), Cluster()
    cluster.refuses = True
    made = CommitScheduler(cluster, "g", SETTINGS, lambda: owned, pytest.fail, Hours())
    made.start()
    made.soon()
    async with asyncio.timeout(60):
        await cluster.came.wait()
    for _ in range(20):
        await asyncio.sleep(0.001)
    assert len(cluster.taken) == 1
    cluster.refuses = False
    assert await made.now()
    await made.stop(1.0)


async def test_a_member_that_is_never_at_rest_commits_in_less_than_250_ms() -> None:
    """Less a moment for the cluster's answer: what a kill repeats is bounded so (rule 2)."""
    runs = FinishedRuns(0)
    for offset in range(1_000):
        runs.take(offset)
    owned, cluster = OwnedPartitions(1, {Partition("orders", 0): runs}), Cluster()
    settings = KafkaSettings(name="kafka", bootstrap_servers="127.0.0.1:1")
    assert settings.commit_interval <= 0.2
    made = CommitScheduler(cluster, "g", settings, lambda: owned, pytest.fail)
    made.start()
    async with asyncio.timeout(60):
        for offset in range(3):  # settling goes on while a commit is under way, and waits for none
            runs.finish(offset)
            made.soon()
            await cluster.came.wait()
            cluster.came.clear()
    assert [next(iter(each.values())) for each in cluster.taken] == [(1, ""), (2, ""), (3, "")]
    await made.stop(1.0)


async def test_a_member_that_holds_nothing_writes_nothing() -> None:
    """Also on the first look after the clock has moved."""
    cluster, hours = Cluster(), Hours()
    made = CommitScheduler(
        cluster, "g", SETTINGS, lambda: OwnedPartitions(1, {}), pytest.fail, hours
    )
    hours.passed = 100.0
    await made.now()
    assert cluster.taken == []
