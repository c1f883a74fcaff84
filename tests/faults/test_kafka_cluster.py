"""Three Kafka nodes, and one of them dies: questions are answered, and readers go on.

What is lost with a leader that is cut off, with ``acks=all`` and with ``acks=1``, is in ``tests/proof/test_scenarios.py``.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import AsyncExitStack
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

pytestmark = [
    pytest.mark.nightly,
    pytest.mark.kafka,
    pytest.mark.fault,
    pytest.mark.usefixtures("patient_probes"),
]

NOT_THERE = "there is no such topic, and none is created"
BEFORE, AFTER = 50, 50  # events
LEADER = 1
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

    async def log(self) -> PortableLog:
        bounds = PublishBounds(publish_timeout=PATIENT)
        log = open_log(name="three", bootstrap_servers=self._servers, acks="all", bounds=bounds)
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


async def test_one_dead_node_of_three_keeps_no_question_from_its_answer(
    cluster: KafkaCluster,
) -> None:
    """The client draws a node to ask, and would give up where it drew the dead one: readiness, the
    topics page and new subscriptions would fail one time in three (R20)."""
    asked = f"asked-{uuid4().hex[:8]}"
    async with Opened(cluster) as opened:
        log = await opened.log()
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
        log = await opened.log()
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
