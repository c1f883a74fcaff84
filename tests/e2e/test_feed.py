"""The real feed through the whole bridge: 329 GitHub payloads, three ways in, three places out."""

from __future__ import annotations

import asyncio
import os
import uuid
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import pytest
from aiokafka import AIOKafkaConsumer, TopicPartition

from app.bindings import kafka as kafka_binding
from app.bindings.record import ContentMode, Decoded, Record
from app.cli.client import EventsClient, Mode, encode
from app.cli.feed import github_feed
from app.cli.receiver import Arrival, Receiver, Reply
from app.errors import SetupError
from app.event.value import CloudEvent
from app.gateway.server import HttpServer
from configuration import Settings, configuration, route, subscription
from service import running
from skipping import skip_or_fail

COUNT = 329  # payloads of the package
BATCH = 20  # events
PARTITIONS = 8
ARRIVE_WITHIN = 240.0  # seconds
SERVERS = Path(__file__).parents[2] / ".servers"

pytestmark = pytest.mark.kafka


class Form(NamedTuple):
    """How events are posted, how they lie in the logs, how they are delivered."""

    sent: Mode
    stored: str
    delivered: str


FORMS = [
    Form("binary", "binary", "binary"),
    Form("structured", "as_received", "structured"),
    Form("batch", "structured", "binary"),
]
IN_GATE = {"binary", "batch"}


class Webhook:
    """Keeps what arrives, in its order, by path."""

    def __init__(self) -> None:
        self.arrivals: dict[str, list[Arrival]] = {"/from-log": [], "/from-kafka": []}
        self.changed = asyncio.Event()

    def answer(self, arrival: Arrival) -> Reply:
        self.arrivals[arrival.path].append(arrival)
        self.changed.set()
        return Reply(204)

    async def all(self, count: int) -> None:
        async with asyncio.timeout(ARRIVE_WITHIN):
            while any(len(found) < count for found in self.arrivals.values()):
                self.changed.clear()
                await self.changed.wait()


@pytest.fixture(scope="module")
def feed() -> list[CloudEvent]:
    """The payloads; what is missing skips on a laptop and fails where CI=true promises it."""
    environ = {"SKYBRIDGE_CACHE": str(SERVERS), **os.environ}
    try:
        return github_feed(environ, "2026-11-21T00:00:00Z").events
    except SetupError as missing:
        skip_or_fail(missing)


@pytest.fixture
async def webhook() -> AsyncIterator[tuple[Webhook, str]]:
    kept = Webhook()
    server = HttpServer(Receiver(kept.answer))
    await server.start()
    yield kept, server.url
    await server.stop()


def test_the_package_holds_the_payloads_it_is_known_for(feed: Sequence[CloudEvent]) -> None:
    """A feed that shrank would make every other claim here smaller."""
    assert len(feed) == COUNT
    assert len({event.id for event in feed}) == COUNT
    assert len({event.attributes.get("partitionkey") for event in feed}) > 10


@pytest.mark.parametrize(
    "form",
    [
        pytest.param(form, id=form.sent, marks=() if form.sent in IN_GATE else pytest.mark.nightly)
        for form in FORMS
    ],
)
async def test_every_payload_arrives_everywhere_unchanged_and_in_order(
    form: Form,
    feed: list[CloudEvent],
    kafka: str,
    webhook: tuple[Webhook, str],
    tmp_path: Path,
) -> None:
    """What is acknowledged is in the embedded log, in a real Kafka topic and at both webhooks, each
    with the very bytes that were sent, in the order of its repository."""
    kept, url = webhook
    name = f"feed-{form.sent}-{uuid.uuid4().hex[:8]}"
    settings = _settings(tmp_path, form, name=name, kafka=kafka, webhook=url)
    async with running(settings, tmp_path) as service:
        documents = await _post(feed, form, f"{service.events_url}/events")
        await kept.all(COUNT)
        embedded = await service.records(name, PARTITIONS)
    in_kafka = await _records(kafka, name)
    for records in (embedded, in_kafka):
        _check_records(records, feed, form, documents)
    for arrivals in kept.arrivals.values():
        _check_arrivals(arrivals, feed)


