"""A member of a group that hands out what its partitions' tails read, settles and commits."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Mapping, Sequence

import msgspec

from app.brokers.driver import Joining
from app.brokers.embedded.commit_rounds import CommitRounds, Due
from app.brokers.embedded.owned_partition import OwnedPartition
from app.brokers.following import Following, FollowingMember
from app.brokers.tail import Tail
from app.errors import BrokerError, PositionOutOfRange
from app.log.engine import Engine
from app.log.groups.membership import GroupTimes, Membership, Rounds
from app.log.groups.positions import Committed
from app.log.groups.protocol import Code
from app.model.message import Assigned, Lost, Message, Partition, Revoked

_log = logging.getLogger(__name__)


class ConsumerSettings(msgspec.Struct, frozen=True, kw_only=True):
    """``commit_interval``  seconds that a settled message, or a position that moved because all was filtered out,
                         may stay uncommitted; what is settled goes along with a commit group before.
    ``page_records``     most messages of one batch.
    """

    commit_interval: float = 0.08  # with the write below the 100 ms that are promised
    page_records: int = 500
    page_bytes: int = 1 << 20
    times: GroupTimes = GroupTimes()


class Shared(msgspec.Struct, frozen=True):
    """What all consumers of a log share. ``tail``: that of a partition."""

    engine: Engine
    settings: ConsumerSettings
    tail: Callable[[Partition], Tail]
    beats: Rounds
    commits: CommitRounds


class EmbeddedConsumer(FollowingMember[OwnedPartition]):
    """``group`` is the name of the one it is a member of."""

    def __init__(self, shared: Shared, joining: Joining) -> None:
        super().__init__(shared.settings.page_records)
        self.group = joining.group
        self._shared = shared
        self._wanted = joining.wanted
        self._loop = asyncio.get_running_loop()
        self._membership = Membership(
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
        """Raises BrokerError when the log cannot take it now; the next commit takes it along."""
        places = self._to_commit()
        if not places:
            return
        member, owned = self._membership, dict(self._owned)
        code = await self._shared.engine.coordinator.commit(
            self.group, member.member, member.generation, places
        )
        if code is Code.NONE:  # else the group has given us up: the membership finds out
            _note(places, owned)

    async def close(self) -> None:
        if self._closed:
            return
        self._end()
        self._shared.commits.remove(self._due)
        await self._membership.leave()

    # what the membership tells

    def gained(self, partitions: Sequence[Partition], epoch: int) -> None:
        committed = self._shared.engine.groups.positions.of(self.group)
        for place in partitions:
            self._gain(place, epoch, committed.get(place))
        if partitions:
            self._tell(Assigned(tuple(partitions), epoch))

    def revoking(self) -> asyncio.Event:
        self._stop_reading()
        if self._owned:
            return self._revoke(Revoked(tuple(self._owned), self._membership.generation))
        done = asyncio.Event()
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
            self._tell(Lost(tuple(self._owned), self._membership.generation))
        self._disown()

    def failed(self, error: Exception) -> None:
        self._fail(error)

    def _gain(self, place: Partition, epoch: int, committed: Committed | None) -> None:
        log = self._shared.engine.partition(place)
        position = committed or Committed(log.earliest)  # a partition new to the group (rule 10)
        tail = self._shared.tail(place)
        owned = OwnedPartition(tail, epoch, position, self._wanted, self._stirred)
        self._own(place, owned)
        try:
            log.check(position.offset)
            owned.join()
        except PositionOutOfRange as error:
            owned.failed(error)

    def _take(self, owned: Following) -> Sequence[Message]:
        assert isinstance(owned, OwnedPartition)  # noqa: S101 - it has no others
        return owned.take_unfinished()

    def _to_commit(self) -> dict[Partition, Committed]:
        for owned in self._owned.values():
            owned.count()
        return {place: due for place, owned in self._owned.items() if (due := owned.to_commit())}

    def _due(self) -> Due | None:
        """Of all partitions at once. Where the group has given us up, the membership finds out."""
        places, member = self._to_commit(), self._membership
        if not places or not self._shared.engine.coordinator.may_commit(
            self.group, member.member, member.generation
        ):
            return None
        owned = self._owned
        return Due(self.group, places, lambda: _note(places, owned))


def _note(places: Mapping[Partition, Committed], owned: Mapping[Partition, OwnedPartition]) -> None:
    for place, committed in places.items():
        owned[place].committed(committed)
