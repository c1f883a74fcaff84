"""Every pair of logs, source to sink: the corpus passes with nothing changed but what is declared."""

from __future__ import annotations

import asyncio
import contextlib
import random
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from app.bindings.record import Record
from app.bindings.transcode import EncodeOptions
from app.brokers import embedded, kafka, pulsar, rabbitmq
from app.brokers.portable import PortableLog, PublishBounds
from app.filters.selection import Selection
from app.interfaces.clock import SystemClock
from app.model.message import Message
from app.model.receipt import Receipt
from app.model.start import EARLIEST
from app.model.subscription import Subscription
from app.sinks.topic import TopicSink
from app.telemetry import Counters
from app.worker.attempts import AttemptLog
from app.worker.components import Components
from app.worker.dispatch import Dispatcher
from contract_tools import take
from memory_store import MemoryStore
from mirror_corpus import KINDS, assert_mirrored, in_order, is_refused, sent_to

pytestmark = pytest.mark.nightly

WITHIN = 240.0  # seconds for one pair
PATIENT = 120.0  # seconds for one answer: what is published twice because a broker stalled is no fault of a pair
BOUNDS = PublishBounds(publish_timeout=PATIENT)
PARTITIONS = 3
MODES = ("as_received", "binary")
NEEDS = {
    "embedded": (),
    "kafka": (pytest.mark.kafka,),
    "rabbitmq": (pytest.mark.rabbitmq,),
    "pulsar": (pytest.mark.pulsar,),
}
SHORT = {
    ("embedded", "kafka", "as_received"),
    ("kafka", "rabbitmq", "binary"),
    ("rabbitmq", "pulsar", "as_received"),
    ("pulsar", "embedded", "binary"),
}
"""Each source, each target and each mode; all pairs are long."""
PAIRS = [
    pytest.param(
        *(source, target, mode),
        marks=[
            *(NEEDS[source] + NEEDS[target]),
            *([] if (source, target, mode) in SHORT else [pytest.mark.nightly]),
        ],
        id=f"{source}-{target}-{mode}",
    )
    for source in KINDS
    for target in KINDS
    for mode in MODES
]
SENT = {kind: sent_to(kind) for kind in KINDS}


@pytest.fixture
async def log_of(
    request: pytest.FixtureRequest, tmp_path: Path
) -> AsyncIterator[Callable[[str], Any]]:
    """Started logs by their kind: one a kind, on the run's servers."""
    logs: dict[str, PortableLog] = {}

    def opened(kind: str) -> PortableLog:
        match kind:
            case "embedded":
                settings = {"path": tmp_path / "log", "partitions": PARTITIONS}
                return embedded.open_log(name=kind, bounds=BOUNDS, **settings)
            case "kafka":
                settings = {"request_timeout": WITHIN, "session_timeout": PATIENT}
                servers = request.getfixturevalue("kafka")
                return kafka.open_log(
                    name=kind, bootstrap_servers=servers, bounds=BOUNDS, **settings
                )
            case "rabbitmq":
                settings = {"request_timeout": WITHIN, "heartbeat": 120, "balance_interval": 0.1}
                address = request.getfixturevalue("rabbitmq")
                return rabbitmq.open_log(name=kind, addresses=address, bounds=BOUNDS, **settings)
            case _:
                settings = {"send_timeout": PATIENT, "operation_timeout": PATIENT}
                service_url, admin_url = request.getfixturevalue("pulsar")
                return pulsar.open_log(
                    name=kind,
                    service_url=service_url,
                    admin_url=admin_url,
                    bounds=BOUNDS,
                    connect_timeout=PATIENT,
                    **settings,
                )

    async def log(kind: str) -> PortableLog:
        if kind not in logs:
            logs[kind] = opened(kind)
            await logs[kind].start()
        return logs[kind]

    yield log
    for each in logs.values():
        await each.stop()


