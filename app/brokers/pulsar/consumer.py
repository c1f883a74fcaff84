"""One member of a Failover subscription, at the pace of its caller.

Each partition has a consumer of its own in the client library, so that it can be paused by itself.
A message is acknowledged as soon as it is finished (rule 2); what is not comes again, to the next
owner. Key_Shared is not used: one owner a partition, on every log.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from uuid import uuid4

from app.brokers.driver import Joining
from app.brokers.member import Change, Member, in_order
from app.brokers.pulsar.admin import Admin
from app.brokers.pulsar.answers import PartitionStats
from app.brokers.pulsar.connection import CLOSE_WITHIN, Connection
from app.brokers.pulsar.errors import ClientError, translate
from app.brokers.pulsar.owned_partition import STANDBY, OwnedPartition
from app.brokers.pulsar.ownership import Owners
from app.brokers.pulsar.positions import wire_name
from app.brokers.pulsar.settings import PulsarSettings
from app.brokers.pulsar.start_positions import prepare
from app.model.message import Assigned, Lost, Message, Partition, Revoked

log = logging.getLogger(__name__)

ACKS_LEAVE = 0.12  # seconds; the library sends acknowledgements in groups, ten times a second


class PulsarConsumer(Member):
    """A ``Consumer``."""

    def __init__(
        self,
        settings: PulsarSettings,
        admin: Admin,
        connection: Connection,
        owners: Owners,
        joining: Joining,
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
        self._owned: dict[str, OwnedPartition] = {}  # by the partition's name on the wire
        self._by_partition: dict[Partition, OwnedPartition] = {}
        self._epoch = secrets.randbits(62)  # and up: no other member counts there (rule 5)
        self._turn = 0
        self._returning: dict[
            str, asyncio.Task[None]
        ] = {}  # members that join again, by the same name

    async def start(self) -> None:
        """Join. Raises PositionOutOfRange for a start that the log does not hold, AdminError,
        ClientError, or what httpx raises when nobody answers."""
        try:
            await prepare(self._admin, self._group, self.topics, self._start)
            for topic in self.topics:
                await self._sit(topic, await self._admin.wires(topic))
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
        """What was fetched ahead stays here, within the bound; ownership is kept."""
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
            and time.monotonic() < owned.sure_until
        )

    async def commit(self) -> None:
        """Returns when the broker has counted what is settled: the group of acknowledgements has
        left, and a question asked after it, on the same connection, has its answer."""
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
                if owned.handle is None:  # replaced meanwhile; closing it sent them
                    continue
                await self._connection.bridge.ask(
                    owned.handle.get_last_message_id, within=self._settings.operation_timeout
                )
        except (ClientError, TimeoutError) as error:
            log.warning("a commit of group %s failed and will be retried: %s", self._group, error)
            for owned in owned_partitions:
                owned.settled = True

    async def close(self) -> None:
        """Bounded. Closing a consumer of the library sends its acknowledgements first."""
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
            owned.let_go()
        await asyncio.gather(*(self._hang_up(handle) for handle in handles))

    # What the one who asks for owners calls.

    def busy(self, topic: str) -> bool:
        """Something is handed out or waits, or nobody has said whose a partition is."""
        return any(owned.busy for owned in self._owned.values() if owned.partition.topic == topic)

    async def told(self, topic: str, stats: Mapping[str, PartitionStats], asked: float) -> bool:
        """Ownership as the broker has it. Nobody at all is no news: it may be just starting."""
        gained: list[OwnedPartition] = []
        gone: list[OwnedPartition] = []
        for owned in [owned for owned in self._owned.values() if owned.partition.topic == topic]:
            active = self._active(stats.get(owned.wire))
            if active == self._name and owned.connected():
                self._still_ours(owned, asked, gained)
            elif active and active != self._name:
                self._somebody_elses(owned, asked, gone)
        self._take_away(gone)
        self._gain(gained)
        added = {
            number: wire for number, wire in self._numbered(topic, stats) if wire not in self._owned
        }
        if added and not self._closed:
            try:
                await self._sit(topic, added)
            except (ClientError, TimeoutError) as error:
                log.warning("group %s: a new partition of %s: %s", self._group, topic, error)
        return bool(gained or gone or added)

    def _active(self, stats: PartitionStats | None) -> str | None:
        subscription = stats.subscriptions.get(self._group) if stats else None
        return subscription.active_consumer_name if subscription else None

    def _still_ours(
        self, owned: OwnedPartition, asked: float, gained: list[OwnedPartition]
    ) -> None:
        if not owned.leaving:
            owned.sure_until = asked + self._settings.lease
        if owned.epoch == STANDBY:
            gained.append(owned)

    def _somebody_elses(
        self, owned: OwnedPartition, asked: float, gone: list[OwnedPartition]
    ) -> None:
        if owned.epoch == STANDBY:
            owned.belongs_to_another(asked)
        elif not owned.leaving:
            gone.append(owned)

    async def look(self) -> None:
        """A member without a connection may have lost the partition; one that does not get it back by
        himself is helped: the library tries again once a minute only. Nobody waits for that here, else
        one topic that is out of reach would let the leases of all others run out."""
        now = time.monotonic()
        for owned in list(self._owned.values()):
            if owned.connected():
                owned.lost_since = None
                continue
            owned.lost_since = owned.lost_since or now
            if owned.epoch != STANDBY:
                self._lose(owned)
            overdue = now - owned.lost_since > self._settings.reconnect_within
            if overdue and owned.wire not in self._returning:
                self._returning[owned.wire] = asyncio.create_task(self._open_again(owned))

    def _gain(self, owned_partitions: Sequence[OwnedPartition]) -> None:
        if not owned_partitions:
            return
        self._epoch += 1
        for owned in owned_partitions:
            owned.paused = False
            owned.own(self._epoch)
        self._tell(Assigned(_partitions(owned_partitions), self._epoch))

    def _take_away(self, owned_partitions: Iterable[OwnedPartition]) -> None:
        """The other one reads already, or soon: nothing new is sent, what is finished still counts."""
        by_epoch: dict[int, list[OwnedPartition]] = {}
        for owned in owned_partitions:
            owned.leaving = True
            by_epoch.setdefault(owned.epoch, []).append(owned)
        for epoch, leaving in by_epoch.items():
            self._tell(Revoked(_partitions(leaving), epoch))

    def _lose(self, owned: OwnedPartition) -> None:
        epoch = owned.epoch
        owned.let_go()
        self._tell(Lost((owned.partition,), epoch))

    def _rewound(self, owned: OwnedPartition) -> None:
        """Somebody else owned it, unseen between two questions: begin again from what is unfinished."""
        self._lose(owned)
        self._gain([owned])

    def _came(self, owned: OwnedPartition) -> None:
        if owned.epoch == STANDBY or owned.leaving:
            self._owners.ask_soon()
        self._news.set()

    def _dealt_with(self, change: Change) -> None:
        if isinstance(change, Revoked):
            for owned in self._of(change.partitions):
                if owned.leaving and owned.epoch == change.epoch:
                    owned.let_go()
            self._owners.ask_soon()

    async def _batch(self) -> tuple[Message, ...]:
        """From every partition that is ours and not paused; each time another one comes first."""
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

    async def _sit(self, topic: str, wires: Mapping[int, str]) -> None:
        owned_partitions = [
            self._owned_at(Partition(topic, number), wire) for number, wire in wires.items()
        ]
        await asyncio.gather(*(self._open(owned) for owned in owned_partitions))

    def _owned_at(self, partition: Partition, wire: str) -> OwnedPartition:
        owned = OwnedPartition(
            partition, wire, self._connection.bridge, ahead=self._settings.receiver_queue,
            arrived=self._came, rewound=self._rewound,
        )  # fmt: skip
        self._owned[wire] = self._by_partition[partition] = owned
        return owned

    async def _open(self, owned: OwnedPartition) -> None:
        listener = owned.new_listener()
        handle = await self._connection.consumer(owned.wire, self._group, self._name, listener)
        if self._closed:
            self._connection.bridge.begin(handle.close)
        else:
            owned.take_place(handle)

    async def _open_again(self, owned: OwnedPartition) -> None:
        handle, owned.handle = owned.handle, None
        try:
            if handle is not None:
                self._connection.bridge.begin(handle.close)
            await self._open(owned)
        except Exception as error:  # noqa: BLE001 - said here, for nobody waits; the next look tries again
            meaning = translate(error, self._settings.name) or repr(error)
            log.warning("group %s cannot join %s: %s", self._group, owned.wire, meaning)
        finally:
            del self._returning[owned.wire]

    async def _hang_up(self, handle: object) -> None:
        try:
            await self._connection.bridge.ask(handle.close, within=CLOSE_WITHIN)  # type: ignore[attr-defined]
        except (ClientError, TimeoutError) as error:
            log.info("group %s: a consumer did not close cleanly: %s", self._group, error)

    def _of(self, partitions: Collection[Partition]) -> list[OwnedPartition]:
        return [self._by_partition[each] for each in partitions if each in self._by_partition]

    def _numbered(self, topic: str, stats: Mapping[str, PartitionStats]) -> list[tuple[int, str]]:
        """The partitions that the broker speaks of, by number. It is silent about those that nobody made or
        that were deleted, so their count says nothing."""
        alone = wire_name(topic, self._settings.namespace, None)
        found = []
        for wire in stats:
            number = wire.removeprefix(f"{alone}-partition-")
            if wire != number and number.isdecimal():
                found.append((int(number), wire))
        return found


def _partitions(owned_partitions: Iterable[OwnedPartition]) -> tuple[Partition, ...]:
    return in_order(owned.partition for owned in owned_partitions)
