"""Publish records to RabbitMQ through one connection at a time. Each connection has one channel with
confirms.

A watchdog closes a connection whose confirms are overdue. The next connection sends only records without a
result.
"""

from __future__ import annotations

import asyncio
import logging
from functools import partial
from random import random

from app.brokers.driver import Submission
from app.brokers.member import pause_for
from app.brokers.rabbitmq.aiormq_adapter import (
    AbstractChannel,
    ConfirmChannel,
    DeliveredMessage,
    amqp,
)
from app.brokers.rabbitmq.connection import RabbitConnection, close_channel, connect
from app.brokers.rabbitmq.errors import EXPECTED, error_text
from app.brokers.rabbitmq.publish_queue import PublishQueue
from app.brokers.rabbitmq.settings import RabbitSettings
from app.brokers.rabbitmq.targets import RabbitTargets, TargetPartitions
from app.brokers.rabbitmq.topology import Topology
from app.brokers.rabbitmq.unconfirmed import UnconfirmedRecords
from app.errors import BoundReached, BrokerError, BrokerUnavailable
from app.model.metadata import LogHealth
from app.telemetry.tasks import keep

log = logging.getLogger(__name__)

FIRST_DELAY, LONGEST_DELAY = 0.1, 2.0  # seconds between attempts to connect
START_WITHIN = 5.0
RECOVERY = 10.0  # seconds that a restarted broker may need until its queues are available
SETTLE_WITHIN = 2.0  # seconds in which the records of a channel that rejects may still be confirmed
CHECKS = 8  # checks of the watchdog in the time that a confirm may take


class ChannelRejects(Exception):
    """The broker rejected a record on this channel, so another channel takes its place.

    A channel of RabbitMQ 3.10 looks up the leader of a queue once, when it first publishes there. If the node of the
    leader ends at this moment, the channel rejects every record until the node is back. Another channel finds the new
    leader.
    """


