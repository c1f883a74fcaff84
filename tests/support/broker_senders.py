"""Publishers of numbered events, and the judgement on what a broker that died has kept of them."""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict
from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple
from uuid import uuid4

from app.bindings.record import Record
from app.brokers.portable import PortableLog
from app.errors import BrokerRefused, BrokerUnavailable
from app.interfaces import PublishResult
from app.model.metadata import Health
from app.model.receipt import Receipt
from app.model.start import EARLIEST
from contract_tools import fresh_group, publish, take, text
from pulsar_readback import Stored
from waiting import until

HEALED_WITHIN = 120.0  # seconds after the broker is up: reliability R1, on a busy machine
OVERHEAD = 30.0  # seconds that busy cores may add to the publish time-out


def record(key: str, body: str) -> Record:
    return Record(key.encode(), (("ce_id", body.encode()),), body.encode())


def now_ms() -> int:
    """The wall clock, as brokers tell it of a record."""
    return time.time_ns() // 1_000_000


class Refused(NamedTuple):
    """Times by ``now_ms``."""

    result: PublishResult
    submitted: int
    answered: int


class Sender:
    """One key, one event at a time, as a client that repeats what was answered 503."""

    def __init__(self, log: PortableLog, topic: str, key: str) -> None:
        self.acknowledged: list[str] = []
        self.refused: dict[str, Refused] = {}
        self._log = log
        self._topic = topic
        self.key = key
        self.stopping = False

    async def run(self) -> None:
        number = 0
        while not self.stopping:
            for attempt in range(1_000):
                body = f"{self.key}:{number:06d}:{attempt:04d}"
                began = now_ms()
                (result,) = await self._log.submit(self._topic, [record(self.key, body)])
                if isinstance(result, Receipt):
                    self.acknowledged.append(body)
                    break
                assert isinstance(result, BrokerUnavailable), result
                self.refused[body] = Refused(result, began, now_ms())
                await asyncio.sleep(0.1)
            number += 1


class Careless(Sender):
    """The control: takes an event for stored when it has left, and asks for no answer."""

    async def run(self) -> None:
        number = 0
        while not self.stopping:
            body = f"{self.key}:{number:06d}:{0:04d}"
            self._log.submit(self._topic, [record(self.key, body)])
            self.acknowledged.append(body)
            await asyncio.sleep(0.01)
            number += 1


async def make_topic(log: PortableLog, partitions: int = 4) -> str:
    topic = f"t-{uuid4().hex[:12]}"
    await log.create_topic(topic, partitions)
    return topic


async def works(log: PortableLog) -> None:
    """Admin, producer and consumer: three clients of their own, each of which has to get in."""
    assert await log.health() == Health(healthy=True, cause="")
    topic = await make_topic(log, 2)
    await publish(log, topic, [text("x" * 300_000, "k")])
    consumer = await log.subscribe(fresh_group(), [topic], EARLIEST)
    (message,) = await take(consumer, 1)
    assert message.record.body == b"x" * 300_000
    await consumer.close()


def assert_refused_alone(results: Sequence[PublishResult], place: int) -> None:
    """The record at ``place`` is too large, and its neighbours are no culprits."""
    refused = [n for n, result in enumerate(results) if not isinstance(result, Receipt)]
    assert refused == [place]
    too_large = results[place]
    assert isinstance(too_large, BrokerRefused)
    assert too_large.kind == "record-too-large"


async def progress(senders: Sequence[Sender], by: int) -> None:
    """Until so many more are acknowledged."""

    def count() -> int:
        return sum(len(sender.acknowledged) for sender in senders)

    wanted = count() + by
    await until(lambda: count() >= wanted, within=240.0)


async def until_stored(log: PortableLog, topic: str, within: float, keys: int = 1) -> float:
    """Seconds until the log takes an event of every key again: many keys, for every partition."""
    began = time.monotonic()
    probes = [record(f"probe-{number}", "probe") for number in range(keys)]
    while time.monotonic() < began + within:
        results = await log.submit(topic, probes)
        if all(isinstance(result, Receipt) for result in results):
            return time.monotonic() - began
        await asyncio.sleep(0.05)
    raise AssertionError(f"not everything was accepted within {within} s: {results}")


def verify(
    senders: Sequence[Sender],
    stored: Sequence[Stored],
    outages: Sequence[tuple[int, int]],
) -> None:
    """Raises AssertionError. ``outages``: from when to when no server ran."""
    arrivals: dict[str, list[str]] = defaultdict(list)
    for each in stored:
        if each.body != "probe" and each.body not in arrivals[each.key]:
            arrivals[each.key].append(each.body)
    for sender in senders:
        there = arrivals[sender.key]
        assert set(sender.acknowledged) <= set(there), "an acknowledged event is lost"
        late = [(first, then) for first, then in pairwise(there) if first > then]
        assert not late, f"the order of a key is broken: {late}"
        for body, (_, submitted, answered) in sender.refused.items():
            in_outage = any(a < submitted and answered < b for a, b in outages)
            assert not (in_outage and body in there), "it was sent after it was refused"
