"""Publishes to RabbitMQ: one connection after another, one channel with confirms, and a watchdog. Where a confirm does
not come the connection is given up, and the next sends only what is unanswered.
"""

from __future__ import annotations

import asyncio
import logging
from functools import partial
from random import random

from app.brokers.driver import Submission
from app.brokers.member import pause_for
from app.brokers.rabbitmq.aiormq_adapter import AbstractChannel, Confirms, DeliveredMessage, amqp
from app.brokers.rabbitmq.connection import Wire, close_channel, connect
from app.brokers.rabbitmq.errors import EXPECTED, words
from app.brokers.rabbitmq.outbox import Outbox
from app.brokers.rabbitmq.settings import RabbitSettings
from app.brokers.rabbitmq.targets import Batchers, Targets
from app.brokers.rabbitmq.topology import Topology
from app.brokers.rabbitmq.unconfirmed import Unconfirmed
from app.errors import BoundReached, BrokerError, BrokerUnavailable
from app.model.metadata import Health
from app.telemetry.tasks import keep

log = logging.getLogger(__name__)

FIRST_DELAY, LONGEST_DELAY = 0.1, 2.0  # seconds between attempts to connect
START_WITHIN = 5.0
RECOVERY = 10.0  # seconds that a broker which was away may take to have its queues back
LOOKS = 8  # of the watchdog, within the time that a confirm may take


