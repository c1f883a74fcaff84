"""Publish records to Kafka: choose the batcher of each record, send wire batches, and resolve the results.

One task sends all batches. A batch is sent when the leader of its partition has no request in flight. Records
that arrive while a request is in flight are sent together afterwards, in one request for all partitions of
that leader. A deliberate wait (a linger) would only cost time.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from functools import partial
from random import random
from typing import Any

from aiokafka.errors import KafkaError

from app.bindings.record import Record
from app.brokers.kafka.batcher import Batcher, TopicBatchers
from app.brokers.kafka.connection import Place, ProducerConnection
from app.brokers.kafka.errors import (
    FailureAction,
    KafkaRefusal,
    explain,
    judge,
    refusal_of,
    refused,
    translate,
)
from app.brokers.kafka.settings import KafkaSettings
from app.brokers.kafka.topics import KnownTopics
from app.brokers.member import pause_for
from app.brokers.portable import Submission
from app.errors import BrokerError, BrokerRefused, BrokerUnavailable, PublishUnknown
from app.model.metadata import LogHealth
from app.telemetry.tasks import keep

log = logging.getLogger(__name__)

FIRST_DELAY, LONGEST_DELAY = 0.1, 2.0  # seconds between attempts to connect
NO_LEADER_DELAY = 0.1
EXPECTED = (KafkaError, OSError, TimeoutError)  # any other error is a bug
RETIRE_WITHIN = 2.0  # seconds in which batches of a closed producer may still be answered
START_WITHIN = 5.0


class KafkaPublisher:
    """Publishes records through one idempotent producer after another. All methods run on the event loop."""

    def __init__(
        self, settings: KafkaSettings, refused: Callable[[int], None] = lambda _code: None
    ) -> None:
        """Create the publisher. ``refused`` is called with the code of each error that Kafka returns for a
        wire batch."""
        self.settings = settings
        self._refused = refused
        self.name = settings.name
        self.topics = KnownTopics(settings, self._join, self._on_topic_deleted)
        self._connection: ProducerConnection | None = None
        self._cause = ""  # why there is no connection, or why the last request failed
        self._waiting: list[Batcher] = []  # records queued, no batch in flight
        self._in_flight: dict[Place, tuple[Batcher, asyncio.Future[Any]]] = {}
        self._busy: set[int] = set()  # leaders with a request in flight
        self._looking = False  # whether a look for missing leaders is scheduled
        self._wake = asyncio.Event()
        self._tried = asyncio.Event()  # one attempt to connect has ended
        self._answered = False  # whether the broker has answered a batch of this connection
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
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])
        await self.topics.stop()
        stopped = BrokerUnavailable(f"log {self.name} has stopped", broker=self.name)
        for batcher in self._waiting:
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
                self._await_turn(batcher)
        self._wake.set()

    def _await_turn(self, batcher: Batcher) -> None:
        batcher.waiting = True
        self._waiting.append(batcher)

    async def _run(self) -> None:
        delay = FIRST_DELAY
        while not self._stopping:
            self._answered = False
            connection = ProducerConnection(self.settings, self._may_leave, self._refused)
            try:
                await connection.open()
                await self._take_over(connection)
                await self._ship_until_tainted(connection)
            except Exception as error:
                self._lose(error)
                if not isinstance(error, EXPECTED):
                    raise
            finally:
                await self._retire(connection)
            if self._answered:
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
        self._wake.set()

    def _lose(self, error: BaseException) -> None:
        """Note that the cluster is unreachable, and fail all queued records. None of them was ever sent."""
        cause, self._cause = self._cause, self._away_text(error)
        if self._cause != cause:
            log.warning("%s", self._cause)
        self._tried.set()
        for batcher in self._waiting:
            batcher.fail_queued(self._unavailable())
            batcher.waiting = False
        self._waiting.clear()
        self.topics.give_up(self._unavailable())

    async def _ship_until_tainted(self, connection: ProducerConnection) -> None:
        while not (connection.tainted or self._stopping):
            await self._wake.wait()
            await asyncio.sleep(0)  # lets callers that were woken too publish into these batches
            self._wake.clear()
            batchers, self._waiting = self._waiting, []
            try:
                await self._ship(connection, batchers)
            except Exception:
                log.exception(
                    "Kafka %s: a bug prevented sending; the producer is replaced", self.name
                )
                connection.tainted = True
                for batcher in batchers:
                    self._requeue_unsent(batcher)

    def _requeue_unsent(self, batcher: Batcher) -> None:
        """Queue the records of a batch again for the next producer. An error occurred before the client got
        the batch, so they were not sent."""
        flight = self._in_flight.get(batcher.tp)
        if batcher.in_flight and (flight is None or flight[0] is not batcher):
            batcher.requeue()
        if (
            (batcher.queue or batcher.waiting)
            and not batcher.in_flight
            and batcher not in self._waiting
        ):
            self._await_turn(batcher)

    async def _ship(self, connection: ProducerConnection, batchers: list[Batcher]) -> None:
        busy = self._busy.copy()  # batches of one leader that are ready now share a request
        for batcher in batchers:
            leader = connection.leader(batcher.tp)
            if not batcher.queue:
                batcher.waiting = False
            elif leader is None:
                self._await_leader(connection, batcher)
            elif leader in busy or connection.tainted:
                self._waiting.append(batcher)
            else:
                await self._send(connection, batcher, leader)

    def _await_leader(self, connection: ProducerConnection, batcher: Batcher) -> None:
        """Let the records of a partition wait until it has a leader. Other partitions are sent in the
        meantime."""
        self._waiting.append(batcher)
        batcher.drop_answered()
        if not self._looking:  # one scheduled look is enough
            self._looking = True
            connection.refresh()
            asyncio.get_running_loop().call_later(NO_LEADER_DELAY, self._look_again)

    def _look_again(self) -> None:
        self._looking = False
        self._wake.set()

    async def _send(self, connection: ProducerConnection, batcher: Batcher, leader: int) -> None:
        batch = connection.create_batch()
        # ``waiting`` is cleared afterwards, because a caller that gets an error here may publish at once.
        filled = batcher.fill(batch)
        batcher.waiting = False
        if not filled:
            return
        batcher.topic.on_batch_sent(batcher)
        batcher.leader = leader
        try:
            future = await connection.send_batch(batch, batcher.tp)
        except KafkaError as error:
            self._failed(connection, batcher, error)
            return
        self._busy.add(leader)
        self._in_flight[batcher.tp] = batcher, future
        future.add_done_callback(partial(self._on_answer, connection, batcher))

    def _on_answer(
        self, connection: ProducerConnection, batcher: Batcher, future: asyncio.Future[Any]
    ) -> None:
        """Handle the answer for one batch. Its leader is free for the next request, because one request
        carries all batches of a leader."""
        self._busy.discard(batcher.leader)
        self._in_flight.pop(batcher.tp, None)
        error = None if future.cancelled() else future.exception()
        if future.cancelled():
            batcher.fail(PublishUnknown("the connection was closed", broker=self.name))
        elif error is not None:
            self._failed(connection, batcher, error)
        else:
            self._answered = True
            self._cause = ""
            stored = future.result()  # None with acks 0
            batcher.succeed(self.name, None if stored is None else stored.offset)
        if batcher.queue and not batcher.waiting:
            self._await_turn(batcher)
        self._wake.set()

    def _failed(
        self, connection: ProducerConnection, batcher: Batcher, error: BaseException
    ) -> None:
        """Handle a failed batch. The client retries temporary errors itself, so this error has left a gap in
        the client's sequence numbers."""
        refusal = refusal_of(error, connection.refusals.pop(batcher.tp, None))
        self._taint(connection, f"{batcher.tp.topic}: {refusal.name}" if refusal else repr(error))
        verdict = judge(error, refusal)
        self._answered = self._answered or verdict is not FailureAction.AGAIN
        if refusal is not None and refusal.is_too_large:
            batcher.learn_size(compressed=self.settings.compression is not None)
        if verdict is FailureAction.AGAIN:
            batcher.requeue()
        elif verdict is FailureAction.NARROW and refusal is not None:
            self._refuse(batcher, refusal)
        else:
            self._answer(batcher, error, refusal)
        if batcher.queue and not batcher.waiting:
            self._await_turn(batcher)

    def _refuse(self, batcher: Batcher, refusal: KafkaRefusal) -> None:
        """Handle a batch in which the broker rejects a record. If the broker names the rejected records, they
        fail and the others are sent again. Otherwise smaller batches are sent until the rejected record is
        found."""
        topic = batcher.topic.name

        def named(index: int, record: Record) -> BrokerError:
            error = explain(refusal, self.name, topic, record.key, refusal.records[index])
            if isinstance(error, BrokerRefused) and refusal.demands_key(index):
                batcher.topic.demand_keys(error)
            return error

        if refusal.kind == "rejected" and batcher.refuse(refusal.records, named):
            return
        if len(batcher.in_flight) > 1:
            batcher.narrow()
            batcher.requeue()
            return
        [(_, _, record)] = batcher.in_flight
        if refusal.is_clear:
            batcher.fail(explain(refusal, self.name, topic, record.key))
        elif batcher.is_at_fault():
            batcher.fail(refused(refusal, self.name, topic, record.key, refusal.words))
        else:
            batcher.give_up_suspects(explain(refusal, self.name, topic))

    def _answer(self, batcher: Batcher, error: BaseException, refusal: KafkaRefusal | None) -> None:
        topic = batcher.topic.name
        meaning = explain(refusal, self.name, topic) if refusal else translate(error, self.name)
        meaning = meaning or BrokerUnavailable(repr(error), broker=self.name)
        batcher.fail(meaning)
        if isinstance(meaning, BrokerRefused) and meaning.kind == "not-authorised":
            self.topics.refuse(topic, meaning)

    def _taint(self, connection: ProducerConnection, why: str) -> None:
        if not connection.tainted:
            log.warning("Kafka %s: the producer is replaced: %s", self.name, why)
        connection.tainted = True
        self._wake.set()

    async def _retire(self, connection: ProducerConnection) -> None:
        """Close a producer, after its batches in flight were answered or the time limit is over."""
        connection.tainted = True
        self._connection = self.topics.connection = None
        flights = [future for _, future in self._in_flight.values()]
        if flights:
            _, pending = await asyncio.wait(flights, timeout=RETIRE_WITHIN)
            for future in pending:
                future.cancel()
            await asyncio.sleep(0)  # lets their callbacks run
        self._busy.clear()
        await connection.close()

    def _on_topic_deleted(self, topic: TopicBatchers) -> None:
        """Replace the producer if it holds batches of a deleted topic. It would send these batches if the
        topic was created again."""
        if self._connection is not None and any(batcher.in_flight for batcher in topic.batchers):
            self._taint(self._connection, f"{topic.name} was deleted")

    def _may_leave(self, place: Place) -> bool:
        flight = self._in_flight.get(place)
        return flight is not None and not flight[0].holds_answered()

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
