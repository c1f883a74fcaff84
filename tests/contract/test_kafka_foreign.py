"""What others put into a topic of Kafka: records that no client library would write, transactions."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from uuid import uuid4

import pytest
from aiokafka import AIOKafkaProducer

import kafka_raw
from app.bindings import kafka as binding
from app.bindings.record import Record
from app.brokers.portable import PortableLog
from app.errors import BrokerRefused
from app.model.message import Message, Partition
from app.model.start import EARLIEST
from contract_tools import PATIENCE, assigned, bodies, fresh_group, publish, running, take, text
from kafka_harness import open_calm_log

pytestmark = [pytest.mark.nightly, pytest.mark.kafka]

EVENT = (("ce_specversion", b"1.0"), ("ce_id", b"1"), ("ce_source", b"/s"), ("ce_type", b"t"))
NAMED = "\udcff\udcfe\udcfdb"  # as we have the name b"\xff\xfe\xfdb"


@pytest.fixture
async def log(kafka: str) -> AsyncIterator[PortableLog]:
    async with running(open_calm_log(name="kafka", bootstrap_servers=kafka)) as log:
        yield log


async def everything(log: PortableLog, topic: str) -> list[Message]:
    async with asyncio.timeout(PATIENCE):
        return [message async for message in log.read(Partition(topic, 0), "0")]


class TestAHeaderNameThatIsNotUtf8:
    ODD = Record(b"k", (*EVENT, ("bbbb", b"odd")), b"odd one")

    async def _with_an_odd_one(self, kafka: str, log: PortableLog, topic: str) -> None:
        await publish(log, topic, [text("before", "k")])
        raw = kafka_raw.batch([self.ODD], (b"bbbb", b"\xff\xfe\xfdb"))
        await kafka_raw.produce(kafka, topic, raw)
        await publish(log, topic, [text("after", "k")])

    async def test_it_is_handed_out_and_its_partition_goes_on(
        self, kafka: str, log: PortableLog, topic: str
    ) -> None:
        """aiokafka would raise at it for ever (reliability 5.1): one record of somebody else's, and
        nothing of that partition is ever delivered again."""
        await self._with_an_odd_one(kafka, log, topic)
        consumer = await log.subscribe(fresh_group(), [topic], EARLIEST)
        messages = await take(consumer, 3)
        await consumer.close()
        assert bodies(messages) == [b"before", b"odd one", b"after"]
        assert messages[1].record.headers == (*EVENT, (NAMED, b"odd"))

    async def test_reading_without_a_group_shows_it_too(
        self, kafka: str, log: PortableLog, topic: str
    ) -> None:
        """Peek, tail and replay are how an operator finds out what stands there."""
        await self._with_an_odd_one(kafka, log, topic)
        assert bodies(await everything(log, topic)) == [b"before", b"odd one", b"after"]

    async def test_on_an_event_it_is_a_foreign_header_and_kafka_cannot_be_given_it_again(
        self, kafka: str, log: PortableLog, topic: str
    ) -> None:
        """The event is delivered all the same (I3). A mirror to Kafka is told that it does not fit: the
        client writes no such names, and under another one it would be somebody else's header."""
        await self._with_an_odd_one(kafka, log, topic)
        odd = (await everything(log, topic))[1].record
        decoded = binding.decode(odd)
        assert decoded.event.attributes["id"] == "1"
        assert decoded.foreign == ((NAMED, b"odd"),)
        (result,) = await log.submit(topic, [odd])
        assert isinstance(result, BrokerRefused)
        assert result.kind == "unwritable"


class TestTransactions:
    async def _transact(self, kafka: str, topic: str, outcomes: str) -> None:
        """One transaction for each letter: "c" commits, "a" aborts."""
        producer = AIOKafkaProducer(
            bootstrap_servers=kafka, transactional_id=f"tx-{uuid4().hex[:12]}"
        )
        await producer.start()
        for number, outcome in enumerate(outcomes):
            await producer.begin_transaction()
            for _ in range(3):
                await producer.send_and_wait(topic, b"%d%s" % (number, outcome.encode()))
            if outcome == "c":
                await producer.commit_transaction()
            else:
                await producer.abort_transaction()
        await producer.stop()

    async def test_what_was_taken_back_is_never_delivered(
        self, kafka: str, log: PortableLog, topic: str
    ) -> None:
        """Its producer said that it never happened; the client's own default delivers it."""
        await self._transact(kafka, topic, "cac")
        consumer = await log.subscribe(fresh_group(), [topic], EARLIEST)
        assert bodies(await take(consumer, 6)) == [b"0c"] * 3 + [b"2c"] * 3
        assert await consumer.poll(0.3) is None
        await consumer.close()

    async def test_reading_ends_where_only_aborted_records_are_left(
        self, kafka: str, log: PortableLog, topic: str
    ) -> None:
        """Else a replay or a peek would wait for an event that never comes."""
        await self._transact(kafka, topic, "ca")
        assert bodies(await everything(log, topic)) == [b"0c"] * 3

    async def test_an_open_transaction_is_delivered_when_it_is_committed(
        self, kafka: str, log: PortableLog, topic: str
    ) -> None:
        """In the order of the log, once it is known: whoever began at latest before that misses none."""
        producer = AIOKafkaProducer(
            bootstrap_servers=kafka, transactional_id=f"tx-{uuid4().hex[:12]}"
        )
        await producer.start()
        await producer.begin_transaction()
        await producer.send_and_wait(topic, b"open")
        consumer = await log.subscribe(fresh_group(), [topic], EARLIEST)
        await assigned(consumer)
        assert await consumer.poll(0.5) is None
        assert await everything(log, topic) == []
        await producer.commit_transaction()
        assert bodies(await take(consumer, 1)) == [b"open"]
        await consumer.close()
        await producer.stop()
