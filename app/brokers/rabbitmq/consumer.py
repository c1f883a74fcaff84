"""A RabbitMQ group member that its caller polls at its own pace.

The member's own task keeps the connection and a fair share of the queues. Changes of ownership become
events of ``poll``. A revocation waits, within a time limit, until the caller's next poll shows that it has
handled the event.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Collection, Iterable, Sequence

from app.brokers.driver import JoinRequest
from app.brokers.member import GroupMember, in_order, pause_for
from app.brokers.rabbitmq.aiormq_adapter import spec
from app.brokers.rabbitmq.connection import RabbitConnection, close_channel, connect
from app.brokers.rabbitmq.errors import EXPECTED, error_text, translate
from app.brokers.rabbitmq.group_queues import GroupQueues
from app.brokers.rabbitmq.group_roster import GroupRoster
from app.brokers.rabbitmq.owned_partition import OwnedQueue
from app.brokers.rabbitmq.queue_ownership import QueueOwnership
from app.brokers.rabbitmq.settings import RabbitSettings
from app.brokers.rabbitmq.topology import Topology
from app.errors import BrokerRefused, BrokerUnavailable
from app.model.message import Assigned, Lost, Message, Partition, Revoked

log = logging.getLogger(__name__)

LONGEST_DELAY = 2.0  # seconds before the member reconnects


class RabbitConsumer(GroupMember):
    """A ``Consumer`` of quorum queues in a group."""

    def __init__(self, settings: RabbitSettings, topology: Topology, joining: JoinRequest) -> None:
        super().__init__()
        self.group = joining.group
        self._settings = settings
        self._client_id = joining.client_id
        self._queues = GroupQueues(settings, topology, tuple(joining.topics), joining.group)
        self._ownership = QueueOwnership(settings, topology)
        self._roster = GroupRoster(joining.group, settings.heartbeat)
        self._connection: RabbitConnection | None = None
        self._owned: dict[Partition, OwnedQueue] = {}
        self._epoch = secrets.randbits(62)  # random, so that members have different epochs
        self._asked = asyncio.get_running_loop().time()  # when ownership was checked last
        self._wake = asyncio.Event()  # set when a queue may have become free
        self._paused: dict[Partition, float] = {}  # paused partitions, and since when
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Join the group. Raises BrokerRefused for a topic that does not exist, or the errors in
        ``errors.EXPECTED``."""
        try:
            async with asyncio.timeout(self._settings.request_timeout):
                await self._connect()
                await self._balance()
        except BaseException:
            await self.close()
            raise
        self._task = asyncio.create_task(self._run())

    async def settle(self, messages: Collection[Message]) -> None:
        """Acknowledge the messages at once. One acknowledgement covers several messages, except where an
        earlier message is still unfinished."""
        finished: dict[Partition, list[int]] = {}
        for message in messages:
            owned = self._owned.get(message.partition)
            if owned is not None and owned.epoch == message.epoch:
                finished.setdefault(message.partition, []).append(message.offset)
        for partition, offsets in finished.items():
            self._owned[partition].settle(offsets)

    def window(self, partition: Partition) -> int:
        owned = self._owned.get(partition)
        return 0 if owned is None else owned.window

    def unsettled(self, partition: Partition) -> int:
        """Return the number of messages of a queue that this member has received and not settled. The depth
        that the broker reports does not include these messages."""
        owned = self._owned.get(partition)
        return 0 if owned is None else owned.unsettled

    def pause(self, partitions: Collection[Partition]) -> None:
        now = asyncio.get_running_loop().time()
        for partition in partitions:
            self._paused.setdefault(partition, now)

    def resume(self, partitions: Collection[Partition]) -> None:
        for partition in partitions:
            self._paused.pop(partition, None)
        self._news.set()

    @property
    def trouble(self) -> str:
        """Return the names of queues that this member's group does not read, and the reason. Return an empty
        text if all are read."""
        return self._queues.unread

    def holds(self, message: Message) -> bool:
        owned = self._owned.get(message.partition)
        return owned is not None and owned.epoch == message.epoch and self._roster.has_lease()

    async def commit(self) -> None:
        """Do nothing, because acknowledgements are sent when messages are settled."""

    async def close(self) -> None:
        if self._closed:
            return
        self._end()
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait({self._task})
        await self.commit()
        owned_partitions, self._owned = list(self._owned.values()), {}
        # Acknowledgements were sent earlier, on the same channels.
        await self._close_channels(owned_partitions)
        if self._connection is not None:
            await self._connection.hang_up()

    # The member's own task: keep a connection and a fair share of the queues.

    async def _run(self) -> None:
        patience = self._settings.request_timeout + self._settings.handover
        delay = self._settings.balance_interval
        while not self._closed:
            await pause_for(self._wake, delay)
            self._wake.clear()
            delay = self._settings.balance_interval
            try:
                async with asyncio.timeout(patience):
                    if self._connection is None or self._connection.is_closed:
                        await self._connect()
                    await self._balance()
            except (BrokerUnavailable, *EXPECTED) as error:
                log.warning("group %s: %s", self.group, error_text(error))
                await self._disconnect()
                delay = LONGEST_DELAY
            except Exception as error:  # noqa: BLE001 - poll raises it
                self._fail(translate(error, self._settings.name) or error)
                return

    async def _connect(self) -> None:
        connection = await connect(self._settings, self._client_id)
        self._connection = connection
        connection.closing.add_done_callback(self._on_connection_closed)

    async def _disconnect(self) -> None:
        connection, self._connection = self._connection, None
        self._lose(list(self._owned.values()))
        if connection is not None:
            await connection.drop()

    async def _balance(self) -> None:
        """Take a fair share of the queues without owner. Hand over queues beyond this share to other
        members."""
        connection = self._connection
        if connection is None:
            return
        await self._queues.refresh(connection, self._owned)
        await self._check_owned(connection)
        members = await self._roster.members(connection)
        share = -(-len(self._queues.names) // members)
        surplus = len(self._owned) - share
        if surplus > 0:
            await self._hand_over(list(self._owned.values())[-surplus:])
        await self._hand_over(self._paused_for_long())
        taken: list[OwnedQueue] = []
        for partition in self._candidates():
            if len(self._owned) + len(taken) >= share:
                break
            owned = self._new_partition(partition, connection)
            if await self._take(connection, owned):
                self._watch(owned)
                taken.append(owned)
        await self._start_owning(taken)
        alone = members == 1 and self._roster.counts
        self._queues.note_free(
            self._candidates() if alone else (), asyncio.get_running_loop().time()
        )

    async def _take(self, connection: RabbitConnection, owned: OwnedQueue) -> bool:
        try:
            return await self._ownership.take(
                connection, owned, self._queues.names[owned.partition]
            )
        except BrokerRefused as error:
            if error.kind != "unknown-topic":
                raise
            await self._on_queue_missing(owned.partition)
            return False

    async def _on_queue_missing(self, partition: Partition) -> None:
        """Note that the queue of a partition does not exist."""
        self._queues.expire(partition)

    async def _check_owned(self, connection: RabbitConnection) -> None:
        """Give up queues of which this member is no longer the consumer.

        The check is needed because RabbitMQ 3.10 does not always report that a queue was deleted. That
        happens if a queue of the same name is created at once.
        """
        now = asyncio.get_running_loop().time()
        if now < self._asked + self._settings.metadata_age:
            return
        self._asked = now
        for owned in list(self._owned.values()):
            if owned.partition not in self._queues.names:
                continue  # the broker reports the end of its consumer
            if not await self._ownership.still_owned(
                connection, self._queues.names[owned.partition]
            ):
                log.warning(
                    "group %s: the queue of %s was replaced, or lost this consumer",
                    self.group,
                    owned.partition,
                )
                self._give_up(owned)

    def _candidates(self) -> list[Partition]:
        """Return the partitions that this member does not own. Each member begins the list with another
        partition, so that members seldom try the same one."""
        others = [partition for partition in self._queues.names if partition not in self._owned]
        first = id(self) // 64 % len(others) if others else 0
        return others[first:] + others[:first]

    def _watch(self, owned: OwnedQueue) -> None:
        channel = owned.channel
        if channel is not None:
            channel.closing.add_done_callback(lambda _: self._lose([owned]))
            channel.on_consumer_cancel_callbacks.add(lambda frame: self._cancelled(owned, frame))

    def _new_partition(self, partition: Partition, connection: RabbitConnection) -> OwnedQueue:
        return OwnedQueue(partition, connection, self._news.set)

    async def _prepare(
        self, connection: RabbitConnection, owned_partitions: Sequence[OwnedQueue]
    ) -> None:
        """Prepare owned partitions before their first message is handed out. Queues need no preparation."""

    async def _start_owning(self, owned_partitions: Sequence[OwnedQueue]) -> None:
        self._epoch += 1
        for owned in owned_partitions:
            owned.epoch = self._epoch
        if owned_partitions and self._connection is not None:
            await self._prepare(self._connection, owned_partitions)
        alive = [each for each in owned_partitions if each.channel and not each.channel.is_closed]
        for owned in alive:
            self._owned[owned.partition] = owned
        if alive:
            self._enqueue(Assigned(_partitions(alive), self._epoch))

    async def _hand_over(self, owned_partitions: Sequence[OwnedQueue]) -> None:
        """Hand queues over to other members. Revoke the queues, wait until the caller has handled the
        revocation, and close their channels."""
        if not owned_partitions:
            return
        for owned in owned_partitions:
            owned.revoking = True
        revoked = Revoked(
            _partitions(owned_partitions), max(each.epoch for each in owned_partitions)
        )
        if not await self._revoke_and_wait(revoked, self._settings.handover):
            log.warning("group %s: a revocation was not handled in time", self.group)
        await self.commit()
        for owned in owned_partitions:
            self._paused.pop(owned.partition, None)
            if self._owned.get(owned.partition) is owned:
                del self._owned[owned.partition]
        await self._close_channels(owned_partitions)

    async def _close_channels(self, owned_partitions: Sequence[OwnedQueue]) -> None:
        channels = [owned.channel for owned in owned_partitions if owned.channel is not None]
        await asyncio.gather(*(close_channel(channel) for channel in channels))

    def _paused_for_long(self) -> list[OwnedQueue]:
        before = asyncio.get_running_loop().time() - self._settings.give_back
        return [
            self._owned[partition]
            for partition, since in self._paused.items()
            if since < before and partition in self._owned
        ]

    def _lose(self, owned_partitions: Sequence[OwnedQueue]) -> None:
        """Report to the caller that partitions were lost because their channels were closed. The broker has
        requeued their unfinished messages."""
        gone = [each for each in owned_partitions if self._owned.get(each.partition) is each]
        for owned in gone:
            del self._owned[owned.partition]
        lost = [each for each in gone if not each.revoking]
        if lost:
            self._enqueue(Lost(_partitions(lost), max(each.epoch for each in lost)))
        if gone:
            self._wake.set()

    def _cancelled(
        self, owned: OwnedQueue, _frame: spec.Basic.Cancel | spec.Basic.CancelOk
    ) -> None:
        """Give up a queue. The broker has cancelled its consumer, because the queue was deleted or moved to
        another node."""
        self._give_up(owned)

    def _give_up(self, owned: OwnedQueue) -> None:
        self._lose([owned])
        if owned.channel is not None:
            asyncio.ensure_future(close_channel(owned.channel))  # noqa: RUF006 - it has a time limit of its own

    def _on_connection_closed(self, closing: asyncio.Future[None]) -> None:
        if not closing.cancelled():
            closing.exception()
        if not self._closed:
            self._lose(list(self._owned.values()))

    async def _batch(self) -> tuple[Message, ...]:
        """Return messages of the next owned queue that is not paused. Then put the queue at the end of the
        turns."""
        most = self._settings.max_poll_records
        for partition, owned in list(self._owned.items()):
            if owned.revoking or partition in self._paused:
                continue
            messages = owned.take(most)
            if messages:
                self._owned[partition] = self._owned.pop(partition)
                return tuple(messages)
        return ()


def _partitions(owned_partitions: Iterable[OwnedQueue]) -> tuple[Partition, ...]:
    return in_order(owned.partition for owned in owned_partitions)
