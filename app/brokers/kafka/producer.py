"""Records in, fates out: which lane a record joins, when a lane's batch leaves, and what became of it.

One task ships. A batch leaves when its partition's leader is free, so that whatever arrived while a
request was in flight leaves together, in one request for all partitions of that leader. Waiting on
purpose (a linger) only costs time.
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
from app.brokers.kafka.batcher import Batcher, Topic
from app.brokers.kafka.connection import Connection, Place
from app.brokers.kafka.errors import Next, Refusal, explain, judge, refusal_of, refused, translate
from app.brokers.kafka.settings import KafkaSettings
from app.brokers.kafka.topics import Topics
from app.brokers.member import pause_for
from app.brokers.portable import Submission
from app.errors import BrokerError, BrokerRefused, BrokerUnavailable, PublishUnknown
from app.model.metadata import Health
from app.telemetry.tasks import keep

log = logging.getLogger(__name__)

FIRST_DELAY, LONGEST_DELAY = 0.1, 2.0  # seconds between attempts to connect
NO_LEADER_DELAY = 0.1
EXPECTED = (KafkaError, OSError, TimeoutError)  # anything else is a bug
GROUNDED_WITHIN = 2.0  # what is under way with a producer that is given up has so long to be told
START_WITHIN = 5.0


class Producer:
    """Publishes through one producer after another. All on the event loop."""

    def __init__(
        self, settings: KafkaSettings, refused: Callable[[int], None] = lambda _code: None
    ) -> None:
        """``refused``: gets the code of each error that Kafka answers to a wire batch."""
        self.settings = settings
        self._refused = refused
        self.name = settings.name
        self.topics = Topics(settings, self._join, self._deleted)
        self._connection: Connection | None = None
        self._cause = ""  # why there is none, or why the last request failed
        self._waiting: list[Batcher] = []  # something queued, nothing aboard
        self._aboard: dict[Place, tuple[Batcher, asyncio.Future[Any]]] = {}
        self._busy: set[int] = set()  # leaders with a request in flight
        self._looking = False  # soon, for leaders of partitions that have none
        self._wake = asyncio.Event()
        self._tried = asyncio.Event()  # one attempt to connect has ended
        self._answered = False  # the broker has decided about a batch of this connection
        self._task: asyncio.Task[None] | None = None
        self._stopping = False

    async def start(self) -> None:
        """Returns when the first attempt has ended, or soon: it heals by itself."""
        self._task = keep("kafka-producer", self._run, of=self.name)
        if not await pause_for(self._tried, START_WITHIN):
            self._cause = self._cause or "no answer yet"

    async def stop(self) -> None:
        """What is queued is told that it was not sent, what is on the wire that nobody knows."""
        self._stopping = True  # the client may swallow a cancellation
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])
        await self.topics.stop()
        stopped = BrokerUnavailable(f"log {self.name} has stopped", broker=self.name)
        for lane in self._waiting:
            lane.give_up(stopped)

    def publish(self, submission: Submission) -> None:
        topic = self.topics.known.get(submission.topic)
        if topic is not None and not self._away:
            self._join(topic, submission)
        elif self._away:
            submission.fail(self._unavailable())
        else:
            self.topics.ask(submission)

    async def health(self) -> Health:
        """Asks the broker, so that an idle producer knows too."""
        if self._connection is not None and not self._cause:
            try:
                await self._connection.probe()
            except (KafkaError, OSError, TimeoutError) as error:
                return Health(healthy=False, cause=self._away_text(error))
        return Health(healthy=not self._cause, cause=self._cause)

    @property
    def _away(self) -> bool:
        """Known to be out of reach: who publishes is told at once, rather than after the time-out."""
        return self._connection is None and bool(self._cause)

    def _join(self, topic: Topic, submission: Submission) -> None:
        for index, record in enumerate(submission.records):
            lane = topic.lane(record.key)
            lane.queue.append((submission, index, record))
            if not lane.waiting and not lane.aboard:
                self._await_turn(lane)
        self._wake.set()

    def _await_turn(self, lane: Batcher) -> None:
        lane.waiting = True
        self._waiting.append(lane)

    async def _run(self) -> None:
        delay = FIRST_DELAY
        while not self._stopping:
            self._answered = False
            connection = Connection(self.settings, self._may_leave, self._refused)
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

    async def _take_over(self, connection: Connection) -> None:
        if not await connection.watch(list(self.topics.known), self.topics.refresh):
            raise NoMetadata
        self._cause = ""
        self._connection = self.topics.connection = connection
        self._tried.set()
        self._wake.set()

    def _lose(self, error: BaseException) -> None:
        """The cluster is out of reach: what is queued was never sent, or its caller is told so."""
        cause, self._cause = self._cause, self._away_text(error)
        if self._cause != cause:
            log.warning("%s", self._cause)
        self._tried.set()
        for lane in self._waiting:
            lane.give_up(self._unavailable())
            lane.waiting = False
        self._waiting.clear()
        self.topics.give_up(self._unavailable())

    async def _ship_until_tainted(self, connection: Connection) -> None:
        while not (connection.tainted or self._stopping):
            await self._wake.wait()
            await asyncio.sleep(0)  # callers woken beside us publish first, and come along
            self._wake.clear()
            lanes, self._waiting = self._waiting, []
            try:
                await self._ship(connection, lanes)
            except Exception:
                log.exception("shipping to Kafka %s failed", self.name)
                connection.tainted = True
                for lane in lanes:
                    self._left_behind(lane)

    def _left_behind(self, lane: Batcher) -> None:
        """A shipment ended in the middle: what the client did not get is for the next one."""
        flight = self._aboard.get(lane.tp)
        if lane.aboard and (flight is None or flight[0] is not lane):
            lane.again()
        if (lane.queue or lane.waiting) and not lane.aboard and lane not in self._waiting:
            self._await_turn(lane)

    async def _ship(self, connection: Connection, lanes: list[Batcher]) -> None:
        busy = self._busy.copy()  # lanes of one leader that are ready now share a request
        for lane in lanes:
            leader = connection.leader(lane.tp)
            if not lane.queue:
                lane.waiting = False
            elif leader is None:
                self._await_leader(connection, lane)
            elif leader in busy or connection.tainted:
                self._waiting.append(lane)
            else:
                await self._send(connection, lane, leader)

    def _await_leader(self, connection: Connection, lane: Batcher) -> None:
        """Of one partition alone: nothing of it is with the client, and the others go on."""
        self._waiting.append(lane)
        lane.drop_answered()
        if not self._looking:  # whatever else ships meanwhile
            self._looking = True
            connection.refresh()
            asyncio.get_running_loop().call_later(NO_LEADER_DELAY, self._look_again)

    def _look_again(self) -> None:
        self._looking = False
        self._wake.set()

    async def _send(self, connection: Connection, lane: Batcher, leader: int) -> None:
        batch = connection.create_batch()
        # A caller that is told of a refusal may publish in this step: the lane still waits by then.
        filled = lane.fill(batch)
        lane.waiting = False
        if not filled:
            return
        lane.topic.left(lane)
        lane.leader = leader
        try:
            future = await connection.send_batch(batch, lane.tp)
        except KafkaError as error:
            self._failed(connection, lane, error)
            return
        self._busy.add(leader)
        self._aboard[lane.tp] = lane, future
        future.add_done_callback(partial(self._landed, connection, lane))

    def _landed(self, connection: Connection, lane: Batcher, future: asyncio.Future[Any]) -> None:
        """One batch is answered, and with it, most likely, all of its request: the leader is free."""
        self._busy.discard(lane.leader)
        self._aboard.pop(lane.tp, None)
        error = None if future.cancelled() else future.exception()
        if future.cancelled():
            lane.fail(PublishUnknown("the connection was closed", broker=self.name))
        elif error is not None:
            self._failed(connection, lane, error)
        else:
            self._answered = True
            self._cause = ""
            stored = future.result()  # None with acks 0: it was sent, and that is all
            lane.landed(self.name, None if stored is None else stored.offset)
        if lane.queue and not lane.waiting:
            self._await_turn(lane)
        self._wake.set()

    def _failed(self, connection: Connection, lane: Batcher, error: BaseException) -> None:
        """The client retries by itself what it can; what reaches us has left a gap in its sequence."""
        refusal = refusal_of(error, connection.refusals.pop(lane.tp, None))
        self._taint(connection, f"{lane.tp.topic}: {refusal.name}" if refusal else repr(error))
        verdict = judge(error, refusal)
        self._answered = self._answered or verdict is not Next.AGAIN
        if refusal is not None and refusal.is_too_large:
            lane.learn_size(compressed=self.settings.compression is not None)
        if verdict is Next.AGAIN:
            lane.again()
        elif verdict is Next.NARROW and refusal is not None:
            self._refuse(lane, refusal)
        else:
            self._answer(lane, error, refusal)
        if lane.queue and not lane.waiting:
            self._await_turn(lane)

    def _refuse(self, lane: Batcher, refusal: Refusal) -> None:
        """The broker objects to records of the batch: to those that it names, or to one that is looked for."""
        topic = lane.topic.name

        def named(index: int, record: Record) -> BrokerError:
            error = explain(refusal, self.name, topic, record.key, refusal.records[index])
            if isinstance(error, BrokerRefused) and refusal.demands_key(index):
                lane.topic.demand_keys(error)
            return error

        if refusal.kind == "rejected" and lane.refuse(refusal.records, named):
            return
        if len(lane.aboard) > 1:
            lane.narrow()
            lane.again()
            return
        [(_, _, record)] = lane.aboard
        if refusal.is_clear:
            lane.fail(explain(refusal, self.name, topic, record.key))
        elif lane.stands_alone():
            lane.fail(refused(refusal, self.name, topic, record.key, refusal.words))
        else:
            lane.give_up_suspects(explain(refusal, self.name, topic))

    def _answer(self, lane: Batcher, error: BaseException, refusal: Refusal | None) -> None:
        topic = lane.topic.name
        meaning = explain(refusal, self.name, topic) if refusal else translate(error, self.name)
        meaning = meaning or BrokerUnavailable(repr(error), broker=self.name)
        lane.fail(meaning)
        if isinstance(meaning, BrokerRefused) and meaning.kind == "not-authorised":
            self.topics.refuse(topic, meaning)

    def _taint(self, connection: Connection, why: str) -> None:
        if not connection.tainted:
            log.warning("replacing the producer for Kafka %s: %s", self.name, why)
        connection.tainted = True
        self._wake.set()

    async def _retire(self, connection: Connection) -> None:
        """Nothing leaves any more; what is under way lands, or nobody will know."""
        connection.tainted = True
        self._connection = self.topics.connection = None
        flights = [future for _, future in self._aboard.values()]
        if flights:
            _, pending = await asyncio.wait(flights, timeout=GROUNDED_WITHIN)
            for future in pending:
                future.cancel()
            await asyncio.sleep(0)  # their callbacks run now
        self._busy.clear()
        await connection.close()

    def _deleted(self, topic: Topic) -> None:
        """The client holds a batch of a deleted topic until the topic is made again, and would send it then."""
        if self._connection is not None and any(lane.aboard for lane in topic.lanes):
            self._taint(self._connection, f"{topic.name} was deleted")

    def _may_leave(self, place: Place) -> bool:
        flight = self._aboard.get(place)
        return flight is not None and not flight[0].answered()

    def _unavailable(self) -> BrokerError:
        return BrokerUnavailable(self._cause, broker=self.name)

    def _away_text(self, error: BaseException) -> str:
        what = str(error) or type(error).__name__
        return (
            f"Kafka {self.name} cannot be reached at {self.settings.bootstrap_servers}: {what}"
            " (is it running, and are address, TLS and credentials right?)"
        )


class NoMetadata(KafkaError):  # type: ignore[misc]  # aiokafka has no types
    """Connected, but no broker tells where the topics are."""
