"""One member of a group, at the pace of its caller.

A task of its own keeps the connection and a fair share of the queues; what changes becomes events of
``poll``. A hand-over waits, within a bound, until the next poll says that it was dealt with.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Collection, Iterable, Sequence

from app.brokers.driver import Joining
from app.brokers.member import Member, in_order, pause_for
from app.brokers.rabbitmq.aiormq_adapter import spec
from app.brokers.rabbitmq.connection import Wire, close_channel, connect
from app.brokers.rabbitmq.errors import EXPECTED, translate, words
from app.brokers.rabbitmq.group_queues import GroupQueues
from app.brokers.rabbitmq.group_roster import GroupRoster
from app.brokers.rabbitmq.owned_partition import OwnedPartition
from app.brokers.rabbitmq.queue_ownership import QueueOwnership
from app.brokers.rabbitmq.settings import RabbitSettings
from app.brokers.rabbitmq.topology import Topology
from app.errors import BrokerRefused, BrokerUnavailable
from app.model.message import Assigned, Lost, Message, Partition, Revoked

log = logging.getLogger(__name__)

LONGEST_DELAY = 2.0  # seconds between attempts to connect again


class RabbitConsumer(Member):
    """A ``Consumer``."""

    def __init__(self, settings: RabbitSettings, topology: Topology, joining: Joining) -> None:
        super().__init__()
        self.group = joining.group
        self._settings = settings
        self._client_id = joining.client_id
        self._queues = GroupQueues(settings, topology, tuple(joining.topics), joining.group)
        self._ownership = QueueOwnership(settings, topology)
        self._roster = GroupRoster(joining.group, settings.heartbeat)
        self._wire: Wire | None = None
        self._owned: dict[Partition, OwnedPartition] = {}
        self._epoch = secrets.randbits(62)  # and up: no other member counts there (rule 5)
        self._asked = asyncio.get_running_loop().time()  # whether what is owned still is
        self._look = asyncio.Event()  # something may be free
        self._paused: dict[Partition, float] = {}  # since when
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Join. Raises BrokerRefused for a topic that is not there, or what ``errors.EXPECTED`` names."""
        try:
            async with asyncio.timeout(self._settings.request_timeout):
                await self._connect()
                await self._share()
        except BaseException:
            await self.close()
            raise
        self._task = asyncio.create_task(self._run())

    async def settle(self, messages: Collection[Message]) -> None:
        """Each is acknowledged at once, singly where others before it are open (rule 2)."""
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
        """Messages of a queue that the broker counts as with us: its depth lacks them."""
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
        """Name the queues of the topics that are not read, and why; "" where all are."""
        return self._queues.unread

    def holds(self, message: Message) -> bool:
        owned = self._owned.get(message.partition)
        return owned is not None and owned.epoch == message.epoch and self._roster.sure()

    async def commit(self) -> None:
        """Nothing is deferred: what is settled has left already."""

    async def close(self) -> None:
        if self._closed:
            return
        self._end()
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait({self._task})
        await self.commit()
        owned_partitions, self._owned = list(self._owned.values()), {}
        await self._let_go(
            owned_partitions
        )  # their acknowledgements left before, on the same channels
        if self._wire is not None:
            await self._wire.hang_up()

    # The member's own task: a connection, and a fair share of what is free.

    async def _run(self) -> None:
        patience = self._settings.request_timeout + self._settings.handover
        delay = self._settings.balance_interval
        while not self._closed:
            await pause_for(self._look, delay)
            self._look.clear()
            delay = self._settings.balance_interval
            try:
                async with asyncio.timeout(patience):
                    if self._wire is None or self._wire.is_closed:
                        await self._connect()
                    await self._share()
            except (BrokerUnavailable, *EXPECTED) as error:
                log.warning("group %s: %s", self.group, words(error))
                await self._disconnect()
                delay = LONGEST_DELAY
            except Exception as error:  # noqa: BLE001 - refused, out of range, or a bug: poll raises it
                self._fail(translate(error, self._settings.name) or error)
                return

    async def _connect(self) -> None:
        wire = await connect(self._settings, self._client_id)
        self._wire = wire
        wire.closing.add_done_callback(self._wire_closed)

    async def _disconnect(self) -> None:
        wire, self._wire = self._wire, None
        self._lose(list(self._owned.values()))
        if wire is not None:
            await wire.drop()

    async def _share(self) -> None:
        """Take what is free and due to us, and give away what is due to others."""
        wire = self._wire
        if wire is None:
            return
        await self._queues.look(wire, self._owned)
        await self._look_after_owned(wire)
        members = await self._roster.members(wire)
        share = -(-len(self._queues.names) // members)
        surplus = len(self._owned) - share
        if surplus > 0:
            await self._release(list(self._owned.values())[-surplus:])
        await self._release(self._paused_for_long())
        taken: list[OwnedPartition] = []
        for partition in self._in_turn():
            if len(self._owned) + len(taken) >= share:
                break
            owned = self._make(partition, wire)
            if await self._take(wire, owned):
                self._watch(owned)
                taken.append(owned)
        await self._own(taken)
        alone = members == 1 and self._roster.counts
        self._queues.free(self._in_turn() if alone else (), asyncio.get_running_loop().time())

    async def _take(self, wire: Wire, owned: OwnedPartition) -> bool:
        try:
            return await self._ownership.take(wire, owned, self._queues.names[owned.partition])
        except BrokerRefused as error:
            if error.kind != "unknown-topic":
                raise
            self._vanished(owned.partition)
            return False

    def _vanished(self, partition: Partition) -> None:
        """Note that the queue is not there."""
        self._queues.vanished(partition)

    async def _look_after_owned(self, wire: Wire) -> None:
        """Give up a queue that no longer has us as its consumer. RabbitMQ 3.10 does not always say that a queue
        was deleted where another of its name is made at once."""
        now = asyncio.get_running_loop().time()
        if now < self._asked + self._settings.metadata_age:
            return
        self._asked = now
        for owned in list(self._owned.values()):
            if owned.partition not in self._queues.names:
                continue  # its end is told by the broker
            if not await self._ownership.lasts(wire, self._queues.names[owned.partition]):
                log.warning("group %s: %s has another queue now", self.group, owned.partition)
                self._give_up(owned)

    def _in_turn(self) -> list[Partition]:
        """What is not ours; each member begins elsewhere, so that few meet."""
        others = [partition for partition in self._queues.names if partition not in self._owned]
        first = id(self) // 64 % len(others) if others else 0
        return others[first:] + others[:first]

    def _watch(self, owned: OwnedPartition) -> None:
        channel = owned.channel
        if channel is not None:
            channel.closing.add_done_callback(lambda _: self._lose([owned]))
            channel.on_consumer_cancel_callbacks.add(lambda frame: self._cancelled(owned, frame))

    def _make(self, partition: Partition, wire: Wire) -> OwnedPartition:
        return OwnedPartition(partition, wire, self._news.set)

    async def _begin(self, wire: Wire, owned_partitions: Sequence[OwnedPartition]) -> None:
        """Before these are handed out for the first time: a queue has nothing to prepare."""

    async def _own(self, owned_partitions: Sequence[OwnedPartition]) -> None:
        self._epoch += 1
        for owned in owned_partitions:
            owned.epoch = self._epoch
        if owned_partitions and self._wire is not None:
            await self._begin(self._wire, owned_partitions)
        alive = [each for each in owned_partitions if each.channel and not each.channel.is_closed]
        for owned in alive:
            self._owned[owned.partition] = owned
        if alive:
            self._tell(Assigned(_partitions(alive), self._epoch))

    async def _release(self, owned_partitions: Sequence[OwnedPartition]) -> None:
        """A hand-over: told, dealt with within a bound, given back."""
        if not owned_partitions:
            return
        for owned in owned_partitions:
            owned.revoking = True
        revoked = Revoked(
            _partitions(owned_partitions), max(each.epoch for each in owned_partitions)
        )
        if not await self._hand_over(revoked, self._settings.handover):
            log.warning("group %s: a revocation was not handled in time", self.group)
        await self.commit()
        for owned in owned_partitions:
            self._paused.pop(owned.partition, None)
            if self._owned.get(owned.partition) is owned:
                del self._owned[owned.partition]
        await self._let_go(owned_partitions)

    async def _let_go(self, owned_partitions: Sequence[OwnedPartition]) -> None:
        channels = [owned.channel for owned in owned_partitions if owned.channel is not None]
        await asyncio.gather(*(close_channel(channel) for channel in channels))

    def _paused_for_long(self) -> list[OwnedPartition]:
        before = asyncio.get_running_loop().time() - self._settings.give_back
        return [
            self._owned[partition]
            for partition, since in self._paused.items()
            if since < before and partition in self._owned
        ]

    def _lose(self, owned_partitions: Sequence[OwnedPartition]) -> None:
        """Their channels are gone, and the broker has given what was open to others."""
        gone = [each for each in owned_partitions if self._owned.get(each.partition) is each]
        for owned in gone:
            del self._owned[owned.partition]
        told = [each for each in gone if not each.revoking]
        if told:
            self._tell(Lost(_partitions(told), max(each.epoch for each in told)))
        if gone:
            self._look.set()

    def _cancelled(
        self, owned: OwnedPartition, _frame: spec.Basic.Cancel | spec.Basic.CancelOk
    ) -> None:
        """The broker ended it: the queue was deleted, or moved to another node."""
        self._give_up(owned)

    def _give_up(self, owned: OwnedPartition) -> None:
        self._lose([owned])
        if owned.channel is not None:
            asyncio.ensure_future(close_channel(owned.channel))  # noqa: RUF006 - bounded by itself

    def _wire_closed(self, closing: asyncio.Future[None]) -> None:
        if not closing.cancelled():
            closing.exception()
        if not self._closed:
            self._lose(list(self._owned.values()))

    async def _batch(self) -> tuple[Message, ...]:
        """What came, of queues that are ours to hand out; the one served goes to the end of the turn."""
        most = self._settings.max_poll_records
        for partition, owned in list(self._owned.items()):
            if owned.revoking or partition in self._paused:
                continue
            messages = owned.take(most)
            if messages:
                self._owned[partition] = self._owned.pop(partition)
                return tuple(messages)
        return ()


def _partitions(owned_partitions: Iterable[OwnedPartition]) -> tuple[Partition, ...]:
    return in_order(owned.partition for owned in owned_partitions)
