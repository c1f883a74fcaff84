"""Publish records to Kafka: keep a connection to the cluster, and pass records to the batchers of their partitions.

``shipper`` sends the wire batches of the batchers, and resolves the results.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from functools import partial
from random import random

from aiokafka.errors import KafkaError

from app.brokers.kafka.batcher import TopicBatchers
from app.brokers.kafka.connection import ProducerConnection
from app.brokers.kafka.refusals import Refusals
from app.brokers.kafka.settings import KafkaSettings
from app.brokers.kafka.shipper import Shipper
from app.brokers.kafka.topics import KnownTopics
from app.brokers.member import pause_for
from app.brokers.portable import Submission
from app.errors import BrokerError, BrokerUnavailable
from app.model.metadata import LogHealth
from app.telemetry.tasks import keep

log = logging.getLogger(__name__)

FIRST_DELAY, LONGEST_DELAY = 0.1, 2.0  # seconds between attempts to connect
EXPECTED = (KafkaError, OSError, TimeoutError)  # any other error is a bug
RETIRE_WITHIN = 2.0  # seconds in which batches of a closed connection may still be answered
START_WITHIN = 5.0


class KafkaPublisher:
    """Publishes records through one connection after another. All methods run on the event loop."""

    def __init__(
        self, settings: KafkaSettings, refused: Callable[[int], None] = lambda _code: None
    ) -> None:
        """Create the publisher. ``refused`` is called with the code of each error that Kafka returns for a
        wire batch."""
        self.settings = settings
        self.name = settings.name
        self.topics = KnownTopics(settings, self._join)
        compressed = settings.compression is not None
        refusals = Refusals(settings.name, compressed=compressed, no_right=self.topics.refuse)
        self.shipper = Shipper(settings, refusals, refused)
        self._connection: ProducerConnection | None = None
        self._cause = ""  # why there is no connection
        self._ended = asyncio.Event()  # the connection must be replaced
        self._tried = asyncio.Event()  # one attempt to connect has ended
        self._task: asyncio.Task[None] | None = None
        self._stopping = False

    async def start(self) -> None:
        """Start connecting. Return when the first attempt has ended, or after five seconds. Later attempts
        follow by themselves."""
        self._task = keep("kafka-producer", self._run, of=self.name)
        if not await pause_for(self._tried, START_WITHIN):
            self._cause = self._cause or "no answer yet"

    async def stop(self) -> None:
        """Stop publishing. Queued records fail as not sent, and records on the wire as unknown."""
        self._stopping = True  # the client may swallow a cancellation
        self._ended.set()
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])
        await self.topics.stop()
        stopped = BrokerUnavailable(f"log {self.name} has stopped", broker=self.name)
        for batcher in self.shipper.waiting:
            batcher.fail_queued(stopped)

    def publish(self, submission: Submission) -> None:
        topic = self.topics.known.get(submission.topic)
        if topic is not None and not self._away:
            self._join(topic, submission)
        elif self._away:
            submission.fail(self._unavailable())
        else:
            self.topics.ask(submission)

    async def health(self) -> LogHealth:
        """Return the health of the cluster. The call asks a broker, so an idle publisher also notices an
        outage."""
        if self._connection is not None and not self._cause:
            try:
                await self._connection.probe()
            except (KafkaError, OSError, TimeoutError) as error:
                return LogHealth(healthy=False, cause=self._away_text(error))
        return LogHealth(healthy=not self._cause, cause=self._cause)

    @property
    def _away(self) -> bool:
        """Return True if the cluster was unreachable at the last attempt. New records then fail at once
        instead of after the time-out."""
        return self._connection is None and bool(self._cause)

    def _join(self, topic: TopicBatchers, submission: Submission) -> None:
        for index, record in enumerate(submission.records):
            batcher = topic.batcher(record.key)
            batcher.queue.append((submission, index, record))
            if not batcher.waiting and not batcher.in_flight:
                self.shipper.await_turn(batcher)

    async def _run(self) -> None:
        delay = FIRST_DELAY
        while not self._stopping:
            self._ended.clear()
            connection = ProducerConnection(self.settings, self.shipper.ship_soon)
            try:
                await connection.open()
                await self._take_over(connection)
                await self._ended.wait()
            except Exception as error:
                self._lose(error)
                if not isinstance(error, EXPECTED):
                    raise
            finally:
                await self._retire(connection)
            if self.shipper.answered:
                delay = FIRST_DELAY
            else:
                await asyncio.sleep(delay * (0.5 + random() / 2))  # noqa: S311 - spread, no secret
                delay = min(delay * 2, LONGEST_DELAY)

    async def _take_over(self, connection: ProducerConnection) -> None:
        if not await connection.watch(list(self.topics.known), self.topics.refresh):
            raise NoMetadata
        self._cause = ""
        self._connection = self.topics.connection = connection
        self._tried.set()
        self.shipper.begin(connection, partial(self._taint, connection))

    def _lose(self, error: BaseException) -> None:
        """Note that the cluster is unreachable, and fail all queued records. None of them was ever sent."""
        cause, self._cause = self._cause, self._away_text(error)
        if self._cause != cause:
            log.warning("%s", self._cause)
        self._tried.set()
        for batcher in self.shipper.waiting:
            batcher.fail_queued(self._unavailable())
            batcher.waiting = False
        self.shipper.waiting.clear()
        self.topics.give_up(self._unavailable())

    def _taint(self, connection: ProducerConnection, why: str) -> None:
        """Replace the connection. Nothing is sent through it any more."""
        if connection is self._connection:
            log.warning("Kafka %s: the producer is replaced: %s", self.name, why)
            self._leave()

    def _leave(self) -> None:
        self._connection = self.topics.connection = None
        self.shipper.end()
        self._ended.set()

    async def _retire(self, connection: ProducerConnection) -> None:
        """Close a connection, after its requests in flight were answered or the time limit is over."""
        self._leave()
        try:
            if not self.shipper.quiet.is_set():
                await pause_for(self.shipper.quiet, RETIRE_WITHIN)
        finally:  # ``stop`` may cancel the wait
            await connection.close()

    def _unavailable(self) -> BrokerError:
        return BrokerUnavailable(self._cause, broker=self.name)

    def _away_text(self, error: BaseException) -> str:
        what = str(error) or type(error).__name__
        return (
            f"Kafka {self.name} cannot be reached at {self.settings.bootstrap_servers}: {what}"
            " (is it running, and are address, TLS and credentials right?)"
        )


class NoMetadata(KafkaError):  # type: ignore[misc]  # aiokafka has no types
    """A connected broker does not return the metadata of the topics in use."""
