"""One subscription in a shared group: a consumer without a membership of its own (ADR 0055)."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import Protocol, cast

from aiokafka.errors import KafkaError, OffsetOutOfRangeError

from app.brokers.driver import JoinRequest
from app.brokers.kafka.errors import translate
from app.brokers.kafka.shared_positions import SharedPartition, SharedPosition
from app.brokers.member import in_order
from app.brokers.partition_reader import PartitionReader, PartitionReadingMember
from app.errors import PositionOutOfRange
from app.interfaces import ConsumerFilter
from app.model.message import Assigned, Lost, Message, Partition, Revoked
from app.telemetry.light_event import LightEvent


class SharedReader(PartitionReader):
    """A partition as one subscription of a shared group reads it."""

    __slots__ = ("place_in_group",)

    def __init__(
        self,
        place_in_group: SharedPosition,
        wanted: ConsumerFilter | None,
        stirred: Callable[[PartitionReader], None],
    ) -> None:
        held = place_in_group.held
        super().__init__(held.tail, held.epoch, place_in_group.begin, wanted, stirred)
        self.place_in_group = place_in_group
        place_in_group.reader = self
        place_in_group.watch()

    @property
    def waiting(self) -> bool:
        """Return True if messages are ready that were not handed out."""
        return bool(self._ready)

    def ask(self) -> None:
        if self.cursor is None:
            self.place_in_group.watch()
        super().ask()

    def offered(self, messages: list[Message], size: int) -> bool:
        self.place_in_group.watch()
        return super().offered(messages, size)

    def left(self, position: int) -> None:
        super().left(position)
        self.place_in_group.watch()


class GroupOfConsumers(Protocol):
    """A shared group, as its consumers use it."""

    name: str
    trouble: str

    def has_lease(self) -> bool:
        """Return True if the group cannot yet have given the partitions to another process."""

    def soon(self) -> None:
        """Store the positions soon, because messages were finished."""

    async def flush(self) -> None:
        """Store the positions now."""

    async def leave(self, consumer: SharedConsumer) -> None:
        """Remove a consumer that has ended."""

    async def position_lost(self, error: OffsetOutOfRangeError) -> PositionOutOfRange:
        """Return the error for a position that the partition no longer has."""


class SharedConsumer(PartitionReadingMember[SharedReader]):
    """A ``Consumer`` of one subscription in a shared group. ``broker`` is the name of the cluster."""

    def __init__(
        self, shared: GroupOfConsumers, joining: JoinRequest, broker: str, page_records: int
    ) -> None:
        super().__init__(page_records)
        self.group = joining.group
        self._shared = shared
        self._wanted = joining.wanted
        self._broker = broker
        self._epoch = -1

    @property
    def trouble(self) -> str:
        """Return why positions cannot be stored, or ""."""
        return self._shared.trouble

    def assign(self, held: Collection[SharedPartition], epoch: int) -> None:
        """Begin to read these partitions."""
        self._epoch = epoch
        for each in held:
            position = each.positions[self.group]
            reader = SharedReader(position, self._wanted, self._stirred)
            self._own(each.place, reader)
            reader.join()
        self._enqueue(Assigned(in_order(self._owned), epoch))

    def start_revocation(self) -> LightEvent:
        """Stop reading. Return an event that is set when the caller has settled what is finished."""
        self._stop_reading()
        if not self._owned:
            nothing = LightEvent()
            nothing.set()
            return nothing
        return self._revoke(Revoked(in_order(self._owned), self._epoch))

    def lose(self) -> None:
        """Give up all partitions, because another process has them already."""
        if self._owned:
            self._enqueue(Lost(in_order(self._owned), self._epoch))
        self.give_up()

    def give_up(self) -> None:
        self._disown()
        self._epoch = -1

    def fail(self, error: BaseException) -> None:
        """Make the next poll raise the error."""
        self._fail(error)

    def count(self, place: Partition) -> None:
        """Report the messages that the filter has skipped in one partition."""
        if place in self._owned:
            self._owned[place].count()

    async def settle(self, messages: Collection[Message]) -> None:
        for message in messages:
            owned = self._owned.get(message.partition)
            if owned is not None and owned.epoch == message.epoch:
                owned.place_in_group.finish(message.offset)
        self._shared.soon()

    def window(self, partition: Partition) -> int:
        owned = self._owned.get(partition)
        return 0 if owned is None else owned.place_in_group.window

    def holds(self, message: Message) -> bool:
        owned = self._owned.get(message.partition)
        return owned is not None and owned.epoch == message.epoch and self._shared.has_lease()

    async def commit(self) -> None:
        await self._shared.flush()

    async def close(self) -> None:
        if self._closed:
            return
        self._end()
        for owned in self._owned.values():
            owned.count()
            owned.leave()
            owned.place_in_group.detach()
        self.give_up()
        await self._shared.leave(self)

    async def _batch(self) -> tuple[Message, ...]:
        try:
            return await super()._batch()
        except OffsetOutOfRangeError as error:
            lost = await self._shared.position_lost(error)
            raise lost from error
        except KafkaError as error:
            raise translate(error, self._broker) or error from error

    def _take(self, owned: PartitionReader) -> Iterable[Message]:
        position = cast("SharedReader", owned).place_in_group
        ready = [one for one in owned.take() if position.take(one.offset)]
        if not ready:
            self._shared.soon()  # messages finished before a restart move the position
        return ready
