"""Publishers of numbered events, and the judgement on what a broker that died has kept of them."""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict
from collections.abc import Sequence
from itertools import pairwise

from app.bindings.record import Record
from app.brokers.portable import PortableLog
from app.errors import BrokerUnavailable
from app.model.receipt import Receipt
from pulsar_readback import Stored


def record(key: str, body: str) -> Record:
    return Record(key.encode(), (("ce_id", body.encode()),), body.encode())


class Sender:
    """One key, one event at a time, as a client that repeats what was answered 503."""

    def __init__(self, log: PortableLog, topic: str, key: str) -> None:
        self.acknowledged: list[str] = []
        self.refused: dict[str, tuple[float, float]] = {}  # when submitted, and when answered
        self._log = log
        self._topic = topic
        self.key = key
        self.stopping = False

    async def run(self) -> None:
        number = 0
        while not self.stopping:
            for attempt in range(1_000):
                body = f"{self.key}:{number:06d}:{attempt:04d}"
                began = time.monotonic()
                (result,) = await self._log.submit(self._topic, [record(self.key, body)])
                if isinstance(result, Receipt):
                    self.acknowledged.append(body)
                    break
                assert isinstance(result, BrokerUnavailable), result
                self.refused[body] = began, time.monotonic()
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


def verify(
    senders: Sequence[Sender],
    stored: Sequence[Stored],
    outages: Sequence[tuple[float, float]],
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
        for body, (submitted, answered) in sender.refused.items():
            in_outage = any(a < submitted and answered < b for a, b in outages)
            assert not (in_outage and body in there), "it was sent after it was refused"
