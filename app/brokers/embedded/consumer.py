"""A group member of the embedded log. It hands out the messages that shared cursors read from its partitions,
and commits its positions."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Mapping, Sequence

import msgspec

from app.brokers.driver import JoinRequest
from app.brokers.embedded.commit_rounds import CommitRounds, Due
from app.brokers.embedded.owned_partition import EmbeddedPartition
from app.brokers.partition_reader import PartitionReader, PartitionReadingMember
from app.brokers.tail import PartitionTail
from app.errors import BrokerError, PositionOutOfRange
from app.log.engine import LogEngine
from app.log.groups.membership import GroupMembership, GroupTimes, HeartbeatTimer
from app.log.groups.positions import CommittedOffset
from app.log.groups.protocol import Code
from app.model.message import Assigned, Lost, Message, Partition, Revoked
from app.telemetry.light_event import LightEvent

_log = logging.getLogger(__name__)


class ConsumerSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of the group members of an embedded log.

    Attributes:
        commit_interval: The longest time in seconds that a settled message, or a moved position, stays
            uncommitted. Settled messages are usually committed earlier, together with other writes of the
            log.
        page_records: Most messages of one batch.
        page_bytes: Most bytes of one page.
        times: The time limits of the group.
    """

    commit_interval: float = 0.08  # with the write it stays below the promised 100 ms
    page_records: int = 500
    page_bytes: int = 1 << 20
    times: GroupTimes = GroupTimes()


class MemberContext(msgspec.Struct, frozen=True):
    """The objects that all group members of one log share. ``tail`` is a function that returns the shared
    reader of a partition."""

    engine: LogEngine
    settings: ConsumerSettings
    tail: Callable[[Partition], PartitionTail]
    beats: HeartbeatTimer
    commits: CommitRounds


class EmbeddedConsumer(PartitionReadingMember[EmbeddedPartition]):
    """A ``Consumer`` of the embedded log. ``group`` is the name of its group."""

    def __init__(self, shared: MemberContext, joining: JoinRequest) -> None:
        super().__init__(shared.settings.page_records)
        self.group = joining.group
        self._shared = shared
        self._wanted = joining.wanted
        self._loop = asyncio.get_running_loop()
        self._membership = GroupMembership(
            shared.engine.coordinator,
            self,
            joining.group,
            joining.topics,
            shared.engine.topics,
            client=joining.client_id or "skybridge",
            times=shared.settings.times,
            beats=shared.beats,
        )

    def start(self) -> None:
        self._membership.start()
        self._shared.commits.add(self._due)

    async def settle(self, messages: Collection[Message]) -> None:
        owned = self._owned
        for message in messages:
            partition = owned.get(message.partition)
            if partition is not None:
                partition.finish(message)
        self._shared.commits.settled(self._due)

    def window(self, partition: Partition) -> int:
        owned = self._owned.get(partition)
        return owned.window if owned else 0

    def holds(self, message: Message) -> bool:
        owned = self._owned.get(message.partition)
        return (
            owned is not None
            and owned.epoch == message.epoch
            and self._loop.time() < self._membership.lease
        )

    async def commit(self) -> None:
        """Commit the settled messages. Raise BrokerError if the log cannot be written; the messages are then
        included in the next commit."""
        places = self._to_commit()
        if not places:
            return
        member, owned = self._membership, dict(self._owned)
        code = await self._shared.engine.coordinator.commit(
            self.group, member.member, member.generation, places
        )
        if (
            code is Code.NONE
        ):  # otherwise the group has removed this member, which ``_membership`` reports
            _note(places, owned)

    async def close(self) -> None:
        if self._closed:
            return
        self._end()
        self._shared.commits.remove(self._due)
        await self._membership.leave()

    # Callbacks of the membership.

    def gained(self, partitions: Sequence[Partition], epoch: int) -> None:
        committed = self._shared.engine.groups.positions.of(self.group)
        for place in partitions:
            self._gain(place, epoch, committed.get(place))
        if partitions:
            self._enqueue(Assigned(tuple(partitions), epoch))

    def revoking(self) -> LightEvent:
        self._stop_reading()
        if self._owned:
            return self._revoke(Revoked(tuple(self._owned), self._membership.generation))
        done = LightEvent()
        done.set()
        return done

    async def released(self) -> None:
        try:
            await self.commit()
        except BrokerError as error:
            _log.warning("group %s: last commit failed: %s", self.group, error)
        self._disown()

    def lost(self) -> None:
        if self._owned:
            self._enqueue(Lost(tuple(self._owned), self._membership.generation))
        self._disown()

    def failed(self, error: Exception) -> None:
        self._fail(error)

    def _gain(self, place: Partition, epoch: int, committed: CommittedOffset | None) -> None:
        log = self._shared.engine.partition(place)
        position = committed or CommittedOffset(log.earliest)  # new to the group
        tail = self._shared.tail(place)
        owned = EmbeddedPartition(tail, epoch, position, self._wanted, self._stirred)
        self._own(place, owned)
        try:
            log.check(position.offset)
            owned.join()
        except PositionOutOfRange as error:
            owned.failed(error)

    def _take(self, owned: PartitionReader) -> Sequence[Message]:
        assert isinstance(owned, EmbeddedPartition)  # noqa: S101 - ``_gain`` adds no others
        return owned.take_unfinished()

    def _to_commit(self) -> dict[Partition, CommittedOffset]:
        for owned in self._owned.values():
            owned.count()
        return {place: due for place, owned in self._owned.items() if (due := owned.to_commit())}

    def _due(self) -> Due | None:
        """Return the positions of all partitions that must be committed, or None.

        The result is also None if the group has removed this member, which ``_membership`` reports.
        """
        places, member = self._to_commit(), self._membership
        if not places or not self._shared.engine.coordinator.may_commit(
            self.group, member.member, member.generation
        ):
            return None
        owned = self._owned
        return Due(self.group, places, lambda: _note(places, owned))


def _note(
    places: Mapping[Partition, CommittedOffset], owned: Mapping[Partition, EmbeddedPartition]
) -> None:
    for place, committed in places.items():
        owned[place].committed(committed)
