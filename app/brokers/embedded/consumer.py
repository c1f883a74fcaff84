"""A member of a group that hands out what its partitions' tails read, settles and commits."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress

import msgspec

from app.brokers.embedded.membership import GroupTimes, Membership
from app.brokers.embedded.owned import OwnedPartition
from app.brokers.embedded.tail import Tail
from app.brokers.embedded.upkeep import Rounds
from app.errors import BrokerError, PositionOutOfRange
from app.interfaces import Consumer, Wanted
from app.log.coordinator import Coordinator
from app.log.engine import Engine
from app.log.groups import Code
from app.log.positions import Committed
from app.model.message import Assigned, ConsumerEvent, Lost, Message, Partition, Revoked

_log = logging.getLogger(__name__)


class ConsumerSettings(msgspec.Struct, frozen=True, kw_only=True):
    """``commit_interval``  seconds that a settled message may stay uncommitted.
    ``commit_every``     so many settled ones are committed at once.
    ``idle_interval``    seconds that a position which moved by passing over alone may stay
                         uncommitted: a kill costs reading again, and repeats nothing.
    ``page_records``     most messages of one batch.
    """

    commit_interval: float = 1.0
    commit_every: int = 1_000
    idle_interval: float = 10.0
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
    commits: Rounds


class EmbeddedConsumer(Consumer):
    """``group`` is the name of the one it is a member of."""

    nudges = True

    def __init__(
        self,
        shared: Shared,
        *,
        group: str,
        topics: Sequence[str],
        client_id: str,
        wanted: Wanted | None = None,
    ) -> None:
        self.group = group
        self._shared = shared
        self._settings = shared.settings
        self._wanted = wanted
        self._loop = asyncio.get_running_loop()
        self._owned: dict[Partition, OwnedPartition] = {}
        self._ready: dict[OwnedPartition, None] = {}  # with something to hand out, in turn
        self._content: set[OwnedPartition] = set()  # have not asked for more
        self._events: deque[Assigned | Revoked | Lost] = deque()
        self._wake = asyncio.Event()
        self._nudged = False
        self._revocation: asyncio.Event | None = None  # open, until the user asks for more
        self._told = False  # the open revocation was handed out
        self._leaving = False  # nothing more is read until the partitions are given up
        self._failure: Exception | None = None
        self._closed = False
        self._settled = 0  # since the last commit
        self._commit_timer: asyncio.TimerHandle | None = None
        self._committing: set[asyncio.Task[None]] = set()
        self._membership = Membership(
            shared.engine,
            shared.coordinator,
            self,
            group=group,
            topics=topics,
            client_id=client_id,
            times=shared.settings.times,
            beats=shared.beats,
        )

    def start(self) -> None:
        self._membership.start()
        self._shared.commits.add(self._commit_passed)

    @property
    def closed(self) -> bool:
        return self._closed

    async def poll(self, wait: float) -> ConsumerEvent | None:
        self._deal_with_revocation()
        until = self._loop.time() + wait
        while not self._closed:
            self._wake.clear()
            if self._events:
                return self._next_change()
            if self._failure is not None:
                raise self._failure
            if messages := self._hand_out():
                return messages
            self._ask()
            left = until - self._loop.time()
            if left <= 0 or self._nudged:
                break
            with suppress(TimeoutError):
                async with asyncio.timeout(left):
                    await self._wake.wait()
        self._nudged = False
        return None

    def nudge(self) -> None:
        self._nudged = True
        self._wake.set()

    async def settle(self, messages: Collection[Message]) -> None:
        owned = self._owned
        for message in messages:
            partition = owned.get(message.partition)
            if partition is not None and partition.finish(message):
                self._settled += 1
        if self._settled >= self._settings.commit_every:
            await self._commit_or_later()
        elif self._settled and self._commit_timer is None:
            self._commit_later()

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
        self._wake.set()

    def passed(self, partition: Partition) -> int | None:
        """Up to where all is finished, where nothing of it is open: the log may not know it yet."""
        owned = self._owned.get(partition)
        return None if owned is None or owned.window else owned.position

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
        self._closed = True
        self._wake.set()
        self._shared.commits.remove(self._commit_passed)
        if self._commit_timer is not None:
            self._commit_timer.cancel()
        await asyncio.gather(*self._committing, return_exceptions=True)
        await self._membership.leave()

    # what the membership tells

    def gained(self, partitions: Sequence[Partition], epoch: int) -> None:
        committed = self._shared.engine.positions.of(self.group)
        for place in partitions:
            self._own(place, epoch, committed.get(place))
        if partitions:
            self._tell(Assigned(tuple(partitions), epoch))

    def revoking(self) -> asyncio.Event:
        done = asyncio.Event()
        self._stop_reading()
        if not self._owned:
            done.set()
            return done
        self._revocation, self._told = done, False
        self._tell(Revoked(tuple(self._owned), self._membership.generation))
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
        self._failure = error
        self._wake.set()

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
            self._failure = error

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
        self._revocation = None
        self._failure = None

    def _tell(self, change: Assigned | Revoked | Lost) -> None:
        self._events.append(change)
        self._wake.set()

    def _next_change(self) -> Assigned | Revoked | Lost:
        change = self._events.popleft()
        self._told = self._told or isinstance(change, Revoked)
        return change

    def _deal_with_revocation(self) -> None:
        """To ask for more is to have dealt with the revocation that was handed out."""
        if self._revocation is not None and self._told:
            self._revocation.set()
            self._revocation = None

    def _stirred(self, owned: OwnedPartition) -> None:
        self._ready[owned] = None
        self._wake.set()

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

    def _commit_passed(self) -> None:
        """Positions that moved without anything settled; many groups' in one transaction."""
        if self._commit_timer is not None or not (places := self._to_commit()):
            return
        member, owned = self._membership, dict(self._owned)
        stored = self._shared.coordinator.begin_commit(
            self.group, member.member, member.generation, places
        )
        if isinstance(stored, asyncio.Future):
            stored.add_done_callback(lambda done: self._passed_stored(done, places, owned))

    def _passed_stored(
        self,
        stored: asyncio.Future[None],
        places: Mapping[Partition, Committed],
        owned: Mapping[Partition, OwnedPartition],
    ) -> None:
        if stored.cancelled():
            return
        if stored.exception() is None:
            _note(places, owned)
        else:
            _log.warning("group %s: commit put off: %s", self.group, stored.exception())

    def _commit_later(self) -> None:
        self._commit_timer = self._loop.call_later(
            self._settings.commit_interval, self._commit_in_background
        )

    def _commit_in_background(self) -> None:
        self._commit_timer = None
        task = asyncio.create_task(self._commit_or_later())
        self._committing.add(task)
        task.add_done_callback(self._committing.discard)

    async def _commit_or_later(self) -> None:
        try:
            await self.commit()
        except BrokerError as error:
            _log.warning("group %s: commit put off: %s", self.group, error)
            if self._commit_timer is None and not self._closed:
                self._commit_later()


def _note(places: Mapping[Partition, Committed], owned: Mapping[Partition, OwnedPartition]) -> None:
    for place, committed in places.items():
        owned[place].committed(committed)