async def a_topic(log: PortableLog, name: str) -> str:
    """Ready to be published to: each of its partitions has a leader."""
    topic = f"{name}-{uuid4().hex[:12]}"
    await log.create_topic(topic, PARTITIONS)
    async with asyncio.timeout(WITHIN):
        while not await _led(log, topic):
            await asyncio.sleep(0.01)
    return topic


async def _led(log: PortableLog, topic: str) -> bool:
    found = (await log.metadata([topic])).topics
    leaders = [each.leader for each in found[0].partitions] if found else []
    return len(leaders) == PARTITIONS and None not in leaders


@contextlib.asynccontextmanager
async def mirroring(
    source: PortableLog, topic: str, target: PortableLog, copy: str, mode: str
) -> AsyncIterator[tuple[Dispatcher, Counters, MemoryStore]]:
    """A dispatcher from one topic to the other, as the supervisor would run it."""
    subscription = Subscription.model_validate(
        {
            "id": f"m-{uuid4().hex[:12]}",
            "source": {"broker": source.name, "topics": [topic]},
            "start": "earliest",
            "sink": {"broker": target.name, "topic": copy},
            "content_mode": mode,
        }
    )
    assert not isinstance(subscription.sink, str)
    counters, store = Counters(), MemoryStore()
    dispatcher = Dispatcher(
        Components(
            subscription,
            source,
            store,
            TopicSink(subscription.sink, subscription, target, target.name, within=PATIENT),
            SystemClock(),
            group=f"skybridge.pairs.{subscription.id}",
            attempts=AttemptLog(subscription.id, counters),
            selection=Selection(subscription.filters),
            kind=source.name,
            jitter=random.random,
        )
    )
    running = asyncio.create_task(dispatcher.run())
    try:
        yield dispatcher, counters, store
    finally:
        await dispatcher.stop(60.0)
        await running


@pytest.mark.parametrize(("source", "target", "mode"), PAIRS)
async def test_a_pair_carries_the_corpus(
    log_of: Callable[[str], Any], source: str, target: str, mode: str
) -> None:
    """K11, I3, rule 3: the same events, keys and foreign headers; order per key; each of them once."""
    sent, writing = SENT[source], EncodeOptions(mode=mode)  # type: ignore[arg-type]
    there, here = await log_of(source), await log_of(target)
    topic, copy = await a_topic(there, "source"), await a_topic(here, "copy")
    await publish(there, topic, [each.record for each in sent])
    refused = sum(is_refused(each, target, writing) for each in sent)
    async with mirroring(there, topic, here, copy, mode) as (dispatcher, counters, store):
        await finished(dispatcher, counters, len(sent))
    causes = [(letter.cause, letter.detail) for letter in store.letters.rows]
    assert [cause for cause, _ in causes] == ["unwritable"] * refused, causes
    messages = await read(here, copy, len(sent) - refused)
    assert_mirrored(sent, [each.record for each in messages], source, target, writing)
    partitions: dict[int, list[Record]] = defaultdict(list)
    for each in messages:
        partitions[each.partition.number].append(each.record)
    assert all(in_order(records) for records in partitions.values())


async def publish(log: PortableLog, topic: str, records: list[Record]) -> None:
    """One submit: records of one key are stored in their order."""
    results = await log.submit(topic, records)
    assert [each for each in results if not isinstance(each, Receipt)] == []


async def finished(dispatcher: Dispatcher, counters: Counters, count: int) -> None:
    """Until so many messages are finished, one way or another."""
    deadline = time.monotonic() + WITHIN
    while (done := sum(counters.values().get("deliveries", {}).values())) < count:
        assert time.monotonic() < deadline, f"{done} of {count}: {dispatcher.status()}"
        await asyncio.sleep(0.01)


async def read(log: PortableLog, topic: str, count: int) -> list[Message]:
    consumer = await log.subscribe(f"reader-{uuid4().hex[:12]}", [topic], EARLIEST)
    try:
        return await take(consumer, count, within=WITHIN)
    finally:
        await consumer.close()
