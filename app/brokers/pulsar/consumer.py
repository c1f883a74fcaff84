"""A member of a Failover subscription that its caller polls at its own pace.

Each partition has a consumer of its own in the client library, so that one partition can be paused. A message
is acknowledged as soon as it is finished; unfinished messages are delivered to the next owner. Pulsar's
Key_Shared subscriptions are not used, because on every log a partition has one owner.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any
from uuid import uuid4

from app.brokers.driver import JoinRequest
from app.brokers.member import GroupMember, OwnershipChange, in_order
from app.brokers.pulsar.admin import PulsarAdmin
from app.brokers.pulsar.answers import PartitionStats
from app.brokers.pulsar.connection import CLOSE_WITHIN, PulsarConnection
from app.brokers.pulsar.errors import ClientError, translate
from app.brokers.pulsar.outage_log import PartitionFaults, fault_of
from app.brokers.pulsar.owned_partition import STANDBY, PulsarPartition
from app.brokers.pulsar.ownership import OwnershipChecker
from app.brokers.pulsar.positions import wire_name
from app.brokers.pulsar.settings import PulsarSettings
from app.brokers.pulsar.start_positions import prepare
from app.model.message import Assigned, Lost, Message, Partition, Revoked

log = logging.getLogger(__name__)

JOINS = 32  # partitions of a member that are rejoined at once; each needs a thread
ACKS_LEAVE = 0.12  # seconds; the library sends acknowledgements ten times a second


class PulsarConsumer(GroupMember):
    """A ``Consumer`` of Pulsar topics in a Failover subscription."""

    def __init__(
        self,
        settings: PulsarSettings,
        admin: PulsarAdmin,
        connection: PulsarConnection,
        owners: OwnershipChecker,
        joining: JoinRequest,
    ) -> None:
        super().__init__()
        self.topics: Sequence[str] = tuple(joining.topics)
        self._settings = settings
        self._admin = admin
        self._connection = connection
        self._owners = owners
        self._group = joining.group
        self._start = joining.start
        self._name = f"{joining.client_id or settings.client_id}-{uuid4().hex[:12]}"
        self._owned: dict[str, PulsarPartition] = {}  # by the full name of the partition
        self._by_partition: dict[Partition, PulsarPartition] = {}
        self._epoch = secrets.randbits(62)  # random, so that members have different epochs
        self._turn = 0
        self._faults = PartitionFaults()
        self._returning: dict[str, asyncio.Task[None]] = {}  # partitions that are being rejoined
        self._joins = asyncio.Semaphore(JOINS)

    async def start(self) -> None:
        """Join the subscription. Raises AdminError, ClientError or httpx.HTTPError, and PositionOutOfRange
        for an invalid start."""
        try:
            await prepare(self._admin, self._group, self.topics, self._start)
            for topic in self.topics:
                await self._join_partitions(topic, await self._admin.wires(topic))
        except BaseException:
            await self.close()
            raise
        self._owners.join(self)

    async def settle(self, messages: Collection[Message]) -> None:
        for message in messages:
            owned = self._by_partition.get(message.partition)
            if owned is not None and owned.epoch != STANDBY:
                owned.settle(message)

    def window(self, partition: Partition) -> int:
        owned = self._by_partition.get(partition)
        return 0 if owned is None else owned.window

    def pause(self, partitions: Collection[Partition]) -> None:
        """Stop handing out messages of these partitions. Ownership and a bounded number of prefetched
        messages are kept."""
        for owned in self._of(partitions):
            owned.paused = True

    def resume(self, partitions: Collection[Partition]) -> None:
        for owned in self._of(partitions):
            owned.paused = False
        self._news.set()

    def holds(self, message: Message) -> bool:
        owned = self._by_partition.get(message.partition)
        return (
            owned is not None
            and owned.epoch == message.epoch
            and not owned.leaving
            and time.monotonic() < owned.lease_until
        )

    async def commit(self) -> None:
        """Wait until the broker has received the acknowledgements of all settled messages.

        The wait lets the library send them. Then an answer on the same connection proves that the broker
        has them.
        """
        owned_partitions = [
            owned for owned in self._owned.values() if owned.settled and owned.connected()
        ]
        if not owned_partitions:
            return
        for owned in owned_partitions:
            owned.settled = False
        await asyncio.sleep(ACKS_LEAVE)
        try:
            for owned in owned_partitions:
                if owned.handle is None:  # replaced meanwhile; its close sent the acknowledgements
                    continue
                await self._connection.bridge.ask(
                    owned.handle.get_last_message_id, within=self._settings.operation_timeout
                )
        except (ClientError, TimeoutError) as error:
            log.warning("group %s: a commit failed and will be retried: %s", self._group, error)
            for owned in owned_partitions:
                owned.settled = True

    async def close(self) -> None:
        """Leave the subscription within a time limit. Closing a consumer of the library sends its
        acknowledgements first."""
        if self._closed:
            return
        self._end()
        await self._owners.leave(self)
        for task in (returning := list(self._returning.values())):
            task.cancel()
        if returning:
            await asyncio.wait(returning)
        handles = [owned.handle for owned in self._owned.values() if owned.handle is not None]
        for owned in self._owned.values():
            owned.handle = None
            owned.release()
        await asyncio.gather(*(self._close_handle(handle) for handle in handles))

    # The methods of ``ownership.OwnershipListener``.

    def busy(self, topic: str) -> bool:
        """Return True if the topic has unfinished or waiting messages, or a change of ownership in
        progress."""
        return any(owned.busy for owned in self._owned.values() if owned.partition.topic == topic)

    async def apply_ownership(
        self, topic: str, stats: Mapping[str, PartitionStats], asked: float
    ) -> bool:
        """Apply the owners that the broker reported. Return True if anything has changed.

        If the broker reports no owner for a partition, nothing is changed, because its owner may just be
        starting.

        Args:
            topic: The topic.
            stats: Statistics by the full name of the partition.
            asked: When the broker was asked, in seconds of the monotonic clock.
        """
        gained: list[PulsarPartition] = []
        gone: list[PulsarPartition] = []
        for owned in [owned for owned in self._owned.values() if owned.partition.topic == topic]:
            active = self._active(stats.get(owned.wire))
            if active == self._name and owned.connected():
                self._confirm_own(owned, asked, gained)
            elif active and active != self._name:
                self._note_other_owner(owned, asked, gone)
        self._revoke_partitions(gone)
        self._gain(gained)
        added = {
            number: wire for number, wire in self._numbered(topic, stats) if wire not in self._owned
        }
        if added and not self._closed:
            try:
                await self._join_partitions(topic, added)
            except (ClientError, TimeoutError) as error:
                log.warning(
                    "group %s: a new partition of %s could not be joined: %s",
                    self._group,
                    topic,
                    error,
                )
        return bool(gained or gone or added)

    def _active(self, stats: PartitionStats | None) -> str | None:
        subscription = stats.subscriptions.get(self._group) if stats else None
        return subscription.active_consumer_name if subscription else None

    def _confirm_own(
        self, owned: PulsarPartition, asked: float, gained: list[PulsarPartition]
    ) -> None:
        if not owned.leaving:
            owned.lease_until = asked + self._settings.lease
        if owned.epoch != STANDBY:
            return
        if owned.forgot:
            self._join_again(owned)
        else:
            gained.append(owned)

    def _note_other_owner(
        self, owned: PulsarPartition, asked: float, gone: list[PulsarPartition]
    ) -> None:
        if owned.epoch == STANDBY:
            owned.belongs_to_another(asked)
        elif not owned.leaving:
            gone.append(owned)

    async def check_connections(self) -> None:
        """Give up partitions whose connection was lost. Join a partition again if its connection does not
        recover.

        Without the new join, the library would retry only once a minute. The join runs in a task of its own.
        Otherwise an unreachable topic would let the leases of other topics expire.
        """
        now = time.monotonic()
        for owned in list(self._owned.values()):
            if owned.connected():
                owned.lost_since = None
                continue
            owned.lost_since = owned.lost_since or now
            if owned.epoch != STANDBY:
                self._lose(owned)
            if owned.handle is not None:  # else a new one is on its way, and may have got messages
                owned.starts_over()
            if now - owned.lost_since > self._settings.reconnect_within:
                self._join_again(owned)

    def _gain(self, owned_partitions: Sequence[PulsarPartition]) -> None:
        if not owned_partitions:
            return
        self._epoch += 1
        for owned in owned_partitions:
            owned.own(self._epoch)
        self._enqueue(Assigned(_partitions(owned_partitions), self._epoch))

    def _revoke_partitions(self, owned_partitions: Iterable[PulsarPartition]) -> None:
        """Revoke partitions, because another member reads them now or soon. No new delivery starts.
        Deliveries that finish still count."""
        by_epoch: dict[int, list[PulsarPartition]] = {}
        for owned in owned_partitions:
            owned.leaving = True
            by_epoch.setdefault(owned.epoch, []).append(owned)
        for epoch, leaving in by_epoch.items():
            self._enqueue(Revoked(_partitions(leaving), epoch))

    def _lose(self, owned: PulsarPartition) -> None:
        epoch = owned.epoch
        owned.release()
        self._enqueue(Lost((owned.partition,), epoch))

    def _rewound(self, owned: PulsarPartition) -> None:
        """Begin again with all unfinished messages of a partition. Another member has owned the partition
        between two checks."""
        self._lose(owned)
        owned.starts_over()
        self._gain([owned])

    def _on_arrival(self, owned: PulsarPartition) -> None:
        if owned.epoch == STANDBY or owned.leaving:
            self._owners.ask_soon()
        self._news.set()

    def _on_handled(self, change: OwnershipChange) -> None:
        if isinstance(change, Revoked):
            for owned in self._of(change.partitions):
                if owned.leaving and owned.epoch == change.epoch:
                    owned.release()
            self._owners.ask_soon()

    async def _batch(self) -> tuple[Message, ...]:
        """Return messages of all owned partitions that are not paused. Each call begins with another
        partition."""
        owned_partitions = [
            owned
            for owned in self._owned.values()
            if owned.epoch != STANDBY and not owned.leaving and not owned.paused
        ]
        messages: list[Message] = []
        self._turn += 1
        for number in range(len(owned_partitions)):
            room = self._settings.max_poll_records - len(messages)
            messages += owned_partitions[(self._turn + number) % len(owned_partitions)].take(room)
        return tuple(messages)

    async def _join_partitions(self, topic: str, wires: Mapping[int, str]) -> None:
        owned_partitions = [
            self._owned_at(Partition(topic, number), wire) for number, wire in wires.items()
        ]
        await asyncio.gather(*(self._open(owned) for owned in owned_partitions))

    def _owned_at(self, partition: Partition, wire: str) -> PulsarPartition:
        owned = PulsarPartition(
            partition, wire, self._connection.bridge, ahead=self._settings.receiver_queue,
            arrived=self._on_arrival, rewound=self._rewound,
        )  # fmt: skip
        self._owned[wire] = self._by_partition[partition] = owned
        return owned

    async def _open(self, owned: PulsarPartition) -> None:
        listener = owned.new_listener()
        handle = await self._connection.consumer(owned.wire, self._group, self._name, listener)
        if self._closed:
            self._connection.bridge.run_in_background(handle.close)
        else:
            owned.attach(handle)

    def _join_again(self, owned: PulsarPartition) -> None:
        """Replace the consumer of the library in a task, unless that is under way."""
        if owned.wire not in self._returning and not self._closed:
            self._returning[owned.wire] = asyncio.create_task(self._open_again(owned))

    async def _open_again(self, owned: PulsarPartition) -> None:
        handle, owned.handle = owned.handle, None
        try:
            async with self._joins:
                await self._replace(owned, handle)
            self._faults.clear(owned.wire)
        except Exception as error:  # noqa: BLE001 - logged, because no caller waits; the next check tries again
            meaning = translate(error, self._settings.name) or repr(error)
            if self._faults.is_new(owned.wire, fault_of(error)):
                log.warning(
                    "group %s: partition %s cannot be joined, perhaps not alone: %s",
                    self._group, owned.wire, meaning,
                )  # fmt: skip
        finally:
            del self._returning[owned.wire]

    async def _replace(self, owned: PulsarPartition, handle: Any) -> None:
        if handle is not None and handle.is_connected():
            await self._close_handle(handle)  # first, because both have one name
        elif handle is not None:
            self._connection.bridge.run_in_background(handle.close)
        await self._open(owned)

    async def _close_handle(self, handle: object) -> None:
        try:
            await self._connection.bridge.ask(handle.close, within=CLOSE_WITHIN)  # type: ignore[attr-defined]
        except (ClientError, TimeoutError) as error:
            log.info("group %s: a consumer did not close cleanly: %s", self._group, error)

    def _of(self, partitions: Collection[Partition]) -> list[PulsarPartition]:
        return [self._by_partition[each] for each in partitions if each in self._by_partition]

    def _numbered(self, topic: str, stats: Mapping[str, PartitionStats]) -> list[tuple[int, str]]:
        """Return number and full name of the partitions in ``stats``.

        The numbers cannot be computed from the count, because the broker leaves out partitions that do not
        exist yet or were deleted.
        """
        alone = wire_name(topic, self._settings.namespace, None)
        found = []
        for wire in stats:
            number = wire.removeprefix(f"{alone}-partition-")
            if wire != number and number.isdecimal():
                found.append((int(number), wire))
        return found


def _partitions(owned_partitions: Iterable[PulsarPartition]) -> tuple[Partition, ...]:
    return in_order(owned.partition for owned in owned_partitions)
