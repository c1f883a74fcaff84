"""A member of a group that hands out what its partitions' tails read, settles and commits."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Mapping, Sequence

import msgspec

from app.brokers.driver import Joining
from app.brokers.embedded.membership import GroupTimes, Membership
from app.brokers.embedded.owned_partition import OwnedPartition
from app.brokers.embedded.tail import Tail
from app.brokers.embedded.upkeep import CommitRounds, Rounds
from app.brokers.member import Member
from app.errors import BrokerError, PositionOutOfRange
from app.log.engine import Engine
from app.log.group_coordinator import Coordinator
from app.log.groups import Code
from app.log.positions import Committed
from app.model.message import Assigned, Lost, Message, Partition, Revoked

_log = logging.getLogger(__name__)


class ConsumerSettings(msgspec.Struct, frozen=True, kw_only=True):
    """``commit_interval``  seconds that a settled message may stay uncommitted while others are open.
    ``rest_interval``    the same for a group with nothing open, and for a position that moved because
                         all was filtered out.
    ``commit_every``     so many settled ones are committed at once.
    ``page_records``     most messages of one batch.
    """

    commit_interval: float = 1.0
    rest_interval: float = 0.08  # with the write below the 100 ms that are promised
    commit_every: int = 1_000
    page_records: int = 500
    page_bytes: int = 1 << 20
    times: GroupTimes = GroupTimes()


class Shared(msgspec.Struct, frozen=True):
    """What all consumers of a log share. ``tail``: that of a partition."""

    engine: Engine
    coordinator: Coordinator
    settings: ConsumerSettings
    tail: Callable[[Partition], Tail]
    beats: Rounds
    commits: CommitRounds


class EmbeddedConsumer(Member):
    """``group`` is the name of the one it is a member of."""

    nudges = True

    def __init__(self, shared: Shared, joining: Joining) -> None:
        super().__init__()
        self.group = joining.group
        self._shared = shared
        self._settings = shared.settings
        self._wanted = joining.wanted
        self._loop = asyncio.get_running_loop()
        self._owned: dict[Partition, OwnedPartition] = {}
        self._ready: dict[OwnedPartition, None] = {}  # with something to hand out, in turn
        self._content: set[OwnedPartition] = set()  # have not asked for more
        self._leaving = False  # nothing more is read until the partitions are given up
        self._settled = 0  # since the last commit
        self._storing: asyncio.Future[None] | None = None  # the commit of a round
        self._not_before = 0.0  # time of the next commit, unless the group is at rest
        self._put_off = False  # the last commit failed
        self._membership = Membership(
            shared.engine,
            shared.coordinator,
            self,
            joining,
            times=shared.settings.times,
            beats=shared.beats,
        )

    def start(self) -> None:
        self._membership.start()
        self._shared.commits.add(self._commit_round)

    @property
    def closed(self) -> bool:
        return self._closed

    def nudge(self) -> None:
        self._nudged = True
        self._news.set()

    async def settle(self, messages: Collection[Message]) -> None:
        owned = self._owned
        for message in messages:
            partition = owned.get(message.partition)
            if partition is not None and partition.finish(message):
                self._settled += 1
        if self._settled >= self._settings.commit_every:
            await self._commit_or_later()
        elif self._settled:
            self._shared.commits.stir()

    def window(self, partition: Partition) -> int:
        owned = self._owned.get(partition)
        return owned.window if owned else 0

    def pause(self, partitions: Collection[Partition]) -> None:
        for partition in partitions:
            owned = self._owned.get(partition)
            if owned is not None:
                owned.pause()
                self._ready.pop(owned, None)
                self._content.discard(owned)

    def resume(self, partitions: Collection[Partition]) -> None:
        for partition in partitions:
            owned = self._owned.get(partition)
            if owned is not None and owned.paused:
                owned.paused = False
                self._content.add(owned)
        self._news.set()

    def holds(self, message: Message) -> bool:
        owned = self._owned.get(message.partition)
        return (
            owned is not None
            and owned.epoch == message.epoch
            and self._loop.time() < self._membership.lease
        )

    async def commit(self) -> None:
        """Raises BrokerError when the log cannot take it now; the next commit takes it along."""
        self._settled = 0
        places = self._to_commit()
        if not places:
            return
        member, owned = self._membership, dict(self._owned)
        code = await self._shared.coordinator.commit(
            self.group, member.member, member.generation, places
        )
        if code is Code.NONE:  # else the group has given us up: the membership finds out
            _note(places, owned)

    async def close(self) -> None:
        if self._closed:
            return
        self._end()
        self._shared.commits.remove(self._commit_round)
        await self._membership.leave()

    # what the membership tells

    def gained(self, partitions: Sequence[Partition], epoch: int) -> None:
        committed = self._shared.engine.positions.of(self.group)
        for place in partitions:
            self._own(place, epoch, committed.get(place))
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

    def _own(self, place: Partition, epoch: int, committed: Committed | None) -> None:
        log = self._shared.engine.partition(place)
        position = committed or Committed(log.earliest)  # a partition new to the group (rule 10)
        tail = self._shared.tail(place)
        owned = OwnedPartition(tail, epoch, position, self._wanted, self._stirred)
        self._owned[place] = owned
        self._content.add(owned)
        try:
            log.check(position.offset)
            owned.join()
        except PositionOutOfRange as error:
            owned.failed(error)

    def _stop_reading(self) -> None:
        for owned in self._owned.values():
            owned.leave()
        self._ready.clear()
        self._content.clear()
        self._leaving = True

    def _disown(self) -> None:
        self._stop_reading()
        self._owned = {}
        self._leaving = False

    def _stirred(self, owned: OwnedPartition) -> None:
        self._ready[owned] = None
        self._news.set()

    async def _batch(self) -> tuple[Message, ...]:
        messages = self._hand_out()
        if not messages:
            self._ask()
        return messages

    def _hand_out(self) -> tuple[Message, ...]:
        """What lies ready, of all partitions in turn, until a batch is full. Raises what went wrong
        with the one whose turn it is, once; it begins again at the next poll."""
        batch: list[Message] = []
        while self._ready and len(batch) < self._settings.page_records:
            owned = next(iter(self._ready))
            if owned.error is not None and batch:
                break
            del self._ready[owned]
            self._content.add(owned)
            if owned.error is not None:
                error, owned.error = owned.error, None
                raise error
            batch += owned.take()
        return tuple(batch)

    def _ask(self) -> None:
        if self._leaving:
            return
        content, self._content = self._content, set()
        for owned in content:
            owned.ask()

    def _to_commit(self) -> dict[Partition, Committed]:
        for owned in self._owned.values():
            owned.count()
        return {place: due for place, owned in self._owned.items() if (due := owned.to_commit())}

    def _commit_round(self) -> int:
        """Begin the commit of what is due, of all partitions at once; the number of positions in it. While
        messages are open, and after a commit that failed, that is once in ``commit_interval``."""
        now = self._loop.time()
        early = now < self._not_before and (self._put_off or not self._at_rest)
        if early or self._storing is not None:
            self._shared.commits.stir()
            return 0
        self._settled = 0
        self._not_before = now + self._settings.commit_interval
        places = self._to_commit()
        if places:
            self._begin_commit(places)
        return len(places)

    @property
    def _at_rest(self) -> bool:
        return not any(owned.open for owned in self._owned.values())

    def _begin_commit(self, places: Mapping[Partition, Committed]) -> None:
        member, owned = self._membership, dict(self._owned)
        try:
            stored = self._shared.coordinator.begin_commit(
                self.group, member.member, member.generation, places
            )
        except BrokerError as error:
            self._failed_to_commit(error)
            return
        if isinstance(stored, Code):
            return  # the group gave us up: the membership finds out
        self._storing = stored
        stored.add_done_callback(lambda done: self._stored(done, places, owned))

    def _stored(
        self,
        stored: asyncio.Future[None],
        places: Mapping[Partition, Committed],
        owned: Mapping[Partition, OwnedPartition],
    ) -> None:
        self._storing = None
        if stored.cancelled():
            return
        if (error := stored.exception()) is not None:
            self._failed_to_commit(error)
        else:
            self._put_off = False
            _note(places, owned)

    async def _commit_or_later(self) -> None:
        try:
            await self.commit()
        except BrokerError as error:
            self._failed_to_commit(error)

    def _failed_to_commit(self, error: BaseException) -> None:
        _log.warning("group %s: commit put off: %s", self.group, error)
        self._put_off = True
        self._not_before = self._loop.time() + self._settings.commit_interval
        if not self._closed:
            self._shared.commits.stir()


def _note(places: Mapping[Partition, Committed], owned: Mapping[Partition, OwnedPartition]) -> None:
    for place, committed in places.items():
        owned[place].committed(committed)
