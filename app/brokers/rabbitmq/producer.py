"""Publish records to RabbitMQ through one connection at a time.

A connection whose confirms are overdue is closed. The next connection sends only records without a result.
"""

from __future__ import annotations

import asyncio
import logging
from functools import partial
from random import random

from app.brokers.driver import Submission
from app.brokers.member import pause_for
from app.brokers.rabbitmq.connection import RabbitConnection, connect
from app.brokers.rabbitmq.errors import EXPECTED, error_text
from app.brokers.rabbitmq.publish_channels import PublishChannels
from app.brokers.rabbitmq.settings import RabbitSettings
from app.brokers.rabbitmq.targets import RabbitTargets, TargetPartitions
from app.brokers.rabbitmq.topology import Topology
from app.errors import BoundReached, BrokerError, BrokerUnavailable
from app.model.metadata import LogHealth
from app.telemetry.tasks import keep

log = logging.getLogger(__name__)

FIRST_DELAY, LONGEST_DELAY = 0.1, 2.0  # seconds between attempts to connect
START_WITHIN = 5.0
RECOVERY = 10.0  # seconds that a restarted broker may need until its queues are available


class RabbitPublisher:
    """Publishes records through one connection after another. All methods run on the event loop."""

    def __init__(self, settings: RabbitSettings, topology: Topology) -> None:
        self.settings = settings
        self.name = settings.name
        self.targets = RabbitTargets(settings, topology, self._join)
        self.channels = PublishChannels(settings, self.targets, self._is_certain)
        self._cause = ""  # why there is no connection
        self._certain_from = 0.0  # loop time from which an unroutable record is rejected for good
        self._tried = asyncio.Event()  # one attempt to connect has ended
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
        self.channels.fail_all(BrokerUnavailable(f"log {self.name} has stopped", broker=self.name))

    def publish(self, submission: Submission) -> None:
        connection, batchers = self.channels.connection, self.targets.known.get(submission.topic)
        if connection is None and self._cause:
            submission.fail(self._unavailable())
        elif connection is not None and connection.blocked:
            submission.fail(self._blocked(connection.blocked))
        elif batchers is None or connection is None or batchers.found_on != connection.number:
            self.targets.ask(submission)
        else:
            self.channels.join(batchers, submission)

    def _join(self, batchers: TargetPartitions, submission: Submission) -> None:
        self.channels.join(batchers, submission)

    async def health(self) -> LogHealth:
        """Return the health of the cluster. The call asks the broker, so an idle publisher also notices an
        outage."""
        connection = self.channels.connection
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
                await self.channels.run(connection, partial(self._opened, connection))
            except EXPECTED as error:
                self._cause = self._away_text(error)
                log.warning(
                    "RabbitMQ %s: the connection was lost: %s", self.name, error_text(error)
                )
            finally:
                self.targets.connection = None
                await connection.drop()
            delay = FIRST_DELAY
            await asyncio.sleep(FIRST_DELAY * random())  # noqa: S311 - spread, no secret

    def _opened(self, connection: RabbitConnection) -> None:
        """Publish through this connection from now on."""
        if self._cause:
            self._certain_from = asyncio.get_running_loop().time() + RECOVERY
        self.targets.connection = connection
        self._cause = ""
        self._tried.set()

    def _is_certain(self, batchers: TargetPartitions) -> bool:
        """Return True if an unroutable record of this target would be unroutable again.

        A starting node accepts connections before its streams have leaders. Until then it returns records
        as if no queue existed.
        """
        connection = self.channels.connection
        if connection is None or batchers.found_on != connection.number:
            return False  # its queues were not looked up on this connection yet
        now = asyncio.get_running_loop().time()
        return batchers.target.has_known_queues or now >= self._certain_from

    def _blocked_changed(self) -> None:
        connection = self.channels.connection
        if connection is None:
            return
        if connection.blocked:
            log.warning("%s", self._blocked(connection.blocked))
            self.channels.fail_all(self._blocked(connection.blocked))
        else:
            log.warning("RabbitMQ %s accepts publishes again", self.name)
        for each in self.channels.outboxes():
            each.progress = asyncio.get_running_loop().time()
            each.schedule()

    def _lose(self, error: BaseException) -> None:
        cause, self._cause = self._cause, self._away_text(error)
        if self._cause != cause:
            log.warning("%s", self._cause)
        self._tried.set()
        self.channels.fail_all(self._unavailable())
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
