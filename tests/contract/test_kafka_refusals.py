"""What a real Kafka refuses for good: each record of a batch has its own fate, and the fault says what to do."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from uuid import uuid4

import pytest
from aiokafka.admin import AIOKafkaAdminClient, NewTopic

from app.bindings.record import Record
from app.brokers.kafka import errors, produce_request
from app.brokers.portable import PortableLog, PublishBounds
from app.errors import BrokerRefused, UnclearRefusal
from app.interfaces import PublishResult
from app.model.message import Partition
from app.model.receipt import Receipt
from contract_tools import PATIENCE, bodies, publish, running
from kafka_harness import open_calm_log

pytestmark = pytest.mark.kafka

INVALID_RECORD, INVALID_TIMESTAMP = 87, 32


@pytest.fixture
def codes() -> list[int]:
    """Error codes that Kafka answered to wire batches."""
    return []


@pytest.fixture
async def log(kafka: str, codes: list[int]) -> AsyncIterator[PortableLog]:
    log = open_calm_log(name="main", bootstrap_servers=kafka, refused=codes.append)
    async with running(log) as log:
        yield log


async def made(kafka: str, log: PortableLog, partitions: int = 1, **settings: str) -> str:
    name = f"t-{uuid4().hex[:12]}"
    configs = {setting.replace("_", "."): value for setting, value in settings.items()}
    admin = AIOKafkaAdminClient(bootstrap_servers=kafka)
    await admin.start()
    try:
        await admin.create_topics([NewTopic(name, partitions, 1, topic_configs=configs)])
    finally:
        await admin.close()
    await log.create_topic(name, partitions)  # returns when it is seen
    return name


def record(body: str, key: bytes | None = b"k") -> Record:
    return Record(key, (), body.encode())


def kinds(results: list[PublishResult]) -> str:
    """A letter a record: stored, refused, or what else."""
    return "".join(
        "s" if isinstance(each, Receipt) else "r" if isinstance(each, BrokerRefused) else "?"
        for each in results
    )


async def stored(log: PortableLog, topic: str) -> list[bytes]:
    async with asyncio.timeout(PATIENCE):
        return bodies([each async for each in log.read(Partition(topic, 0), "0")])


@pytest.mark.parametrize("words", [True, False])
async def test_only_the_records_without_a_key_are_refused_by_a_compacted_topic(
    kafka: str, log: PortableLog, codes: list[int], monkeypatch: pytest.MonkeyPatch, words: bool
) -> None:
    """Kafka refuses the whole batch. Since version 8 of Produce it names the records; a broker that has no such
    version is sent less and less at once."""
    if not words:
        monkeypatch.setattr(produce_request, "NEWEST", 7)
    topic = await made(kafka, log, cleanup_policy="compact")
    records = [record(f"{n}", None if n in {3, 7} else b"k") for n in range(11)]
    results = await log.submit(topic, records)
    assert kinds(results) == "sssrsssrsss"
    assert await stored(log, topic) == [b"%d" % n for n in range(11) if n not in {3, 7}]
    for refused in (results[3], results[7]):
        assert isinstance(refused, BrokerRefused)
        assert (refused.kind, refused.of_record, refused.broker) == ("rejected", True, "main")
        for word in (topic, "INVALID_RECORD", "key of the route", "cleanup.policy"):
            assert word in str(refused)
    assert set(codes) == {INVALID_RECORD}
    assert len(codes) == 1 or not words, "the broker names them at once"


async def test_a_record_that_is_refused_does_not_hold_up_its_topic(
    kafka: str, log: PortableLog
) -> None:
    topic = await made(kafka, log, cleanup_policy="compact")
    pending = [log.submit(topic, [record(f"{n}", b"k" if n % 5 else None)]) for n in range(60)]
    async with asyncio.timeout(PATIENCE):
        results = [(await each)[0] for each in pending]
    assert kinds(results) == "rssss" * 12


async def test_a_time_outside_the_bounds_of_the_topic_is_refused(
    kafka: str, log: PortableLog
) -> None:
    topic = await made(kafka, log, message_timestamp_before_max_ms="0")
    async with asyncio.timeout(PATIENCE):
        while True:  # a record that arrives within its millisecond is stored
            (result,) = await log.submit(topic, [record("late")])
            if not isinstance(result, Receipt):
                break
    assert isinstance(result, BrokerRefused)
    assert result.kind == "rejected"
    for word in (topic, "INVALID_TIMESTAMP", "clocks"):
        assert word in str(result)


async def test_a_record_larger_than_its_topic_takes_is_refused_as_too_large(
    kafka: str, log: PortableLog
) -> None:
    topic = await made(kafka, log, max_message_bytes="2000")
    results = await log.submit(topic, [record("a"), record("x" * 5_000), record("b")])
    assert kinds(results) == "srs"
    assert isinstance(results[1], BrokerRefused)
    assert results[1].kind == "record-too-large"
    assert topic in str(results[1])
    assert "max.message.bytes" in str(results[1])


class TestACodeThatTheTableDoesNotHave:
    @pytest.fixture(autouse=True)
    def _unlisted(self, monkeypatch: pytest.MonkeyPatch) -> None:
        table = {code: row for code, row in errors.CODES.items() if code != INVALID_RECORD}
        monkeypatch.setattr(errors, "CODES", table)

    async def test_a_record_that_fails_alone_is_refused_once_the_topic_took_others(
        self, kafka: str, log: PortableLog, codes: list[int]
    ) -> None:
        topic = await made(kafka, log, cleanup_policy="compact")
        bad = record("bad", None)
        for _ in range(2):
            (result,) = await log.submit(topic, [bad])
            assert isinstance(result, UnclearRefusal), "nothing was stored meanwhile"
            assert result.retryable
        assert "error code 87" in str(result)
        await publish(log, topic, [record("good")])
        (result,) = await log.submit(topic, [bad])
        assert isinstance(result, BrokerRefused)
        assert result.of_record
        assert topic in str(result)
        assert codes == [INVALID_RECORD] * 3

    async def test_among_others_each_record_has_its_own_fate(
        self, kafka: str, log: PortableLog
    ) -> None:
        topic = await made(kafka, log, cleanup_policy="compact")
        records = [record(f"{n}", None if n == 5 else b"k") for n in range(9)]
        assert kinds(await log.submit(topic, records)) == "sssssrsss"

    async def test_where_the_topic_takes_nothing_all_may_come_again(
        self, kafka: str, log: PortableLog, codes: list[int]
    ) -> None:
        """A fault of the topic is no fault of 200 records, and is not found out 200 times."""
        topic = await made(kafka, log, cleanup_policy="compact")
        results = await log.submit(topic, [record(f"{n}", None) for n in range(200)])
        assert {type(each) for each in results} == {UnclearRefusal}
        assert len(codes) < 20


async def test_a_topic_that_is_deleted_refuses_nobody_for_good(kafka: str) -> None:
    """An operator makes it again: the events are kept by who sent them."""
    log = open_calm_log(
        name="main", bootstrap_servers=kafka, bounds=PublishBounds(publish_timeout=2.0)
    )
    async with running(log) as log, asyncio.timeout(PATIENCE):
        topic = await made(kafka, log)
        await log.submit(topic, [record("before")])
        admin = AIOKafkaAdminClient(bootstrap_servers=kafka)
        await admin.start()
        await admin.delete_topics([topic])
        await admin.close()
        while True:
            (result,) = await log.submit(topic, [record("after")])
            if isinstance(result, BrokerRefused):
                break
            assert isinstance(result, Receipt) or result.retryable
        assert log.stats().records_in_flight == 0, "the client let go of what it held for the topic"
    assert (result.kind, result.of_record) == ("unknown-topic", False)
    assert topic in str(result)