class RabbitPublisher:
    """Publishes records through one connection after another. All methods run on the event loop."""

    def __init__(self, settings: RabbitSettings, topology: Topology) -> None:
        self.settings = settings
        self.name = settings.name
        self.outbox = PublishQueue(settings)
        self.targets = RabbitTargets(settings, topology, self.outbox.join)
        self._cause = ""  # why there is no connection
        self._certain_from = 0.0  # loop time from which an unroutable record is rejected for good
        self._tried = asyncio.Event()  # one attempt to connect has ended
        self._broken: asyncio.Future[BaseException] | None = None
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Start connecting. Return when the first attempt has ended, or after five seconds. Later attempts
        follow by themselves."""
        self._task = keep("rabbitmq-producer", self._run, of=self.name)
        if not await pause_for(self._tried, START_WITHIN):
            self._cause = self._cause or "no answer yet"

    async def stop(self) -> None:
        """Stop publishing. Queued records fail as not sent, and records on the wire as unknown."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])
        await self.targets.stop()
        self.outbox.requeue_unconfirmed()
        self.outbox.fail_all(BrokerUnavailable(f"log {self.name} has stopped", broker=self.name))

    def publish(self, submission: Submission) -> None:
        connection, batchers = self.outbox.connection, self.targets.known.get(submission.topic)
        if connection is None and self._cause:
            submission.fail(self._unavailable())
        elif connection is not None and connection.blocked:
            submission.fail(self._blocked(connection.blocked))
        elif batchers is None or connection is None or batchers.found_on != connection.number:
            self.targets.ask(submission)
        else:
            self.outbox.join(batchers, submission)

    async def health(self) -> LogHealth:
        """Return the health of the cluster. The call asks the broker, so an idle publisher also notices an
        outage."""
        connection = self.outbox.connection
        if connection is not None and connection.blocked:
            return LogHealth(healthy=False, cause=str(self._blocked(connection.blocked)))
        if connection is not None and not self._cause:
            try:
                await connection.probe()
            except EXPECTED as error:
                return LogHealth(healthy=False, cause=self._away_text(error))
        return LogHealth(healthy=not self._cause, cause=self._cause)

    async def _run(self) -> None:
        delay = FIRST_DELAY
        while True:
            try:
                connection = await connect(self.settings, changed=self._blocked_changed)
            except Exception as error:
                self._lose(error)
                if not isinstance(error, EXPECTED):
                    raise
                await asyncio.sleep(delay * (0.5 + random() / 2))  # noqa: S311 - spread, no secret
                delay = min(delay * 2, LONGEST_DELAY)
                continue
            try:
                await self._publish_through(connection)
            except EXPECTED as error:
                self._cause = self._away_text(error)
                log.warning(
                    "RabbitMQ %s: the connection was lost: %s", self.name, error_text(error)
                )
            finally:
                self.outbox.connection = self.targets.connection = self.outbox.channel = None
                self.outbox.requeue_unconfirmed()
                await connection.drop()
            delay = FIRST_DELAY
            await asyncio.sleep(FIRST_DELAY * random())  # noqa: S311 - spread, no secret

    async def _publish_through(self, connection: RabbitConnection) -> None:
        """Publish through one channel after another, until the connection is lost. Then raise the error that
        ended the connection."""
        while True:
            self._broken = asyncio.get_running_loop().create_future()
            channel = await self._open(connection)
            watching = keep("rabbitmq-confirms", partial(self._watch, connection), of=self.name)
            try:
                error = await self._broken
            finally:
                watching.cancel()
                self.outbox.channel = None
            if isinstance(error, ChannelRejects):
                await self._settle()
            elif connection.is_closed or not isinstance(error, amqp.ChannelClosed):
                raise error
            else:
                log.warning("RabbitMQ %s closed a channel: %s", self.name, error_text(error))
                self.outbox.on_channel_closed(error, self.targets)
            await close_channel(channel)

    async def _settle(self) -> None:
        """Wait for the confirms of a channel that gets no more records. Queue the records without one again."""
        self.outbox.settled.clear()
        if self.outbox.unconfirmed:
            await pause_for(self.outbox.settled, SETTLE_WITHIN)
        self.outbox.requeue_unconfirmed()

    async def _open(self, connection: RabbitConnection) -> AbstractChannel:
        hot = ConfirmChannel(self.outbox.confirmed, self._on_returned)
        async with asyncio.timeout(self.settings.request_timeout):
            channel = await connection.open_channel(hot, confirms=self.settings.confirms)
        unconfirmed = UnconfirmedRecords(
            self.name,
            self._is_certain,
            is_recreated=self.targets.is_recreated,
            in_order=self.settings.kind == "stream",
        )
        if connection is not self.outbox.connection and self._cause:
            self._certain_from = asyncio.get_running_loop().time() + RECOVERY
        channel.closing.add_done_callback(self._closed)
        self.targets.connection = connection
        self._cause = ""
        self._tried.set()
        self.outbox.open(connection, channel, unconfirmed)
        return channel

    def _is_certain(self, batchers: TargetPartitions) -> bool:
        """Return True if an unroutable record of this target would be unroutable again.

        A starting node accepts connections before its streams have leaders. Until then it returns records
        as if no queue existed.
        """
        if self.outbox.connection is None or batchers.found_on != self.outbox.connection.number:
            return False  # its queues were not looked up on this connection yet
        now = asyncio.get_running_loop().time()
        return batchers.target.has_known_queues or now >= self._certain_from

    def _on_returned(self, message: DeliveredMessage) -> None:
        self.outbox.unconfirmed.returned(message)
        self.targets.on_returned(message.exchange or "")

    def _closed(self, closing: asyncio.Future[None]) -> None:
        error = None if closing.cancelled() else closing.exception()
        self._break(error or ConnectionError("the channel was closed"))

    def _break(self, error: BaseException) -> None:
        if self._broken is not None and not self._broken.done():
            self._broken.set_result(error)

    async def _watch(self, connection: RabbitConnection) -> None:
        """Close the connection if the broker no longer confirms records.

        The connection stays open if the broker blocks publishers. The broker reports the block and continues
        by itself.
        """
        within = self.settings.request_timeout
        overtaken = 0
        while True:
            await asyncio.sleep(within / CHECKS)
            self.targets.refresh_if_due()
            if self.outbox.rejecting:
                self._break(ChannelRejects())
            before, overtaken = overtaken, self.outbox.unconfirmed.overtaken()
            if overtaken and overtaken == before:
                self._break(TimeoutError("a stream confirmed records in the wrong order"))
            waited = asyncio.get_running_loop().time() - self.outbox.progress
            if self.outbox.unconfirmed and not connection.blocked and waited > within:
                self._break(TimeoutError(f"no confirm for {waited:.1f} s"))

    def _blocked_changed(self) -> None:
        connection = self.outbox.connection
        if connection is None:
            return
        self.outbox.progress = asyncio.get_running_loop().time()
        if connection.blocked:
            log.warning("%s", self._blocked(connection.blocked))
            self.outbox.fail_all(self._blocked(connection.blocked))
        else:
            log.warning("RabbitMQ %s accepts publishes again", self.name)
            self.outbox.schedule()

    def _lose(self, error: BaseException) -> None:
        cause, self._cause = self._cause, self._away_text(error)
        if self._cause != cause:
            log.warning("%s", self._cause)
        self._tried.set()
        self.outbox.fail_all(self._unavailable())
        self.targets.give_up(self._unavailable())

    def _unavailable(self) -> BrokerError:
        return BrokerUnavailable(self._cause, broker=self.name)

    def _blocked(self, reason: str) -> BoundReached:
        return BoundReached(
            f"RabbitMQ {self.name} accepts no publishes now: {reason} (free memory or disk there)",
            broker=self.name,
        )

    def _away_text(self, error: BaseException) -> str:
        return (
            f"RabbitMQ {self.name} cannot be reached at {self.settings.addresses}: {error_text(error)}"
            " (is it running, and are address and credentials right?)"
        )
