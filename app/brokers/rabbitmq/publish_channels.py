"""The channels through which a connection publishes: one for all queues, and one for each stream.

When the leader of a stream changes, RabbitMQ 3 sends unconfirmed records of a channel to the new leader again. It numbers
them by the count of the channel instead of the count of the stream (fixed by its pull request 12236). If the channel has
published to other streams too, these numbers are too high. The stream then takes later records for copies, and
confirms them without storing them. On a channel that publishes to one stream alone, both counts are equal.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator

from app.brokers.driver import Submission
from app.brokers.rabbitmq.connection import RabbitConnection
from app.brokers.rabbitmq.publish_channel import ChannelUnused, PublishChannel
from app.brokers.rabbitmq.publish_queue import PublishQueue
from app.brokers.rabbitmq.settings import RabbitSettings
from app.brokers.rabbitmq.targets import RabbitTargets, TargetPartitions
from app.errors import BrokerError
from app.telemetry.tasks import keep, stop_task

CHECKS = 8  # checks of the channels in the time that a confirm may take
UNUSED = 60.0  # seconds after which the channel of a stream without records is closed
MOST = 1_000  # channels of streams from which on those without records are closed at once

Stream = tuple[str, str]
"""The exchange and the routing key that lead to a stream."""


class PublishChannels:
    """The channels of one connection after another. All methods run on the event loop.

    Attributes:
        main: The channel for all queues, and for exchanges of other clients.
        connection: The connection in use, or None.
    """

    def __init__(
        self,
        settings: RabbitSettings,
        targets: RabbitTargets,
        certain: Callable[[TargetPartitions], bool],
    ) -> None:
        """Create the channels without a connection. See ``PublishChannel`` for the arguments."""
        self.main = PublishChannel(settings, targets, certain)
        self.connection: RabbitConnection | None = None
        self._settings = settings
        self._targets = targets
        self._certain = certain
        self._streams: dict[Stream, PublishChannel] = {}
        self._running: dict[PublishChannel, asyncio.Task[None]] = {}
        self._lost: asyncio.Future[BaseException] | None = None

    async def run(self, connection: RabbitConnection, opened: Callable[[], None]) -> None:
        """Publish through the channels of a connection. Raise the error that ended it.

        Args:
            connection: The connection.
            opened: Called when the main channel was opened.
        """
        lost = self._lost = asyncio.get_running_loop().create_future()

        def use() -> None:
            self.connection = connection
            opened()
            for each in self._streams.values():
                self._start(each, connection)

        watching = keep(
            "rabbitmq-confirms", lambda: self._watch(connection), of=self._settings.name
        )
        self._running[self.main] = asyncio.create_task(self._run_one(self.main, connection, use))
        try:
            raise await lost
        finally:
            self.connection = None
            await stop_task(watching)
            await self._stop()

    def join(self, batchers: TargetPartitions, submission: Submission) -> None:
        """Queue the records of a submission, each for its channel."""
        if self._settings.kind != "stream" or not batchers.target.has_known_queues:
            self.main.outbox.join(batchers, submission)
            return
        for index, record in enumerate(submission.records):
            number = batchers.partition(record.key)
            stream = batchers.target.exchange, batchers.target.routing_keys[number]
            self._channel(stream).outbox.add((submission, index, record, batchers, number))
        batchers.move_on()

    def outboxes(self) -> Iterator[PublishQueue]:
        yield self.main.outbox
        for each in self._streams.values():
            yield each.outbox

    def fail_all(self, error: BrokerError) -> None:
        """Fail all records, as ``PublishQueue.fail_all`` does."""
        for each in self.outboxes():
            each.fail_all(error)

    def _channel(self, stream: Stream) -> PublishChannel:
        found = self._streams.get(stream)
        if found is None:
            if len(self._streams) >= MOST:
                self._close_unused(age=0.0)
            found = PublishChannel(self._settings, self._targets, self._certain, counted=True)
            self._streams[stream] = found
            if self.connection is not None:
                self._start(found, self.connection)
        return found

    def _start(self, channel: PublishChannel, connection: RabbitConnection) -> None:
        if channel not in self._running:
            run = self._run_one(channel, connection, lambda: None)
            self._running[channel] = asyncio.create_task(run)

    async def _run_one(
        self, channel: PublishChannel, connection: RabbitConnection, opened: Callable[[], None]
    ) -> None:
        """Run a channel. Its error ends the connection."""
        lost = self._lost
        try:
            await channel.run(connection, opened)
        except Exception as error:  # noqa: BLE001 - ``run`` raises it
            if lost is not None and not lost.done():
                lost.set_result(error)
        finally:
            self._running.pop(channel, None)

    async def _stop(self) -> None:
        """End all channels. Their unconfirmed records are queued again. Forget streams without records."""
        running = list(self._running.values())
        for task in running:
            task.cancel()
        if running:
            await asyncio.wait(running)
        for each in self.outboxes():
            each.close()
        self._streams = {
            stream: each for stream, each in self._streams.items() if not each.outbox.is_empty
        }

    async def _watch(self, connection: RabbitConnection) -> None:
        """Check all channels from time to time, and count the queues of topics in use again if that is due."""
        while True:
            await asyncio.sleep(self._settings.request_timeout / CHECKS)
            self._targets.refresh_if_due()
            now = asyncio.get_running_loop().time()
            for each in (self.main, *self._streams.values()):
                each.check(connection, now)
            self._close_unused(age=UNUSED)

    def _close_unused(self, age: float) -> None:
        """Close the channels of streams that had no record for ``age`` seconds."""
        before = asyncio.get_running_loop().time() - age
        for stream, each in list(self._streams.items()):
            if each.outbox.is_empty and each.outbox.progress <= before:
                del self._streams[stream]  # a new record gets a new channel
                each.end(ChannelUnused())
