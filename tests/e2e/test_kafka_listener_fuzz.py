"""The Kafka listener against frames that nobody meant: mutated from what real clients sent.

Whatever comes, other connections are served, memory stays bounded, and nothing that was stored is lost.
"""

from __future__ import annotations

import asyncio
import random
import resource
import struct
from pathlib import Path

import pytest
from aiokafka.record.util import calc_crc32c
from kio.schema.metadata.v9.request import MetadataRequest

from app.bindings.record import Record
from app.model.message import Partition
from kafka_capture import frames
from kafka_listening import KafkaTestListener, kafka_listening
from waiting import until

AT_ONCE = 16
PATIENCE = 60.0
GROWTH_KB = 200 << 10  # of the whole process: logs, clients and the fuzzer are in it too
ALL = MetadataRequest(
    topics=None,
    include_cluster_authorized_operations=False,
    include_topic_authorized_operations=False,
)
BATCH = b"\0\0\0\0\x02"  # in front of a batch's checksum: leader epoch of producers, format 2
NUMBERS = [0, 1, -1, 0x7FFFFFFF, -0x80000000, 0xFFFF, 64 << 20]


def mutated(frame: bytes, dice: random.Random) -> bytes:
    """A few changes, none of which the sender would make."""
    data = bytearray(frame)
    for _ in range(dice.choice((1, 1, 2, 5))):
        at = dice.randrange(len(data)) if data else 0
        match dice.randrange(7):
            case 0 if data:
                data[at] ^= 1 << dice.randrange(8)
            case 1 if data:
                data[at] = dice.randrange(256)
            case 2:
                data[at : at + 4] = struct.pack(">I", dice.choice(NUMBERS) & 0xFFFFFFFF)
            case 3:
                del data[at : at + dice.randrange(1, 40)]
            case 4:
                data[at:at] = dice.randbytes(dice.randrange(1, 40))
            case 5:
                del data[at:]
            case _:
                data[at:at] = data[at : at + dice.randrange(1, 60)]
    return with_checksum(bytes(data)) if dice.random() < 0.5 else bytes(data)


def with_checksum(data: bytes) -> bytes:
    """So that what is behind the checksum of a batch is looked at too."""
    at = data.find(BATCH)
    if data[:2] != b"\0\0" or at < 0 or at + 9 > len(data):
        return data
    begin = at - 12
    length = int.from_bytes(data[begin + 8 : begin + 12], "big")
    end = begin + 12 + length
    if begin < 0 or end > len(data):
        return data
    crc = calc_crc32c(data[at + 9 : end])
    return data[: at + 5] + struct.pack(">I", crc) + data[at + 9 :]


def wire(frame: bytes, dice: random.Random) -> bytes:
    """With its size, which may lie too."""
    size = len(frame)
    if dice.random() < 0.05:
        size = dice.choice((*NUMBERS, size + 1, max(0, size - 1)))
    return struct.pack(">I", size & 0xFFFFFFFF) + frame


async def throw(kafka: KafkaTestListener, stream: bytes) -> None:
    """Send, say that this is all, and read until the listener ends it."""
    client = await kafka.connect()
    try:
        async with asyncio.timeout(PATIENCE):
            client.writer.write(stream)
            client.writer.write_eof()
            while await client.reader.read(1 << 16):
                pass
    except ConnectionError:
        pass
    finally:
        await client.close()


async def served(kafka: KafkaTestListener) -> None:
    client = await kafka.connect()
    async with asyncio.timeout(PATIENCE):
        assert (await client.call(ALL)).cluster_id == kafka.engine.cluster
    await client.close()


async def fuzz(folder: Path, count: int, seed: int) -> None:
    dice = random.Random(seed)
    captured = [frame for _, frame in frames()]
    mark = [Record(b"k", (), b"kept")]
    async with kafka_listening(folder, log={"partitions": 1, "max_topics": 50}) as kafka:
        for topic in ("rd", "aio", "safe"):
            await kafka.engine.create_topic(topic, 1)
        await kafka.engine.append_to(Partition("safe", 0), mark)
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        thrown = 0
        while thrown < count:
            streams = []
            for _ in range(AT_ONCE):
                some = dice.choices(captured, k=dice.choice((1, 1, 3)))
                streams.append(b"".join(wire(mutated(each, dice), dice) for each in some))
                thrown += len(some)
            await asyncio.gather(*[throw(kafka, stream) for stream in streams])
            if dice.random() < 0.05:
                await served(kafka)
        await served(kafka)
        await until(lambda: kafka.listener.connections == 0)
        assert kafka.listener.held == 0
        assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < GROWTH_KB
        (run,) = await kafka.engine.scan(Partition("safe", 0), 0, list)
        assert run.records[0][2] == b"kept"
        errors = kafka.counters.total("kafka_refused_frames")
        assert errors > count / 10


async def test_mutated_frames_harm_nobody(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """No crash, no hang, no bug behind a frame: each is answered, or its connection closed with a reason."""
    await fuzz(tmp_path, 3_000, random.randrange(1 << 32))
    assert [r.getMessage() for r in caplog.records if r.levelname in {"ERROR", "CRITICAL"}] == []


@pytest.mark.nightly
async def test_a_hundred_thousand_mutated_frames_harm_nobody(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The same, at length."""
    for part in range(20):
        caplog.clear()
        await fuzz(tmp_path / str(part), 5_000, random.randrange(1 << 32))
        assert [
            r.getMessage() for r in caplog.records if r.levelname in {"ERROR", "CRITICAL"}
        ] == []
