"""One member of a Failover subscription, at the pace of whoever polls it.

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
from app.brokers.pulsar.bridge import ignore
from app.brokers.pulsar.connection import CLOSE_WITHIN, Connection
from app.brokers.pulsar.errors import ClientError, translate
from app.brokers.pulsar.owned_partition import STANDBY, Seat
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
        self._seats: dict[str, Seat] = {}  # by the partition's name on the wire
        self._by_partition: dict[Partition, Seat] = {}
        self._epoch = secrets.randbits(62)  # and up: no other member counts there (rule 5)
        self._turn = 0
        self._returning: dict[str, asyncio.Task[None]] = {}  # who sits down again, by the same name

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
            seat = self._by_partition.get(message.partition)
            if seat is not None and seat.epoch != STANDBY:
                seat.settle(message)

    def window(self, partition: Partition) -> int:
        seat = self._by_partition.get(partition)
        return 0 if seat is None else seat.window

    def pause(self, partitions: Collection[Partition]) -> None:
        """What was fetched ahead stays here, within the bound; ownership is kept."""
        for seat in self._of(partitions):
            seat.paused = True

    def resume(self, partitions: Collection[Partition]) -> None:
        for seat in self._of(partitions):
            seat.paused = False
        self._news.set()

    def holds(self, message: Message) -> bool:
        seat = self._by_partition.get(message.partition)
        return (
            seat is not None
            and seat.epoch == message.epoch
            and not seat.leaving
            and time.monotonic() < seat.sure_until
        )

    async def commit(self) -> None:
        """Returns when the broker has counted what is settled: the group of acknowledgements has
        left, and a question asked after it, on the same connection, has its answer."""
        seats = [seat for seat in self._seats.values() if seat.settled and seat.connected()]
        if not seats:
            return
        for seat in seats:
            seat.settled = False
        await asyncio.sleep(ACKS_LEAVE)
        try:
            for seat in seats:
                if seat.handle is None:  # replaced meanwhile; closing it sent them
                    continue
                await self._connection.bridge.ask(
                    seat.handle.get_last_message_id_async, within=self._settings.operation_timeout
                )
        except (ClientError, TimeoutError) as error:
            log.warning("a commit of group %s failed and will be retried: %s", self._group, error)
            for seat in seats:
                seat.settled = True

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
        handles = [seat.handle for seat in self._seats.values() if seat.handle is not None]
        for seat in self._seats.values():
            seat.handle = None
            seat.let_go()
        await asyncio.gather(*(self._hang_up(handle) for handle in handles))

    # What the one who asks for owners calls.

    def busy(self, topic: str) -> bool:
        """Something is handed out or waits, or nobody has said whose a partition is."""
        return any(seat.busy for seat in self._seats.values() if seat.partition.topic == topic)

    async def told(self, topic: str, stats: Mapping[str, PartitionStats], asked: float) -> bool:
        """Ownership as the broker has it. Nobody at all is no news: it may be just starting."""
        gained: list[Seat] = []
        gone: list[Seat] = []
        for seat in [seat for seat in self._seats.values() if seat.partition.topic == topic]:
            active = self._active(stats.get(seat.wire))
            if active == self._name and seat.connected():
                self._still_ours(seat, asked, gained)
            elif active and active != self._name:
                self._somebody_elses(seat, asked, gone)
        self._take_away(gone)
        self._gain(gained)
        added = {
            number: wire for number, wire in self._numbered(topic, stats) if wire not in self._seats
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

    def _still_ours(self, seat: Seat, asked: float, gained: list[Seat]) -> None:
        if not seat.leaving:
            seat.sure_until = asked + self._settings.lease
        if seat.epoch == STANDBY:
            gained.append(seat)

    def _somebody_elses(self, seat: Seat, asked: float, gone: list[Seat]) -> None:
        if seat.epoch == STANDBY:
            seat.belongs_to_another(asked)
        elif not seat.leaving:
            gone.append(seat)

    async def look(self) -> None:
        """Who has lost the connection may have lost the partition; who does not get it back by
        himself is helped: the library tries again once a minute only. Nobody waits for that here, else
        one topic that is out of reach would let the leases of all others run out."""
        now = time.monotonic()
        for seat in list(self._seats.values()):
            if seat.connected():
                seat.lost_since = None
                continue
            seat.lost_since = seat.lost_since or now
            if seat.epoch != STANDBY:
                self._lose(seat)
            overdue = now - seat.lost_since > self._settings.reconnect_within
            if overdue and seat.wire not in self._returning:
                self._returning[seat.wire] = asyncio.create_task(self._sit_again(seat))

    def _gain(self, seats: Sequence[Seat]) -> None:
        if not seats:
            return
        self._epoch += 1
        for seat in seats:
            seat.paused = False
            seat.own(self._epoch)
        self._tell(Assigned(_partitions(seats), self._epoch))

    def _take_away(self, seats: Iterable[Seat]) -> None:
        """The other one reads already, or soon: nothing new is sent, what is finished still counts."""
        by_epoch: dict[int, list[Seat]] = {}
        for seat in seats:
            seat.leaving = True
            by_epoch.setdefault(seat.epoch, []).append(seat)
        for epoch, leaving in by_epoch.items():
            self._tell(Revoked(_partitions(leaving), epoch))

    def _lose(self, seat: Seat) -> None:
        epoch = seat.epoch
        seat.let_go()
        self._tell(Lost((seat.partition,), epoch))

    def _rewound(self, seat: Seat) -> None:
        """Somebody else owned it, unseen between two questions: begin again from what is unfinished."""
        self._lose(seat)
        self._gain([seat])

    def _came(self, seat: Seat) -> None:
        if seat.epoch == STANDBY or seat.leaving:
            self._owners.ask_soon()
        self._news.set()

    def _dealt_with(self, change: Change) -> None:
        if isinstance(change, Revoked):
            for seat in self._of(change.partitions):
                if seat.leaving and seat.epoch == change.epoch:
                    seat.let_go()
            self._owners.ask_soon()

    async def _batch(self) -> tuple[Message, ...]:
        """From every partition that is ours and not paused; each time another one comes first."""
        seats = [
            seat
            for seat in self._seats.values()
            if seat.epoch != STANDBY and not seat.leaving and not seat.paused
        ]
        messages: list[Message] = []
        self._turn += 1
        for number in range(len(seats)):
            room = self._settings.max_poll_records - len(messages)
            messages += seats[(self._turn + number) % len(seats)].take(room)
        return tuple(messages)

    async def _sit(self, topic: str, wires: Mapping[int, str]) -> None:
        seats = [self._seat(Partition(topic, number), wire) for number, wire in wires.items()]
        await asyncio.gather(*(self._open(seat) for seat in seats))

    def _seat(self, partition: Partition, wire: str) -> Seat:
        seat = Seat(
            partition, wire, self._connection.bridge, ahead=self._settings.receiver_queue,
            arrived=self._came, rewound=self._rewound,
        )  # fmt: skip
        self._seats[wire] = self._by_partition[partition] = seat
        return seat

    async def _open(self, seat: Seat) -> None:
        listener = seat.sit_down()
        handle = await self._connection.consumer(seat.wire, self._group, self._name, listener)
        if self._closed:
            handle.close_async(ignore)
        else:
            seat.take_place(handle)

    async def _sit_again(self, seat: Seat) -> None:
        handle, seat.handle = seat.handle, None
        try:
            if handle is not None:
                handle.close_async(ignore)
            await self._open(seat)
        except Exception as error:  # noqa: BLE001 - said here, for nobody waits; the next look tries again
            meaning = translate(error, self._settings.name) or repr(error)
            log.warning("group %s cannot join %s: %s", self._group, seat.wire, meaning)
        finally:
            del self._returning[seat.wire]

    async def _hang_up(self, handle: object) -> None:
        try:
            await self._connection.bridge.ask(handle.close_async, within=CLOSE_WITHIN)  # type: ignore[attr-defined]
        except (ClientError, TimeoutError) as error:
            log.info("group %s: a consumer did not close cleanly: %s", self._group, error)

    def _of(self, partitions: Collection[Partition]) -> list[Seat]:
        return [self._by_partition[each] for each in partitions if each in self._by_partition]

    def _numbered(self, topic: str, stats: Mapping[str, PartitionStats]) -> list[tuple[int, str]]:
        """The partitions that the broker speaks of, by number."""
        namespace = self._settings.namespace
        names = {wire_name(topic, namespace, number): number for number in range(len(stats))}
        return [(names[wire], wire) for wire in stats if wire in names]


def _partitions(seats: Iterable[Seat]) -> tuple[Partition, ...]:
    return in_order(seat.partition for seat in seats)
