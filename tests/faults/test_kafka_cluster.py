"""Three Kafka nodes, and the leader dies: acks=all keeps its word, and acks=1 cannot.

The second is the control run: if it lost nothing, the first would prove nothing (reliability R1). Both are
of one death, each on a topic of its own that the same node leads.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import AsyncExitStack
from typing import Literal
from uuid import uuid4

import pytest

from app.bindings.record import Record
from app.brokers.kafka import open_log
from app.brokers.portable import PortableLog, PublishBounds
from app.errors import BrokerError
from app.model.receipt import Receipt
from app.model.start import EARLIEST
from contract_tools import fresh_group, take
from kafka_cluster import KafkaCluster
from kafka_librdkafka import read_back

pytestmark = [
    pytest.mark.nightly,
    pytest.mark.kafka,
    pytest.mark.fault,
    pytest.mark.usefixtures("patient_probes"),
]

NOT_THERE = "there is no such topic, and none is created"
BEFORE, AFTER = 50, 50  # events on every replica, and more while the followers stand still
TURNS = 3
LEADER, FOLLOWERS = 1, (2, 3)
ASKED = 6  # how often each question is put: that no draw meets the dead node has odds of 1 to 1,000
PATIENT = 60.0


@pytest.fixture(scope="module")
def started_cluster(kafka: str) -> Iterator[KafkaCluster]:
    """``kafka`` skips or fails where there is none to be had."""
    cluster = KafkaCluster()
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.stop()


@pytest.fixture
def cluster(started_cluster: KafkaCluster) -> KafkaCluster:
    """All of its nodes are up when a test begins."""
    started_cluster.revive()
    return started_cluster


class Opened(AsyncExitStack):
    """Logs on the cluster, stopped in the end."""

    def __init__(self, cluster: KafkaCluster) -> None:
        super().__init__()
        self._servers = cluster.bootstrap_servers

    async def log(self, acks: Literal["all", 1], publish_timeout: float = PATIENT) -> PortableLog:
        bounds = PublishBounds(publish_timeout=publish_timeout)
        log = open_log(name="three", bootstrap_servers=self._servers, acks=acks, bounds=bounds)
        await log.start()
        self.push_async_callback(log.stop)
        return log


async def until_led_by_another(log: PortableLog, topic: str) -> None:
    async with asyncio.timeout(240):
        while True:
            found = await log.metadata([topic])
            leader = found.topics[0].partitions[0].leader if found.topics else None
            if leader not in {None, LEADER}:
                return
            await asyncio.sleep(0.1)


async def publish(log: PortableLog, topic: str, numbers: range) -> list[str]:
    """The bodies that were acknowledged."""
    bodies = [f"{number:04d}" for number in numbers]
    records = [Record(b"k", (), body.encode()) for body in bodies]
    results = await log.submit(topic, records)
    assert all(isinstance(result, Receipt | BrokerError) for result in results)
    return [body for body, result in zip(bodies, results, strict=True) if type(result) is Receipt]


async def lose_the_leader(
    cluster: KafkaCluster,
) -> tuple[list[str], set[str], list[str], set[str]]:
    """The followers stand still, events are published, the leader is killed, the followers wake up
    and one of them leads. What was acknowledged and what is there in the end: by acks=all, by acks=1.
    """
    strict, loose = (f"{acks}-{uuid4().hex[:8]}" for acks in ("all", "one"))
    for topic in (strict, loose):
        cluster.topic(topic, LEADER)
    async with Opened(cluster) as opened:
        safe, one = await opened.log("all"), await opened.log(1)
        impatient = await opened.log("all", 2.0)
        by_all = await publish(safe, strict, range(BEFORE))
        by_one = await publish(safe, loose, range(BEFORE))
        assert len(by_all) == len(by_one) == BEFORE
        await publish(one, loose, range(-1, 0))  # they know their topics from now on
        await publish(impatient, strict, range(-1, 0))
        for topic in (strict, loose):
            await asyncio.to_thread(cluster.until_in_sync, topic)
        with cluster.standing_still(FOLLOWERS):
            await publish(one, loose, range(-2, -1))  # answers the fetches that are already asked
            await publish(impatient, strict, range(-2, -1))
            more = range(BEFORE, BEFORE + AFTER)
            by_one += await publish(one, loose, more)
            by_all += await publish(impatient, strict, more)
            cluster.nodes[LEADER].kill()
        for topic in (strict, loose):
            await until_led_by_another(safe, topic)
    alive = ",".join(cluster.nodes[number].bootstrap_servers for number in FOLLOWERS)
    kept = [await asyncio.to_thread(read_back, alive, topic) for topic in (strict, loose)]
    by_topic = [{each.body for each in found} for found in kept]
    return by_all, by_topic[0], by_one, by_topic[1]


async def test_nothing_acknowledged_by_all_is_lost_with_the_leader_and_by_one_it_is(
    cluster: KafkaCluster,
) -> None:
    """Rule 1: 202 means that the in-sync replicas have it. With the followers asleep nothing more is
    acknowledged, however long the leader itself has it on its disk.

    The control: relaxed durability does lose, so the claim can fail. A busy leader may put what comes after
    the followers fell asleep into answers they had asked for before: then once more."""
    for _ in range(TURNS):
        await asyncio.to_thread(cluster.revive)
        by_all, kept_by_all, by_one, kept_by_one = await lose_the_leader(cluster)
        assert not set(by_all) - kept_by_all, "acknowledged and lost"
        assert len(by_all) == BEFORE, "none could be acknowledged by replicas that stood still"
        assert len(by_one) == BEFORE + AFTER, "the leader answers for itself"
        lost = set(by_one) - kept_by_one
        assert lost <= set(by_one[BEFORE:])
        if lost:
            return
    pytest.fail("the control shows nothing")


async def test_one_dead_node_of_three_keeps_no_question_from_its_answer(
    cluster: KafkaCluster,
) -> None:
    """The client draws a node to ask, and would give up where it drew the dead one: readiness, the
    topics page and new subscriptions would fail one time in three (R20)."""
    asked = f"asked-{uuid4().hex[:8]}"
    async with Opened(cluster) as opened:
        log = await opened.log("all")
        cluster.topic(asked)
        await publish(log, asked, range(3))
        cluster.nodes[3].kill()
        for _ in range(ASKED):
            found = await log.metadata([asked])
            assert [topic.name for topic in found.topics] == [asked]
            assert await log.check_targets([asked, "missing"]) == {"missing": NOT_THERE}
            assert (await log.health()).healthy
        for number in range(3):
            await log.create_topic(f"made-{number}", 1)


async def test_who_reads_goes_on_with_whoever_leads_now(cluster: KafkaCluster) -> None:
    """A fetch was waiting at the leader when it died. Nobody is told, nothing is missing or comes twice."""
    topic = f"read-{uuid4().hex[:8]}"
    cluster.topic(topic, LEADER)
    async with Opened(cluster) as opened:
        log = await opened.log("all")
        consumer = await log.subscribe(fresh_group(), [topic], EARLIEST)
        opened.push_async_callback(consumer.close)
        before = await publish(log, topic, range(BEFORE))
        messages = await take(consumer, BEFORE)
        await asyncio.to_thread(cluster.until_in_sync, topic)
        cluster.nodes[LEADER].kill()
        await until_led_by_another(log, topic)
        after = await publish(log, topic, range(BEFORE, BEFORE + AFTER))
        messages += await take(consumer, AFTER)
    assert [(message.record.body or b"").decode() for message in messages] == before + after