def _settings(folder: Path, form: Form, *, name: str, kafka: str, webhook: str) -> Settings:
    """Events go to the embedded log and to Kafka, and from each to its path of the webhook."""
    to = [{"broker": broker, "topic": name} for broker in ("log", "main")]
    mode = form.delivered
    return configuration(
        folder,
        installation=name,
        brokers={"main": {"kind": "kafka", "bootstrap_servers": kafka, "topics": {"create": True}}},
        routes=[route(to=to, content_mode=form.stored, key={"mapper": "partitionkey"})],
        subscriptions=[
            {**subscription("from-log", f"{webhook}/from-log", name), "content_mode": mode},
            {
                **subscription("from-kafka", f"{webhook}/from-kafka", name, broker="main"),
                "content_mode": mode,
            },
        ],
        log={"level": "warning"},
    )


async def _post(feed: Sequence[CloudEvent], form: Form, url: str) -> Mapping[str, bytes]:
    """One request after another. In structured mode: the document posted for each id."""
    events = [Decoded(event, ContentMode.BINARY) for event in feed]
    client = EventsClient(url)
    try:
        size = BATCH if form.sent == "batch" else 1
        for first in range(0, len(events), size):
            fates = await client.send(events[first : first + size], form.sent)
            assert all(fate.accepted for fate in fates), fates
            assert all(len(fate.receipts) == 2 for fate in fates)
    finally:
        await client.close()
    if form.sent != "structured":
        return {}
    return {each.event.id: encode([each], "structured").body for each in events}


async def _records(bootstrap: str, topic: str) -> list[Record]:
    """All of a topic by a plain Kafka client, partition after partition."""
    consumer = AIOKafkaConsumer(
        topic, bootstrap_servers=bootstrap, auto_offset_reset="earliest", group_id=None
    )
    await consumer.start()
    try:
        places = sorted(consumer.assignment())
        assert len(places) == PARTITIONS
        ends = await consumer.end_offsets(places)
        found: dict[TopicPartition, list[Record]] = {place: [] for place in places}
        async with asyncio.timeout(ARRIVE_WITHIN):
            while any(len(found[place]) < ends[place] for place in places):
                for place, messages in (await consumer.getmany(timeout_ms=500)).items():
                    found[place] += [
                        Record(message.key, tuple(message.headers), message.value)
                        for message in messages
                    ]
    finally:
        await consumer.stop()
    return [record for place in places for record in found[place]]


def _check_records(
    records: Sequence[Record],
    feed: Sequence[CloudEvent],
    form: Form,
    documents: Mapping[str, bytes],
) -> None:
    """Bytes as sent, key the repository, order kept for each key."""
    sent = {event.id: event for event in feed}
    decoded = [kafka_binding.decode(record) for record in records]
    assert sorted(each.event.id for each in decoded) == sorted(sent)
    for record, each in zip(records, decoded, strict=True):
        event = sent[each.event.id]
        assert each.event.data == event.data
        assert each.event.attributes == event.attributes
        repository = event.attributes.get("partitionkey")
        assert record.key == (None if repository is None else repository.encode())
        if form.stored == "binary":
            assert record.body == event.data
        if documents:
            assert record.body == documents[event.id]
    _check_order([each.event for each in decoded], feed)


def _check_arrivals(arrivals: Sequence[Arrival], feed: Sequence[CloudEvent]) -> None:
    sent = {event.id: event for event in feed}
    events = [arrival.events[0].event for arrival in arrivals]
    assert sorted(event.id for event in events) == sorted(sent)
    for event in events:
        assert event.data == sent[event.id].data
    _check_order(events, feed)


def _check_order(events: Sequence[CloudEvent], feed: Sequence[CloudEvent]) -> None:
    """Of each repository; events of none have no order."""
    assert _by_repository(events) == _by_repository(feed)


def _by_repository(events: Sequence[CloudEvent]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for event in events:
        if repository := event.attributes.get("partitionkey"):
            found.setdefault(repository, []).append(event.id)
    return found
