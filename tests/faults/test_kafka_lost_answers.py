"""Answers of Kafka that are lost, cut off or late: no acknowledged event is lost, and what is not stored for certain is
never called so."""

from __future__ import annotations

import asyncio
import random
import struct
from collections import Counter, defaultdict, deque
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import pytest

from app.brokers.kafka import open_log
from app.brokers.portable import PublishBounds
from app.errors import PublishUnknown
from broker_senders import Sender, progress
from free_ports import free_ports
from kafka_librdkafka import Stored, make_topic, read_back
from kafka_server import KafkaServer

pytestmark = [pytest.mark.nightly, pytest.mark.kafka, pytest.mark.fault]

PRODUCE = 0
PUBLISH, REQUEST = 2.0, 3.0  # seconds: time-outs of an event and of a request
LATE, NEVER = 2.5, 3600.0  # seconds: after the first time-out, and after both
EVENTS = 4_000
HARMED = 0.15  # of the requests

QUICK = ("unsent", "unanswered", "half")
SLOW = ("late", "never")


class FaultyRelay:
    """A relay in front of a broker that harms Produce requests at random.

    Attributes:
        kinds: The faults, of which each harmed request gets one, in turn. ``unsent``: the connection ends before the request is
            passed on. ``unanswered``: it ends before the answer is passed on. ``half``: it ends in the middle of the
            answer. ``late`` and ``never``: the answer comes after so many seconds.
        harmed: The number of harmed requests by kind.
    """

    def __init__(self, port: int, upstream: int, kinds: Sequence[str], seed: int) -> None:
        self.kinds = kinds
        self.harmed: Counter[str] = Counter()
        self._port, self._upstream = port, upstream
        self._chance = random.Random(seed)
        self._tasks: set[asyncio.Task[None]] = set()

    @asynccontextmanager
    async def running(self) -> AsyncIterator[FaultyRelay]:
        server = await asyncio.start_server(self._serve, "127.0.0.1", self._port)
        try:
            yield self
        finally:
            server.close()
            for task in self._tasks:
                task.cancel()

    async def _serve(self, client: asyncio.StreamReader, to_client: asyncio.StreamWriter) -> None:
        broker, to_broker = await asyncio.open_connection("127.0.0.1", self._upstream)
        fates: deque[str] = deque()
        both = {
            asyncio.create_task(self._requests(client, to_broker, fates)),
            asyncio.create_task(self._answers(broker, to_client, fates)),
        }
        self._tasks |= both
        await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
        for task in both:
            task.cancel()
        self._tasks -= both
        to_client.transport.abort()
        to_broker.transport.abort()

    async def _requests(
        self, client: asyncio.StreamReader, to_broker: asyncio.StreamWriter, fates: deque[str]
    ) -> None:
        async for frame in _frames(client):
            fate = self._fate() if struct.unpack_from(">h", frame, 4)[0] == PRODUCE else ""
            if fate == "unsent":
                return
            fates.append(fate)
            to_broker.write(frame)

    async def _answers(
        self, broker: asyncio.StreamReader, to_client: asyncio.StreamWriter, fates: deque[str]
    ) -> None:
        async for frame in _frames(broker):
            match fates.popleft():
                case "unanswered":
                    return
                case "half":
                    to_client.write(frame[: len(frame) // 2])
                    await to_client.drain()
                    return
                case "late":
                    await asyncio.sleep(LATE)
                case "never":
                    await asyncio.sleep(NEVER)
            to_client.write(frame)

    def _fate(self) -> str:
        if not self.kinds or self._chance.random() > HARMED:
            return ""
        fate = self.kinds[self.harmed.total() % len(self.kinds)]
        self.harmed[fate] += 1
        return fate


async def _frames(source: asyncio.StreamReader) -> AsyncIterator[bytes]:
    """Yield the frames of one direction, with their lengths."""
    try:
        while True:
            length = await source.readexactly(4)
            yield length + await source.readexactly(struct.unpack(">i", length)[0])
    except (asyncio.IncompleteReadError, ConnectionError):
        return


@pytest.mark.parametrize(
    ("kinds", "events", "seed"), [(QUICK, EVENTS, 1), (QUICK, EVENTS, 2), (SLOW, EVENTS // 10, 1)]
)
async def test_lost_answers_lose_nothing_and_repeat_nothing(
    kafka: str, kinds: Sequence[str], events: int, seed: int
) -> None:
    """Rules 1 and 9. A batch whose answer is lost at once is sent again with its number, so it is stored once. An event
    that was called unavailable without doubt is not stored."""
    del kafka  # skips or fails where there is none
    (relayed,) = free_ports(1)
    server = KafkaServer({"advertised.listeners": f"PLAINTEXT://127.0.0.1:{relayed}"})
    await asyncio.to_thread(server.start)
    try:
        relay = FaultyRelay(relayed, server.port, (), seed)
        async with relay.running():
            address, topic = f"127.0.0.1:{relayed}", "t"
            await asyncio.to_thread(make_topic, address, topic, 4)
            senders = await _publish(address, topic, relay, kinds, events)
            stored = await asyncio.to_thread(read_back, address, topic)
    finally:
        await asyncio.to_thread(server.stop)
    assert set(relay.harmed) == set(kinds), "the faults were too few"
    _verify(senders, stored, repeats=kinds is SLOW)


async def _publish(
    address: str, topic: str, relay: FaultyRelay, kinds: Sequence[str], events: int
) -> list[Sender]:
    log = open_log(
        name="kafka",
        bootstrap_servers=address,
        request_timeout=REQUEST,
        bounds=PublishBounds(publish_timeout=PUBLISH),
    )
    await log.start()
    senders = [Sender(log, topic, f"key-{number}") for number in range(16)]
    relay.kinds = kinds
    tasks = [asyncio.create_task(sender.run()) for sender in senders]
    await progress(senders, by=events)
    for sender in senders:
        sender.stopping = True
    await asyncio.gather(*tasks)
    relay.kinds = ()
    await log.stop()
    assert log.stats().records_in_flight == 0
    return senders


def _verify(senders: Sequence[Sender], stored: Sequence[Stored], *, repeats: bool) -> None:
    times = Counter(row.body for row in stored)
    acknowledged = {body for sender in senders for body in sender.acknowledged}
    assert acknowledged <= set(times), "lost"
    refused = {body: each.result for sender in senders for body, each in sender.refused.items()}
    certain = [body for body, why in refused.items() if not isinstance(why, PublishUnknown)]
    assert not set(certain) & set(times), "called unavailable, and stored"
    print(f"{len(acknowledged)} acknowledged, {len(refused)} refused, {len(stored)} stored")
    if not repeats:
        assert set(times.values()) == {1}, "stored twice"
    firsts: dict[str, list[str]] = defaultdict(list)
    for row in sorted(stored, key=lambda row: (row.partition, row.offset)):
        if row.body not in firsts[row.body[:6]]:
            firsts[row.body[:6]].append(row.body)
    assert all(bodies == sorted(bodies) for bodies in firsts.values()), "out of order"
