"""Members come and go all the time (reliability R13)."""

from __future__ import annotations

import asyncio
from pathlib import Path
from random import Random

from app.bindings.record import Record
from app.brokers.embedded import open_log
from app.brokers.portable import PortableLog
from app.model.message import Message, Partition
from app.model.receipt import Receipt
from app.model.start import EARLIEST
from patience import PATIENT

TOPIC = "t"
GROUP = "g"
EVENTS = 600
KEYS = 20


class Worker:
    """Polls, holds each message for a moment, checks its lease, then settles."""

    def __init__(self, log: PortableLog, seen: list[Message]) -> None:
        self._log = log
        self._seen = seen
        self._leaving = False
        self._task = asyncio.create_task(self._run())

    async def _run(self) -> None:
        consumer = await self._log.subscribe(GROUP, [TOPIC], EARLIEST)
        while not self._leaving:
            event = await consumer.poll(0.05)
            if not isinstance(event, tuple):
                continue
            for message in event:
                if consumer.holds(message):
                    self._seen.append(message)
                    await consumer.settle([message])
                if self._leaving:
                    break
                await asyncio.sleep(0)
        await consumer.close()

    async def leave(self) -> None:
        self._leaving = True
        await self._task


async def publish_all(log: PortableLog, sent: dict[tuple[Partition, int], bytes]) -> None:
    for number in range(EVENTS):
        key, body = b"%d" % (number % KEYS), b"%d" % number
        (result,) = await log.submit(TOPIC, [Record(key, (), body)])
        assert isinstance(result, Receipt)
        sent[Partition(TOPIC, result.partition), int(result.position)] = body


async def test_nothing_is_lost_or_stuck_while_members_come_and_go(tmp_path: Path) -> None:
    """Every event is seen, in order per key within each ownership, and the lag ends at zero."""
    random = Random(13)
    log = open_log(name="log", path=tmp_path, partitions=6, bounds=PATIENT)
    await log.start()
    seen: list[Message] = []
    sent: dict[tuple[Partition, int], bytes] = {}
    publishing = asyncio.create_task(publish_all(log, sent))
    workers = [Worker(log, seen)]
    for _ in range(25):
        if len(workers) > 1 and random.random() < 0.5:
            await workers.pop(random.randrange(len(workers))).leave()
        else:
            workers.append(Worker(log, seen))
        await asyncio.sleep(random.random() * 0.03)
    await publishing
    async with asyncio.timeout(180):
        while {(m.partition, m.offset) for m in seen} != set(sent):
            await asyncio.sleep(0.01)
    await asyncio.gather(*(worker.leave() for worker in workers))
    lags = (await log.metadata([TOPIC], {GROUP: [TOPIC]})).groups
    await log.stop()
    assert [lag.lag for lag in lags] == [0] * 6
    assert all(sent[m.partition, m.offset] == m.record.body for m in seen)
    owned: dict[tuple[Partition, int], list[int]] = {}
    for message in seen:
        owned.setdefault((message.partition, message.epoch), []).append(message.offset)
    assert all(offsets == sorted(set(offsets)) for offsets in owned.values())
    for place in {message.partition for message in seen}:
        epochs = [m.epoch for m in seen if m.partition == place]
        assert epochs == sorted(epochs), "an older owner went on after a newer one"
