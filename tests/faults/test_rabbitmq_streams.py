"""Streams through a SIGKILL of the broker: what was settled stays settled, the rest comes, in order."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from uuid import uuid4

import pytest

from amqp_writing import at_exchange
from app.bindings.record import Record
from app.brokers.portable import PortableLog, PublishBounds
from app.brokers.rabbitmq import open_log, producer
from app.errors import BrokerUnavailable
from app.model.receipt import Receipt
from app.model.start import EARLIEST
from app.store import SqlStore
from contract_tools import Member, fresh_group, until_healthy
from rabbitmq_harness import bind, until_there
from rabbitmq_server import RabbitServer
from store_samples import opened_store
from waiting import until

pytestmark = [pytest.mark.nightly, pytest.mark.rabbitmq, pytest.mark.fault]

KEYS = 8


@pytest.fixture(autouse=True)
def _always_at_the_door(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let in as soon as the server lets anybody in, when its streams have no leaders yet."""
    monkeypatch.setattr(producer, "LONGEST_DELAY", 0.1)


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[SqlStore]:
    async with opened_store(tmp_path) as store:
        yield store


async def opened(server: RabbitServer, store: SqlStore, **settings: float) -> PortableLog:
    log = open_log(
        name="rabbit",
        addresses=server.address,
        kind="stream",
        offsets=store.offsets,
        bounds=PublishBounds(publish_timeout=1.5),
        **settings,
    )
    await log.start()
    return log


class Sender:
    """One key, one event at a time, each again until it is acknowledged."""

    def __init__(self, log, topic: str, key: str) -> None:
        self.acknowledged: list[bytes] = []
        self.stopping = False
        self._log, self._topic, self._key = log, topic, key

    async def run(self) -> None:
        while not self.stopping:
            body = f"{self._key}:{len(self.acknowledged):06d}".encode()
            (result,) = await self._log.submit(self._topic, [Record(self._key.encode(), (), body)])
            if isinstance(result, Receipt):
                self.acknowledged.append(body)
            else:
                assert isinstance(result, BrokerUnavailable), result
                await asyncio.sleep(0.1)


@pytest.mark.parametrize("kills", [1, pytest.param(3, marks=pytest.mark.nightly)])
async def test_acknowledged_events_are_delivered_in_order_through_kills(
    own_rabbitmq: RabbitServer, store: SqlStore, kills: int
) -> None:
    """Reliability R2 and R20 on streams, to the end of the way: a member polls and settles all the while."""
    log = await opened(own_rabbitmq, store, balance_interval=0.1)
    topic, group = f"t-{uuid4().hex[:12]}", fresh_group()
    await log.create_topic(topic, 2)
    await asyncio.to_thread(own_rabbitmq.remember)
    member = Member(await log.subscribe(group, [topic], EARLIEST))
    senders = [Sender(log, topic, f"key-{number}") for number in range(KEYS)]
    tasks = [asyncio.create_task(sender.run()) for sender in senders]

    def acknowledged() -> set[bytes]:
        for task in tasks:
            if task.done():
                task.result()  # a sender that met what no client of ours may meet
        return {body for sender in senders for body in sender.acknowledged}

    for _ in range(kills):
        goal = len(acknowledged()) + 150
        await until(
            lambda goal=goal: len(acknowledged()) >= goal, moved=lambda: len(acknowledged())
        )
        await asyncio.to_thread(own_rabbitmq.kill)
        await asyncio.sleep(2.0)  # the outage outlasts the publish time-out
        assert not (await log.health()).healthy
        await asyncio.to_thread(own_rabbitmq.restart)
        for number in range(2):
            await until_there(own_rabbitmq.address, f"{topic}.{number}")
        before = len(acknowledged())
        await until(lambda before=before: len(acknowledged()) > before)
        await until_healthy(log)
    goal = len(acknowledged()) + 150
    await until(lambda: len(acknowledged()) >= goal, moved=lambda: len(acknowledged()))
    for sender in senders:
        sender.stopping = True
    await asyncio.gather(*tasks)
    await until(
        lambda: acknowledged() <= {m.record.body for m in member.messages},
        moved=lambda: len(member.messages),
    )
    verify_order(member)
    await member.close()
    lags = (await log.metadata([topic], {group: [topic]})).groups
    assert [lag.lag for lag in lags] == [0, 0], "every place is kept"
    await log.stop()


@pytest.mark.parametrize("kills", [1, pytest.param(2, marks=pytest.mark.nightly)])
async def test_an_exchange_of_others_is_not_refused_while_its_stream_comes_back(
    own_rabbitmq: RabbitServer, store: SqlStore, kills: int
) -> None:
    """The server lets us in, and returns for a moment what goes there: no fault of the sender's."""
    log = await opened(own_rabbitmq, store)
    topic = f"t-{uuid4().hex[:12]}"
    await log.create_topic(topic, 1)
    await bind(own_rabbitmq.address, f"{topic}.0", "amq.topic", topic)
    await asyncio.to_thread(own_rabbitmq.remember)
    sender = Sender(log, at_exchange("amq.topic", topic), "k")
    sending = asyncio.create_task(sender.run())
    for _ in range(kills):
        await asyncio.to_thread(own_rabbitmq.kill)
        await asyncio.to_thread(own_rabbitmq.restart)
        await until_there(own_rabbitmq.address, f"{topic}.0")
        before = len(sender.acknowledged)
        await until(lambda before=before: sending.done() or len(sender.acknowledged) > before)
    sender.stopping = True
    await sending
    await log.stop()


def verify_order(member: Member) -> None:
    for number in range(KEYS):
        key = f"key-{number}".encode()
        got = list(dict.fromkeys(m.record.body for m in member.messages if m.record.key == key))
        assert got == sorted(got)
