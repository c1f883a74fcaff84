"""Publish records through one channel after another of a connection. Each channel has confirms."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from functools import partial

from app.brokers.member import pause_for
from app.brokers.rabbitmq.aiormq_adapter import (
    AbstractChannel,
    ConfirmChannel,
    DeliveredMessage,
    amqp,
)
from app.brokers.rabbitmq.connection import RabbitConnection, close_channel
from app.brokers.rabbitmq.errors import error_text
from app.brokers.rabbitmq.publish_queue import PublishQueue
from app.brokers.rabbitmq.settings import RabbitSettings
from app.brokers.rabbitmq.targets import RabbitTargets, TargetPartitions
from app.brokers.rabbitmq.unconfirmed import UnconfirmedRecords

log = logging.getLogger(__name__)

SETTLE_WITHIN = 2.0  # seconds in which the records of a channel that is replaced may be confirmed


class ChannelReplaced(Exception):
    """Another channel takes the place of this one, because the broker rejected or returned a record on it.

    - A channel of RabbitMQ 3.10 looks up the leader of a queue once, when it first publishes there. If the node of the
      leader ends at this moment, the channel rejects every record until the node is back. Another channel finds the new
      leader.
    - A record that was rejected or returned is not in its stream. The count of the stream then differs from the count of
      the channel (``publish_channels``).
    """


class ChannelUnused(Exception):
    """The channel had no record for long."""


class PublishChannel:
    """Publishes the records of one queue of records. All methods run on the event loop.

    Attributes:
        outbox: The records that wait to be published or confirmed.
    """

    def __init__(
        self,
        settings: RabbitSettings,
        targets: RabbitTargets,
        certain: Callable[[TargetPartitions], bool],
        *,
        counted: bool = False,
    ) -> None:
        """Create the channel without opening it.

        Args:
            settings: The settings of the broker.
            targets: The targets, which learn of records that were returned.
            certain: Return True if a returned record of a target would be returned again.
            counted: Whether the broker must count the records as the channel does, because they go to one stream.
        """
        self.outbox = PublishQueue(settings)
        self._settings = settings
        self._targets = targets
        self._certain = certain
        self._counted = counted
        self._broken: asyncio.Future[BaseException] | None = None

    async def run(self, connection: RabbitConnection, opened: Callable[[], None]) -> None:
        """Publish through one channel after another. Return when the channel was unused for long.

        Raise the error that ended the connection.

        Args:
            connection: The connection.
            opened: Called when a channel was opened, before records are sent.
        """
        while True:
            broken: asyncio.Future[BaseException] = asyncio.get_running_loop().create_future()
            self._broken = broken
            channel = await self._open(connection, broken, opened)
            try:
                error = await broken
            finally:
                self.outbox.channel = None
            if isinstance(error, ChannelReplaced):
                await self._settle()
            elif not isinstance(error, ChannelUnused):
                if connection.is_closed or not isinstance(error, amqp.ChannelClosed):
                    raise error
                log.warning(
                    "RabbitMQ %s closed a channel: %s", self._settings.name, error_text(error)
                )
                self.outbox.on_channel_closed(error, self._targets)
            await close_channel(channel)
            if isinstance(error, ChannelUnused):
                return

    def check(self, connection: RabbitConnection, now: float) -> None:
        """Replace a channel that rejects records. End the connection if the broker no longer confirms records.

        The connection stays open if the broker blocks publishers. The broker reports the block and continues by itself.
        """
        if self.outbox.rejecting:
            self.end(ChannelReplaced())
        waited = now - self.outbox.progress
        within = self._settings.request_timeout
        if self.outbox.unconfirmed and not connection.blocked and waited > within:
            self.end(TimeoutError(f"no confirm for {waited:.1f} s"))

    def end(self, error: BaseException) -> None:
        """Use the open channel no more, for this reason."""
        if self._broken is not None and not self._broken.done():
            self._broken.set_result(error)
            self.outbox.channel = None

    async def _open(
        self,
        connection: RabbitConnection,
        broken: asyncio.Future[BaseException],
        opened: Callable[[], None],
    ) -> AbstractChannel:
        confirmed = self._on_confirmed if self._counted else self.outbox.confirmed
        hot = ConfirmChannel(confirmed, self._on_returned)
        async with asyncio.timeout(self._settings.request_timeout):
            channel = await connection.open_channel(hot, confirms=self._settings.confirms)
        channel.closing.add_done_callback(partial(_on_closed, broken))
        opened()
        unconfirmed = UnconfirmedRecords(
            self._settings.name, self._certain, is_recreated=self._targets.is_recreated
        )
        self.outbox.open(connection, channel, unconfirmed)
        return channel

    async def _settle(self) -> None:
        """Wait for the confirms of a channel that gets no more records. Queue the records without one again."""
        self.outbox.settled.clear()
        if self.outbox.unconfirmed:
            await pause_for(self.outbox.settled, SETTLE_WITHIN)
        self.outbox.requeue_unconfirmed()

    def _on_confirmed(self, tag: int, multiple: bool, stored: bool) -> None:
        self.outbox.confirmed(tag, multiple, stored)
        if not stored:
            self.end(ChannelReplaced())

    def _on_returned(self, message: DeliveredMessage) -> None:
        self.outbox.unconfirmed.returned(message)
        self._targets.on_returned(message.exchange or "")
        if self._counted:
            self.end(ChannelReplaced())


def _on_closed(broken: asyncio.Future[BaseException], closing: asyncio.Future[None]) -> None:
    error = None if closing.cancelled() else closing.exception()
    if not broken.done():
        broken.set_result(error or ConnectionError("the channel was closed"))
