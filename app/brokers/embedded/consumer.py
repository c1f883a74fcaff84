"""A member of a group that reads, hands out, settles and commits."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Collection, Sequence
from contextlib import suppress

import msgspec

from app.brokers.embedded.membership import GroupTimes, Membership
from app.brokers.embedded.owned import OwnedPartition
from app.errors import BrokerError, PositionOutOfRange
from app.interfaces import Consumer
from app.log.coordinator import Coordinator
from app.log.engine import Engine
from app.log.groups import Code
from app.log.positions import Committed
from app.model.message import Assigned, ConsumerEvent, Lost, Message, Partition, Revoked

_log = logging.getLogger(__name__)


class ConsumerSettings(msgspec.Struct, frozen=True, kw_only=True):
    """``commit_interval``  seconds that a settled message may stay uncommitted.
    ``commit_every``     so many settled ones are committed at once.
    ``page_records``     most messages of one batch.
    """

    commit_interval: float = 1.0
    commit_every: int = 1_000
    page_records: int = 500
    page_bytes: int = 1 << 20
    times: GroupTimes = GroupTimes()


class EmbeddedConsumer(Consumer):
    def __init__(
        self,
        engine: Engine,
        coordinator: Coordinator,
        *,
        group: str,
        topics: Sequence[str],
        client_id: str,
        settings: ConsumerSettings,
    ) -> None:
        self._engine = engine
        self._coordinator = coordinator
        self._settings = settings
        self._loop = asyncio.get_running_loop()
        self._owned: dict[Partition, OwnedPartition] = {}
        self._turn: deque[Partition] = deque()  # whose page is next
        self._events: deque[Assigned | Revoked | Lost] = deque()
        self._wake = asyncio.Event()
        self._revocation: asyncio.Event | None = None  # open, until the user asks for more
        self._told = False  # the open revocation was handed out
        self._failure: Exception | None = None
        self._closed = False
        self._settled = 0  # since the last commit
        self._commit_timer: asyncio.TimerHandle | None = None
        self._committing: set[asyncio.Task[None]] = set()
        self._membership = Membership(
            engine,
            coordinator,
            self,
            group=group,
            topics=topics,
            client_id=client_id,
            times=settings.times,
        )

    def start(self) -> None:
        self._membership.start()

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
            batch = await self._fetch()
            if batch:
                return batch
            left = until - self._loop.time()
            if left <= 0:
                return None
            with suppress(TimeoutError):
                async with asyncio.timeout(left):
                    await self._wake.wait()
        return None

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
            if partition in self._owned:
                self._owned[partition].paused = True

    def resume(self, partitions: Collection[Partition]) -> None:
        for partition in partitions:
            if partition in self._owned:
                self._owned[partition].paused = False
        self._wake.set()

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
        places = {place: due for place, owned in self._owned.items() if (due := owned.to_commit())}
        if not places:
            return
        member, owned_then = self._membership, dict(self._owned)
        code = await self._coordinator.commit(
            member.group, member.member, member.generation, places
        )
        if code is Code.NONE:  # else the group has given us up: the membership finds out
            for place, committed in places.items():
                owned_then[place].committed(committed)

    async def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        self._wake.set()
        if self._commit_timer is not None:
            self._commit_timer.cancel()
        await asyncio.gather(*self._committing, return_exceptions=True)
        await self._membership.leave()

    # what the membership tells

    def gained(self, partitions: Sequence[Partition], epoch: int) -> None:
        committed = self._engine.positions.of(self._membership.group)
        for place in partitions:
            self._own(place, epoch, committed.get(place))
        if partitions:
            self._tell(Assigned(tuple(partitions), epoch))

    def revoking(self) -> asyncio.Event:
        done = asyncio.Event()
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
            _log.warning("group %s: last commit failed: %s", self._membership.group, error)
        self._disown()

    def lost(self) -> None:
        if self._owned:
            self._tell(Lost(tuple(self._owned), self._membership.generation))
        self._disown()

    def failed(self, error: Exception) -> None:
        self._failure = error
        self._wake.set()

    def _own(self, place: Partition, epoch: int, committed: Committed | None) -> None:
        log = self._engine.partition(place)
        position = committed or Committed(log.earliest)  # a partition new to the group (rule 10)
        try:
            log.check(position.offset)
        except PositionOutOfRange as error:
            self._failure = error
        self._owned[place] = OwnedPartition(log, epoch, position)
        self._turn.append(place)
        self._engine.watch(place, self._wake.set)

    def _disown(self) -> None:
        for place in self._owned:
            self._engine.unwatch(place, self._wake.set)
        self._owned = {}
        self._turn.clear()
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

    async def _fetch(self) -> tuple[Message, ...]:
        """The next page of the partition whose turn it is; empty when there is nothing to read."""
        for _ in range(len(self._turn)):
            place = self._turn[0]
            self._turn.rotate(-1)
            owned = self._owned[place]
            if not owned.readable or self._revocation is not None:
                continue
            page = await self._engine.page(
                place,
                owned.position,
                epoch=owned.epoch,
                max_records=self._settings.page_records,
                max_bytes=self._settings.page_bytes,
            )
            if self._owned.get(place) is not owned:
                return ()  # given up meanwhile: the turns are not those we began with
            if owned.paused:
                continue
            messages = owned.take(page)
            if messages:
                return tuple(messages)
            self._wake.set()  # all of it was finished before: look again
        return ()

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
            _log.warning("group %s: commit put off: %s", self._membership.group, error)
            if self._commit_timer is None and not self._closed:
                self._commit_later()
