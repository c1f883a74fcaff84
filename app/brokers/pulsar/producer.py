"""Publish records to Pulsar: choose the batcher of each record, send it with the current client, and
resolve its result.

One client at a time publishes. A client that loses its connection keeps its records and sends them after
reconnecting. By then the callers may have a result already. The client also retries only once a minute. So
the client is watched and replaced: its sockets are closed, and the next client gets the records without a
result. A record that was on the wire may then be stored twice.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from functools import partial
from random import random
from typing import Protocol

from pulsar import Result

from app.brokers.driver import DROPPED, Submission
from app.brokers.pulsar.admin import PulsarAdmin
from app.brokers.pulsar.batchers import Batcher, PartitionProducer, QueuedRecord, TopicBatchers
from app.brokers.pulsar.connection import PulsarConnection
from app.brokers.pulsar.errors import ClientError, FailureAction, judge, translate
from app.brokers.pulsar.outage_log import PartitionFaults, fault_of
from app.brokers.pulsar.positions import Position
from app.brokers.pulsar.settings import PulsarSettings
from app.brokers.pulsar.topics import KnownTopics
from app.brokers.pulsar.wire.client import WireClient
from app.errors import BrokerError, BrokerRefused, BrokerUnavailable
from app.model.metadata import LogHealth
from app.model.receipt import Receipt
from app.telemetry.tasks import keep

log = logging.getLogger(__name__)

FIRST_DELAY, LONGEST_DELAY = 0.1, 2.0  # seconds between attempts to open a producer
WATCH = 0.25  # seconds between checks of the client


class PublishingClient(Protocol):
    """A client that publishes: that of ``wire``, or one of the client library."""

    async def producer(self, wire: str, on_lost: Callable[[str], None], /) -> PartitionProducer:
        """Open a producer for one partition. ``on_lost`` is called if the producer ends and does not reconnect by
        itself. Raise ClientError, TimeoutError or OSError."""

    async def probe(self, wire: str, /) -> None:
        """Ask a broker about an existing partition. Raise ClientError, TimeoutError or OSError."""

    async def close(self) -> None:
        """Close all connections."""


def open_client(settings: PulsarSettings) -> PublishingClient:
    """Return the client that the settings choose. Nothing is connected yet."""
    return WireClient(settings) if settings.publisher == "protocol" else PulsarConnection(settings)


class PulsarPublisher:
    """Publishes records through one client after another. All methods run on the event loop."""

    def __init__(self, settings: PulsarSettings, admin: PulsarAdmin) -> None:
        self.settings = settings
        self.name = settings.name
        self.topics = KnownTopics(settings, admin, self._open_all, self._join)
        self._admin = admin
        self._client: PublishingClient | None = None
        self._faults = PartitionFaults()
        self._tainted = ""  # why the client must be replaced; empty if it is good
        self._opening: set[asyncio.Task[None]] = set()
        self._tasks: list[asyncio.Task[None]] = []

    async def start(self) -> None:
        """Start publishing without waiting for a connection. The first record of a partition opens its
        producer."""
        self._client = open_client(self.settings)
        self._tasks = [
            keep("pulsar-producer", self._watch_connection, of=self.name),
            keep("pulsar-topics", self._refresh_topics, of=self.name),
        ]

    async def stop(self) -> None:
        """Stop publishing. Queued records fail as not sent, and records that a client has already taken fail
        as unknown."""
        for task in [*self._tasks, *self._opening]:
            task.cancel()
        if self._tasks:
            await asyncio.wait([*self._tasks, *self._opening])
        await self.topics.stop()
        client, self._client = self._client, None
        if client is not None:
            await client.close()
        stopped = BrokerUnavailable(f"log {self.name} has stopped", broker=self.name)
        for batcher in self._batchers():
            batcher.recall()
            batcher.fail_queued(stopped)
        self.topics.known.clear()

    def publish(self, submission: Submission) -> None:
        topic = self.topics.known.get(submission.topic)
        if topic is None:
            self.topics.ask(submission)
        else:
            self._join(topic, submission)

    def health(self) -> LogHealth:
        """Return the health of the topics in use and of their connections, without asking a broker."""
        if self.topics.trouble:
            return LogHealth(healthy=False, cause=self.topics.trouble)
        for batcher in self._batchers():
            if batcher.cause:
                return LogHealth(healthy=False, cause=batcher.cause)
            if batcher.producer is not None and not batcher.connected():
                return LogHealth(
                    healthy=False,
                    cause=f"Pulsar {self.name} has dropped the connection for {batcher.wire}",
                )
        return LogHealth(healthy=True)

    def connected_to(self) -> str | None:
        """Return the full name of any partition with a connected producer, or None."""
        return next((batcher.wire for batcher in self._batchers() if batcher.connected()), None)

    async def probe(self, wire: str) -> None:
        if self._client is not None:
            await self._client.probe(wire)

    def _batchers(self) -> list[Batcher]:
        return [batcher for topic in self.topics.known.values() for batcher in topic.batchers]

    def _join(self, topic: TopicBatchers, submission: Submission) -> None:
        for index, record in enumerate(submission.records):
            batcher = topic.batcher(record.key)
            entry = QueuedRecord(batcher, submission, index, record)
            if batcher.producer is not None:
                self._send(batcher, entry)
            elif batcher.cause:
                entry.resolve(BrokerUnavailable(batcher.cause, broker=self.name))
            else:
                batcher.queue.append(entry)
                self._open(batcher)

    def _send(self, batcher: Batcher, entry: QueuedRecord) -> None:
        """Pass a record to the client, unless its caller has a result already."""
        if entry.submission.done():
            entry.resolve(DROPPED)
            return
        assert batcher.producer is not None  # noqa: S101 - the callers have checked
        entry.tried = True
        batcher.in_flight[entry] = None
        try:
            batcher.producer.send(
                entry.record, partial(self._on_answer, entry), entry.submission.done
            )
        except (TypeError, ValueError) as error:  # the client sent nothing of the record
            batcher.fail(entry, self._unwritable(error))

    def _unwritable(self, error: Exception) -> BrokerRefused:
        return BrokerRefused(
            f"the record cannot be written: {error}", kind="unwritable", broker=self.name
        )

    def _on_answer(self, entry: QueuedRecord, result: Result, position: Position | None) -> None:
        if entry.gone:
            return
        batcher = entry.batcher
        if position is not None:
            place = position.text
            batcher.succeed(entry, Receipt(self.name, batcher.topic.name, batcher.number, place))
        elif entry.submission.done():  # it was not sent, because its caller has a result
            batcher.fail(entry, DROPPED)
        elif judge(result) is FailureAction.AGAIN:
            entry.failed = True
            self._taint(f"{batcher.wire}: {result.name}")
        else:
            error = ClientError(result, batcher.wire)
            batcher.fail(entry, self._meaning(error))

    def _meaning(self, error: BaseException) -> BrokerError:
        return translate(error, self.name) or BrokerUnavailable(repr(error), broker=self.name)

    def _open_all(self, topic: TopicBatchers) -> None:
        for batcher in topic.batchers:
            self._open(batcher)

    def _open(self, batcher: Batcher) -> None:
        if not batcher.opening and self._client is not None:
            batcher.opening = True
            task = keep(
                "pulsar-lanes", partial(self._open_soon, batcher, self._client), of=batcher.wire
            )
            self._opening.add(task)
            task.add_done_callback(self._opening.discard)

    async def _open_soon(self, batcher: Batcher, client: PublishingClient) -> None:
        """Open the producer of a partition. Retry until it is open, the topic is rejected, or the client is
        replaced."""
        delay = FIRST_DELAY
        known = self.topics.known
        while client is self._client and known.get(batcher.topic.name) is batcher.topic:
            try:
                producer = await client.producer(batcher.wire, partial(self._lost, batcher, client))
            except (ClientError, TimeoutError, OSError) as error:
                self._not_opened(batcher, error)
            else:
                if client is self._client:
                    self._opened(batcher, producer)
                break
            await asyncio.sleep(delay * (0.5 + random() / 2))  # noqa: S311 - spread, no secret
            delay = min(delay * 2, LONGEST_DELAY)
        if client is self._client:
            batcher.opening = False
            if batcher.producer is None and batcher.queue:  # lost again meanwhile
                self._open(batcher)

    def _lost(self, batcher: Batcher, client: PublishingClient, why: str) -> None:
        """Take the records of a lost producer back, and open another one. Only the client of ``wire`` reports this."""
        if client is not self._client or batcher.producer is None:
            return
        if self._faults.is_new(batcher.wire, why):
            log.info("Pulsar %s: %s, perhaps not alone: %s", self.name, batcher.wire, why)
        batcher.lost_at = asyncio.get_running_loop().time()
        batcher.recall()
        self._open(batcher)

    def _opened(self, batcher: Batcher, producer: PartitionProducer) -> None:
        batcher.producer, batcher.cause, batcher.lost_at = producer, "", None
        self._faults.clear(batcher.wire)
        while batcher.queue and batcher.producer is not None:
            self._send(batcher, batcher.queue.popleft())

    def _not_opened(self, batcher: Batcher, error: BaseException) -> None:
        """Fail the waiting records of a partition whose producer cannot be opened, and later records too. So
        they do not wait for the publish time-out."""
        if isinstance(error, ClientError):
            error = ClientError(error.result, batcher.wire)
        meaning = self._meaning(error)
        if isinstance(meaning, BrokerRefused):  # such as a terminated topic, or an enforced schema
            self.topics.refuse(batcher.topic.name, meaning)
            return
        if self._may_recover(batcher):
            return
        batcher.cause = f"{meaning} (is it running, and is the address right?)"
        if self._faults.is_new(batcher.wire, fault_of(error)):
            log.warning(
                "Pulsar %s: %s, perhaps not alone: %s", self.name, batcher.wire, batcher.cause
            )
        batcher.fail_queued(BrokerUnavailable(batcher.cause, broker=self.name))

    def _may_recover(self, batcher: Batcher) -> bool:
        """Return True if a producer was lost a short time ago. Another broker may just be taking the partition over."""
        if batcher.lost_at is None:
            return False
        lost_for = asyncio.get_running_loop().time() - batcher.lost_at
        return lost_for < self.settings.reconnect_within

    def _taint(self, why: str) -> None:
        if not self._tainted:
            log.warning("Pulsar %s: the client is replaced: %s", self.name, why)
            self._tainted = why

    async def _watch_connection(self) -> None:
        lost_since: float | None = None
        clock = asyncio.get_running_loop().time
        while True:
            await asyncio.sleep(WATCH)
            lost = any(batcher.producer and not batcher.connected() for batcher in self._batchers())
            lost_since = (lost_since or clock()) if lost else None
            if lost_since is not None and clock() - lost_since > self.settings.reconnect_within:
                self._taint("a lost connection did not recover")
            if any(batcher.holds_answered() for batcher in self._batchers()):
                self._taint("the client holds a record whose caller has an answer")
            if self._tainted:
                await self._replace()
                lost_since = None

    async def _replace(self) -> None:
        """Close the client, and pass its records without a result to a new one.

        After an error in the middle, the call can be repeated, because batchers without a producer keep their
        records.
        """
        used = [
            batcher
            for batcher in self._batchers()
            if batcher.producer is not None or batcher.opening
        ]
        old, self._client = self._client, None
        for batcher in used:
            batcher.producer = None
            batcher.opening = False
        if old is not None:
            await old.close()
        for batcher in self._batchers():
            batcher.recall()
        self._client, self._tainted = open_client(self.settings), ""
        for batcher in {*used, *(batcher for batcher in self._batchers() if batcher.queue)}:
            self._open(batcher)

    async def _refresh_topics(self) -> None:
        while True:
            await asyncio.sleep(self.settings.metadata_age)
            await self.topics.refresh()
