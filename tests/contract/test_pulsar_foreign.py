"""What others see of what we write to Pulsar, and what they write and we read."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator

import pytest

from app.bindings import pulsar as binding
from app.bindings.record import ContentMode, Decoded
from app.bindings.transcode import PLAIN, EncodeOptions
from app.brokers.portable import PortableLog
from app.event.value import CloudEvent
from app.model.message import Message, Partition
from app.model.start import EARLIEST
from contract_tools import bodies, fresh_group, publish, take
from pulsar_harness import calm_log, open_calm_log
from pulsar_readback import run_tool, send_batch

pytestmark = [pytest.mark.nightly, pytest.mark.pulsar]

TIME = "2018-04-05T17:31:00.123Z"
TIME_MS = 1_522_949_460_123


@pytest.fixture
async def log(pulsar: tuple[str, str]) -> AsyncIterator[PortableLog]:
    async with calm_log(pulsar) as log:
        yield log


def event(data: bytes | None) -> Decoded:
    attributes = {
        "specversion": "1.0",
        "id": "grün-1",
        "source": "/shop",
        "type": "sold",
        "time": TIME,
    }
    return Decoded(CloudEvent(attributes, data), ContentMode.BINARY)


class TestAgainstPulsarsOwnTool:
    async def test_its_command_line_reads_keys_properties_payloads_and_event_time(
        self, pulsar: tuple[str, str], log: PortableLog, topic: str
    ) -> None:
        """A second opinion by Pulsar's Java client, which shares no code with ours (P1-P7)."""
        records = [
            binding.encode(event("sold: Öl".encode()), PLAIN, "Kunde-ä".encode()),
            binding.encode(event(None), EncodeOptions(empty_body="null"), b"deleted"),
            binding.encode(event(b"nobody"), PLAIN, None),
        ]
        await publish(log, topic, records)
        told = await asyncio.to_thread(consume, pulsar[0], f"{topic}-partition-0", len(records))
        assert len(told) == len(records)
        first, second, third = told
        assert "key:[Kunde-ä]" in first
        assert "content:sold: Öl" in first
        for each in ("CE-Id=grün-1", "CE-Source=/shop", "CE-Type=sold", "CE-Specversion=1.0"):
            assert each in first
        assert "key:[deleted]" in second
        assert "key:[null]" in third
        assert f"eventTime:[{TIME_MS}]" in first

    async def test_a_tombstone_travels_as_one(self, log: PortableLog, topic: str) -> None:
        """A null value is what compaction takes for a deletion; an empty one is not (``empty_body``)."""
        null = binding.encode(event(None), EncodeOptions(empty_body="null"), b"k")
        empty = binding.encode(event(None), PLAIN, b"k")
        await publish(log, topic, [null, empty])
        read = [
            message async for message in log.read(Partition(topic, 0), await beginning(log, topic))
        ]
        assert bodies(read) == [None, b""]
        assert [binding.decode(message.record).event for message in read] == [event(None).event] * 2


async def beginning(log: PortableLog, topic: str) -> str:
    return (await log.metadata([topic])).topics[0].partitions[0].earliest


def consume(service_url: str, topic: str, count: int) -> list[str]:
    """What Pulsar's command line says of each message."""
    options = ["-s", fresh_group(), "-n", str(count), "-p", "Earliest", "--print-metadata"]
    told = run_tool("PulsarClientTool", ["--url", service_url, "consume", *options, topic])
    return re.split(r"-+ got message -+\n", told)[1:]


class TestBatchesOfOthers:
    """A producer of others may batch; a message of a batch is still a message of its own (rule 2)."""

    async def test_single_ones_are_settled_and_only_the_rest_comes_back(
        self, pulsar: tuple[str, str], log: PortableLog, topic: str
    ) -> None:
        """With ``acknowledgmentAtBatchIndexLevelEnabled``, through a member that dies unheard."""
        await asyncio.to_thread(send_batch, pulsar[0], f"{topic}-partition-0", 6)
        group = fresh_group()
        dying = open_calm_log(name="pulsar", service_url=pulsar[0], admin_url=pulsar[1])
        await dying.start()
        consumer = await dying.subscribe(group, [topic], EARLIEST)
        messages = await take(consumer, 6)
        assert [m.offset for m in messages] == sorted({m.offset for m in messages})
        assert len({position_of_entry(message) for message in messages}) == 1, "it is no batch"
        await consumer.settle([messages[0], messages[3], messages[5]])
        await consumer.commit()
        await dying.driver._connection().close()  # type: ignore[attr-defined]
        again = await log.subscribe(group, [topic], EARLIEST)
        assert bodies(await take(again, 3)) == [b"1", b"2", b"4"]
        await again.close()
        await consumer.close()
        await dying.stop()
        rest = log.read(Partition(topic, 0), messages[4].position)
        assert bodies([message async for message in rest]) == [b"4", b"5"]


def position_of_entry(message: Message) -> str:
    return message.position.rpartition(":")[0]