class Producer:
    """Publishes through one connection after another. All on the event loop."""

    def __init__(self, settings: RabbitSettings, topology: Topology) -> None:
        self.settings = settings
        self.name = settings.name
        self.outbox = Outbox(settings)
        self.targets = Targets(settings, topology, self.outbox.join)
        self._cause = ""  # why there is no connection
        self._certain_from = 0.0  # of the loop's clock: from then on what has no route has none
        self._tried = asyncio.Event()  # one attempt to connect has ended
        self._broken: asyncio.Future[BaseException] | None = None
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Returns when the first attempt has ended, or soon: it heals by itself."""
        self._task = keep("rabbitmq-producer", self._run, of=self.name)
        if not await pause_for(self._tried, START_WITHIN):
            self._cause = self._cause or "no answer yet"

    async def stop(self) -> None:
        """What is queued is told that it was not sent, what is on the wire that nobody knows."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])
        await self.targets.stop()
        self.outbox.put_back()
        self.outbox.give_up(BrokerUnavailable(f"log {self.name} has stopped", broker=self.name))

    def publish(self, submission: Submission) -> None:
        wire, batchers = self.outbox.wire, self.targets.known.get(submission.topic)
        if wire is None and self._cause:
            submission.fail(self._unavailable())
        elif wire is not None and wire.blocked:
            submission.fail(self._blocked(wire.blocked))
        elif batchers is None or wire is None or batchers.found_on != wire.number:
            self.targets.ask(submission)
        else:
            self.outbox.join(batchers, submission)

    async def health(self) -> Health:
        """Asks the broker, so that an idle producer knows too."""
        wire = self.outbox.wire
        if wire is not None and wire.blocked:
            return Health(healthy=False, cause=str(self._blocked(wire.blocked)))
        if wire is not None and not self._cause:
            try:
                await wire.probe()
            except EXPECTED as error:
                return Health(healthy=False, cause=self._away_text(error))
        return Health(healthy=not self._cause, cause=self._cause)

    async def _run(self) -> None:
        delay = FIRST_DELAY
        while True:
            try:
                wire = await connect(self.settings, changed=self._blocked_changed)
            except Exception as error:
                self._lose(error)
                if not isinstance(error, EXPECTED):
                    raise
                await asyncio.sleep(delay * (0.5 + random() / 2))  # noqa: S311 - spread, no secret
                delay = min(delay * 2, LONGEST_DELAY)
                continue
            try:
                await self._publish_through(wire)
            except EXPECTED as error:
                self._cause = self._away_text(error)
                log.warning("the connection to RabbitMQ %s is lost: %s", self.name, words(error))
            finally:
                self.outbox.wire = self.targets.wire = self.outbox.channel = None
                self.outbox.put_back()
                await wire.drop()
            delay = FIRST_DELAY
            await asyncio.sleep(FIRST_DELAY * random())  # noqa: S311 - spread, no secret

    async def _publish_through(self, wire: Wire) -> None:
        """One channel after another, until the connection is gone: then it raises why."""
        while True:
            self._broken = asyncio.get_running_loop().create_future()
            channel = await self._open(wire)
            watching = keep("rabbitmq-confirms", partial(self._watch, wire), of=self.name)
            try:
                error = await self._broken
            finally:
                watching.cancel()
                self.outbox.channel = None
            if wire.is_closed or not isinstance(error, amqp.ChannelClosed):
                raise error
            log.warning("RabbitMQ %s closed a channel: %s", self.name, words(error))
            self.outbox.judge(error, self.targets)
            await close_channel(channel)

    async def _open(self, wire: Wire) -> AbstractChannel:
        hot = Confirms(self.outbox.confirmed, self._flight_returned)
        async with asyncio.timeout(self.settings.request_timeout):
            channel = await wire.open_channel(hot, confirms=self.settings.confirms)
        unconfirmed = Unconfirmed(
            self.name,
            self._certain,
            made=self.targets.is_made,
            in_turn=self.settings.kind == "stream",
        )
        if wire is not self.outbox.wire and self._cause:
            self._certain_from = asyncio.get_running_loop().time() + RECOVERY
        channel.closing.add_done_callback(self._closed)
        self.targets.wire = wire
        self._cause = ""
        self._tried.set()
        self.outbox.open(wire, channel, unconfirmed)
        return channel

    def _certain(self, batchers: Batchers) -> bool:
        """Whether what leads nowhere will lead nowhere. A node that starts accepts connections before its
        streams have leaders, and until then it returns what goes there as if there were no queue."""
        if self.outbox.wire is None or batchers.found_on != self.outbox.wire.number:
            return False  # nobody has asked for its queues since
        now = asyncio.get_running_loop().time()
        return batchers.target.is_seen_whole or now >= self._certain_from

    def _flight_returned(self, message: DeliveredMessage) -> None:
        self.outbox.unconfirmed.returned(message)
        self.targets.came_back(message.exchange or "")

    def _closed(self, closing: asyncio.Future[None]) -> None:
        error = None if closing.cancelled() else closing.exception()
        self._break(error or ConnectionError("the channel was closed"))

    def _break(self, error: BaseException) -> None:
        if self._broken is not None and not self._broken.done():
            self._broken.set_result(error)

    async def _watch(self, wire: Wire) -> None:
        """A broker that has stopped to confirm is given up. One that blocks its publishers says so,
        and goes on by itself: what it has of us by then it would store either way."""
        within = self.settings.request_timeout
        overtaken = 0
        while True:
            await asyncio.sleep(within / LOOKS)
            self.targets.look()
            before, overtaken = overtaken, self.outbox.unconfirmed.overtaken()
            if overtaken and overtaken == before:
                self._break(TimeoutError("a stream confirmed records out of their order"))
            waited = asyncio.get_running_loop().time() - self.outbox.progress
            if self.outbox.unconfirmed and not wire.blocked and waited > within:
                self._break(TimeoutError(f"no confirm for {waited:.1f} s"))

    def _blocked_changed(self) -> None:
        wire = self.outbox.wire
        if wire is None:
            return
        self.outbox.progress = asyncio.get_running_loop().time()
        if wire.blocked:
            log.warning("%s", self._blocked(wire.blocked))
            self.outbox.give_up(self._blocked(wire.blocked))
        else:
            log.warning("RabbitMQ %s accepts publishes again", self.name)
            self.outbox.schedule()

    def _lose(self, error: BaseException) -> None:
        cause, self._cause = self._cause, self._away_text(error)
        if self._cause != cause:
            log.warning("%s", self._cause)
        self._tried.set()
        self.outbox.give_up(self._unavailable())
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
            f"RabbitMQ {self.name} cannot be reached at {self.settings.addresses}: {words(error)}"
            " (is it running, and are address and credentials right?)"
        )
