"""Publishers of numbered events, and the check of what a broker has stored after it was killed."""

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
from app.model.metadata import LogHealth
from app.model.receipt import Receipt
from app.model.start import EARLIEST
from contract_tools import fresh_group, publish, take, text
from pulsar_readback import StoredMessage
from waiting import until

OVERHEAD = 30.0  # seconds that busy cores may add to the publish time-out


def record(key: str, body: str) -> Record:
    return Record(key.encode(), (("ce_id", body.encode()),), body.encode())


def now_ms() -> int:
    """Return the wall-clock time in milliseconds since 1970, as brokers give the time of a record."""
    return time.time_ns() // 1_000_000


class Refused(NamedTuple):
    """An event that the log did not accept, with the times of its submission and answer by
    ``now_ms``.
    """

    result: PublishResult
    submitted: int
    answered: int


class Sender:
    """A publisher of the events of one key. It sends one event at a time, and repeats the event until the log
    accepts it."""

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


class UnconfirmedSender(Sender):
    """A publisher that counts an event as acknowledged once sent. This is the control of a test: ``verify`` must
    find that events of this publisher are lost."""

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


async def assert_works(log: PortableLog) -> None:
    """Assert that the admin client, the producer and the consumer of a log can all connect and do
    their work.
    """
    assert await log.health() == LogHealth(healthy=True, cause="")
    topic = await make_topic(log, 2)
    await publish(log, topic, [text("x" * 300_000, "k")])
    consumer = await log.subscribe(fresh_group(), [topic], EARLIEST)
    (message,) = await take(consumer, 1)
    assert message.record.body == b"x" * 300_000
    await consumer.close()


def assert_refused_alone(results: Sequence[PublishResult], place: int) -> None:
    """Assert that the record at index ``place`` was refused as too large, and that all others were
    stored.
    """
    refused = [n for n, result in enumerate(results) if not isinstance(result, Receipt)]
    assert refused == [place]
    too_large = results[place]
    assert isinstance(too_large, BrokerRefused)
    assert too_large.kind == "record-too-large"


async def progress(senders: Sequence[Sender], by: int) -> None:
    """Wait until the senders together have ``by`` more acknowledged events.

    Raises:
        TimeoutError: No event was acknowledged for 240 s.
    """

    def count() -> int:
        return sum(len(sender.acknowledged) for sender in senders)

    wanted = count() + by
    await until(lambda: count() >= wanted, within=240.0, moved=count)


async def until_stored(log: PortableLog, topic: str, keys: int = 1) -> None:
    """Wait until the log accepts an event of every key again. Several keys reach several partitions."""
    probes = [record(f"probe-{number}", "probe") for number in range(keys)]

    async def stored() -> bool:
        return all(isinstance(each, Receipt) for each in await log.submit(topic, probes))

    await until(stored, "every key stored", turn=0.05)


def verify(
    senders: Sequence[Sender],
    stored: Sequence[StoredMessage],
    outages: Sequence[tuple[int, int]],
) -> None:
    """Raise AssertionError if an acknowledged event is lost, a key is out of order, or a refused
    event was sent later.

    Args:
        senders: The publishers, with what they sent.
        stored: All records that the broker has.
        outages: Start and end of each time without a running server, by ``now_ms``.
    """
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
