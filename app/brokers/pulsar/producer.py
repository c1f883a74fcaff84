"""Records in, fates out: which batcher a record joins, which client has it, and what became of it.

One client at a time publishes. A client that loses its connection holds its records and sends them
when it is back, which may be after their callers have been answered (against rule 9), and it tries
again once a minute only. So it is watched, and replaced: all its sockets are shut, and the next one
gets what is still unanswered. What was on the wire already may be stored twice.
"""

from __future__ import annotations

import asyncio
import logging
from functools import partial
from random import random
from typing import Any

from pulsar import Result

from app.brokers.driver import DROPPED, Submission
from app.brokers.pulsar.admin import Admin
from app.brokers.pulsar.batchers import Batcher, Entry, Topic
from app.brokers.pulsar.connection import Connection
from app.brokers.pulsar.errors import ClientError, Next, judge, translate
from app.brokers.pulsar.messages import build
from app.brokers.pulsar.positions import place_of
from app.brokers.pulsar.settings import PulsarSettings
from app.brokers.pulsar.topics import Topics
from app.errors import BrokerError, BrokerRefused, BrokerUnavailable
from app.model.metadata import Health
from app.model.receipt import Receipt
from app.telemetry.tasks import keep

log = logging.getLogger(__name__)

FIRST_DELAY, LONGEST_DELAY = 0.1, 2.0  # seconds between attempts to open a producer
WATCH = 0.25
OK = Result.Ok


class Producer:
    """Publishes through one client after another. All on the event loop."""

    def __init__(self, settings: PulsarSettings, admin: Admin) -> None:
        self.settings = settings
        self.name = settings.name
        self.topics = Topics(settings, admin, self._open_all, self._join)
        self._admin = admin
        self._connection: Connection | None = None
        self._tainted = ""  # why the client is to be replaced
        self._opening: set[asyncio.Task[None]] = set()
        self._tasks: list[asyncio.Task[None]] = []

    async def start(self) -> None:
        """Returns at once: a batcher is opened by the first record that needs it, and heals by itself."""
        self._connection = Connection(self.settings)
        self._tasks = [
            keep("pulsar-producer", self._watch_connection, of=self.name),
            keep("pulsar-topics", self._refresh_topics, of=self.name),
        ]

    async def stop(self) -> None:
        """What is queued is told that it was not sent, what a client has that nobody knows."""
        for task in [*self._tasks, *self._opening]:
            task.cancel()
        if self._tasks:
            await asyncio.wait([*self._tasks, *self._opening])
        await self.topics.stop()
        connection, self._connection = self._connection, None
        if connection is not None:
            await connection.close()
        stopped = BrokerUnavailable(f"log {self.name} has stopped", broker=self.name)
        for batcher in self._batchers():
            batcher.recall()
            batcher.give_up(stopped)
        self.topics.known.clear()

    def publish(self, submission: Submission) -> None:
        topic = self.topics.known.get(submission.topic)
        if topic is None:
            self.topics.ask(submission)
        else:
            self._join(topic, submission)

    def health(self) -> Health:
        """Of the topics in use, and their batchers."""
        if self.topics.trouble:
            return Health(healthy=False, cause=self.topics.trouble)
        for batcher in self._batchers():
            if batcher.cause:
                return Health(healthy=False, cause=batcher.cause)
            if batcher.producer is not None and not batcher.connected():
                return Health(
                    healthy=False,
                    cause=f"Pulsar {self.name} has dropped the connection for {batcher.wire}",
                )
        return Health(healthy=True)

    def connected_to(self) -> str | None:
        """Any topic that a broker has let us write to."""
        return next((batcher.wire for batcher in self._batchers() if batcher.connected()), None)

    async def probe(self, wire: str) -> None:
        if self._connection is not None:
            await self._connection.probe(wire)

    def _batchers(self) -> list[Batcher]:
        return [batcher for topic in self.topics.known.values() for batcher in topic.batchers]

    def _join(self, topic: Topic, submission: Submission) -> None:
        for index, record in enumerate(submission.records):
            batcher = topic.batcher(record.key)
            entry = Entry(batcher, submission, index, record)
            if batcher.producer is not None:
                self._send(batcher, entry)
            elif batcher.cause:
                entry.resolve(BrokerUnavailable(batcher.cause, broker=self.name))
            else:
                batcher.queue.append(entry)
                self._open(batcher)

    def _send(self, batcher: Batcher, entry: Entry) -> None:
        """To the client, which pipelines. Rule 9: not when its caller has had his answer."""
        if entry.submission.done():
            entry.resolve(DROPPED)
            return
        try:
            message = build(entry.record)
        except (TypeError, ValueError) as error:  # nothing of it was sent
            entry.resolve(self._unwritable(error))
            return
        assert self._connection is not None  # noqa: S101 - a batcher has a producer of it
        entry.tried = True
        batcher.aboard.append(entry)
        sent = partial(self._connection.bridge.post, self._sent, entry)
        try:
            batcher.producer.send_async(
                message.content,
                sent,
                properties=message.properties,
                partition_key=message.partition_key,
                event_timestamp=message.event_timestamp,
            )
        except (TypeError, ValueError) as error:  # likewise
            batcher.refused(entry, self._unwritable(error))

    def _unwritable(self, error: Exception) -> BrokerRefused:
        return BrokerRefused(f"no Pulsar message: {error}", kind="unwritable", broker=self.name)

    def _sent(self, entry: Entry, result: Result, message_id: Any) -> None:
        if entry.gone:
            return
        batcher = entry.batcher
        if result == OK:
            position = place_of(message_id).text
            batcher.landed(entry, Receipt(self.name, batcher.topic.name, batcher.number, position))
        elif judge(result) is Next.AGAIN:
            entry.failed = True
            self._taint(f"{batcher.wire}: {result.name}")
        else:
            error = ClientError(result, batcher.wire)
            batcher.refused(entry, self._meaning(error))

    def _meaning(self, error: BaseException) -> BrokerError:
        return translate(error, self.name) or BrokerUnavailable(repr(error), broker=self.name)

    def _open_all(self, topic: Topic) -> None:
        for batcher in topic.batchers:
            self._open(batcher)

    def _open(self, batcher: Batcher) -> None:
        if not batcher.opening and self._connection is not None:
            batcher.opening = True
            task = keep(
                "pulsar-lanes", partial(self._open_soon, batcher, self._connection), of=batcher.wire
            )
            self._opening.add(task)
            task.add_done_callback(self._opening.discard)

    async def _open_soon(self, batcher: Batcher, connection: Connection) -> None:
        """Until it has a producer, is refused, or the client is given up."""
        delay = FIRST_DELAY
        known = self.topics.known
        while connection is self._connection and known.get(batcher.topic.name) is batcher.topic:
            try:
                producer = await connection.producer(batcher.wire)
            except (ClientError, TimeoutError, OSError) as error:
                self._not_opened(batcher, error)
            else:
                if connection is self._connection:
                    self._opened(batcher, producer)
                break
            await asyncio.sleep(delay * (0.5 + random() / 2))  # noqa: S311 - spread, no secret
            delay = min(delay * 2, LONGEST_DELAY)
        if connection is self._connection:
            batcher.opening = False

    def _opened(self, batcher: Batcher, producer: Any) -> None:
        batcher.producer, batcher.cause = producer, ""
        while batcher.queue and batcher.producer is not None:
            self._send(batcher, batcher.queue.popleft())

    def _not_opened(self, batcher: Batcher, error: BaseException) -> None:
        """Waiting records are answered at once, and so are later ones: not only after the publish time-out."""
        if isinstance(error, ClientError):
            error = ClientError(error.result, batcher.wire)
        meaning = self._meaning(error)
        if isinstance(
            meaning, BrokerRefused
        ):  # also a topic that is terminated, or whose schema is enforced
            self.topics.refuse(batcher.topic.name, meaning)
            return
        cause, batcher.cause = (
            batcher.cause,
            f"{meaning} (is it running, and is the address right?)",
        )
        if not cause:
            log.warning("Pulsar %s: %s: %s", self.name, batcher.wire, batcher.cause)
        batcher.give_up(BrokerUnavailable(batcher.cause, broker=self.name))

    def _taint(self, why: str) -> None:
        if not self._tainted:
            log.warning("replacing the client for Pulsar %s: %s", self.name, why)
            self._tainted = why

    async def _watch_connection(self) -> None:
        lost_since: float | None = None
        clock = asyncio.get_running_loop().time
        while True:
            await asyncio.sleep(WATCH)
            lost = any(batcher.producer and not batcher.connected() for batcher in self._batchers())
            lost_since = (lost_since or clock()) if lost else None
            if lost_since is not None and clock() - lost_since > self.settings.reconnect_within:
                self._taint("its connection did not come back")
            if any(batcher.answered_aboard() for batcher in self._batchers()):
                self._taint("a record that it holds has been answered")
            if self._tainted:
                await self._replace()
                lost_since = None

    async def _replace(self) -> None:
        """Nothing leaves any more, and what lands meanwhile has landed; then what is still unanswered
        is for the next client. Begun again where it failed in the middle, it finds batchers without a
        producer whose records nobody has called back."""
        used = [
            batcher
            for batcher in self._batchers()
            if batcher.producer is not None or batcher.opening
        ]
        old, self._connection = self._connection, None
        for batcher in used:
            batcher.producer = None
            batcher.opening = False
        if old is not None:
            await old.close()
        for batcher in self._batchers():
            batcher.recall()
        self._connection, self._tainted = Connection(self.settings), ""
        for batcher in {*used, *(batcher for batcher in self._batchers() if batcher.queue)}:
            self._open(batcher)

    async def _refresh_topics(self) -> None:
        while True:
            await asyncio.sleep(self.settings.metadata_age)
            await self.topics.refresh()
