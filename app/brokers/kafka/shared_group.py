"""One membership in a consumer group for many subscriptions of one topic (ADR 0055).

The group assigns partitions and gives the epoch. ``shared_ownership`` has the positions of the subscriptions.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial

from aiokafka import ConsumerRebalanceListener, TopicPartition
from aiokafka.errors import (
    ConsumerStoppedError,
    IllegalStateError,
    KafkaError,
    OffsetOutOfRangeError,
)

from app.brokers.driver import JoinRequest
from app.brokers.kafka.connection import STOP_WITHIN
from app.brokers.kafka.errors import translate
from app.brokers.kafka.heartbeats import Heartbeats
from app.brokers.kafka.membership import KafkaMembership, make_consumer
from app.brokers.kafka.reader import position_lost
from app.brokers.kafka.settings import KafkaSettings
from app.brokers.kafka.shared_consumer import SharedConsumer
from app.brokers.kafka.shared_ownership import AGAIN_AFTER, GroupEnds, Held, SharedOwnership
from app.brokers.kafka.shared_starts import SharedStarts
from app.brokers.member import pause_for
from app.brokers.sharing import SingleFlight
from app.brokers.tail import PartitionTail
from app.errors import BrokerUnavailable, PositionOutOfRange
from app.model.message import Partition

log = logging.getLogger(__name__)

FETCH_MS = 3_600_000


class SharedGroup(ConsumerRebalanceListener):  # type: ignore[misc]  # aiokafka is untyped
    """A member of a consumer group, and the consumers of its subscriptions.

    Args:
        settings: How to reach the cluster, and the time limits.
        name: The name of the group.
        topic: The topic that all subscriptions read.
        starts: Finds the positions of subscriptions that join.
        tail: A function that returns the shared reader of a partition.
        gone: Called when this member ends. Subscriptions that join later need a new one.
        beats: The timer that sends the heartbeats of all members of the process together.
        monotonic: A clock in seconds.

    Attributes:
        closed: Whether this member has ended.
        topics: The topic, as a list.
    """

    def __init__(
        self,
        settings: KafkaSettings,
        name: str,
        topic: str,
        starts: SharedStarts,
        tail: Callable[[Partition], PartitionTail],
        gone: Callable[[], None],
        beats: Heartbeats | None = None,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self.name = name
        self.topics: Collection[str] = [topic]
        self.closed = False
        self._settings = settings
        self._starts = starts
        self._gone = gone
        self._monotonic = monotonic
        self._ended = False
        self._revoking = False
        self._consumers: dict[str, SharedConsumer] = {}
        self._starting = SingleFlight()
        self._tasks: list[asyncio.Task[None]] = []
        self._taking: asyncio.Task[None] | None = None
        self._turn = 0  # of the partition whose skipped messages are counted next
        self._member = make_consumer(settings, name, "", paced=beats is not None)
        self._membership = KafkaMembership(self._member, settings.session_timeout, monotonic, beats)
        ends = GroupEnds(self.has_lease, self._commit, self._forget, self._on_error)
        interval = settings.commit_interval
        self._owned = SharedOwnership(
            settings.name, name, starts.store, tail, ends, interval, monotonic
        )

    @property
    def trouble(self) -> str:
        """Return why positions cannot be read or stored, or ""."""
        return self._owned.trouble

    async def join(self, joining: JoinRequest) -> SharedConsumer:
        """Add a subscription.

        Raises KafkaError, BrokerUnavailable, or PositionOutOfRange if a partition does not hold the start position.
        """
        group = joining.group
        while True:
            held = self._owned.held
            rows = await self._starts.begin(self.name, joining)
            if not self._tasks:
                await self._starting.ask("start", self._start)
            if added := held.keys() - rows.keys():
                await self._starts.begin_partitions(self.name, lambda: [group], list(added))
            elif self._owned.held is held:  # otherwise the rows may be older than the assignment
                break
        if self.closed:
            raise BrokerUnavailable(f"group {self.name} is closing", broker=self._settings.name)
        for at, each in held.items():
            each.replace(group, rows[at])
        consumer = SharedConsumer(
            self, joining, self._settings.name, self._settings.max_poll_records
        )
        self._consumers[group] = consumer
        self._assign(consumer)
        return consumer

    async def _start(self) -> None:
        if self._tasks:
            return
        try:
            await self._member.start()
        except BaseException:
            await self._close()
            raise
        self._member.subscribe(list(self.topics), listener=self)
        self._tasks = [
            asyncio.create_task(self._listen(), name=f"group {self.name}"),
            asyncio.create_task(self._write(), name=f"positions {self.name}"),
        ]

    async def leave(self, consumer: SharedConsumer) -> None:
        """Remove a consumer that has ended. The last one ends the membership."""
        if self._consumers.get(consumer.group) is consumer:
            del self._consumers[consumer.group]
        last = not self._consumers and not self._ended
        if last:
            self._ended = True
            self._retire()
        await self.flush()
        if last:
            await self._close()

    def _retire(self) -> None:
        """Accept no more subscriptions. Later ones get a new member."""
        self.closed = True
        self._gone()

    async def stop(self) -> None:
        """End a member that no subscription could join."""
        if not self._ended and not self._consumers:
            self._ended = True
            await self._close()

    async def _close(self) -> None:
        self._retire()
        await self._owned.commit_minimum()
        self._owned.held = {}
        ending = [*self._tasks, *([self._taking] if self._taking is not None else [])]
        for task in ending:
            task.cancel()
        if ending:
            await asyncio.wait(ending, timeout=STOP_WITHIN)
        await self._membership.leave(STOP_WITHIN)

    def has_lease(self) -> bool:
        return self._membership.has_lease()

    def soon(self) -> None:
        self._owned.soon()

    async def flush(self) -> None:
        await self._owned.flush()

    async def position_lost(self, error: OffsetOutOfRangeError) -> PositionOutOfRange:
        return await position_lost(self._member, error, self._settings.request_timeout)

    def on_positions_moved(self) -> None:
        """Schedule a batch, and report the skipped messages of one partition to the filters."""
        self._owned.soon()
        if held := [*self._owned.held]:
            self._turn += 1
            place = held[self._turn % len(held)]
            for consumer in self._consumers.values():
                consumer.count(place)

    # aiokafka calls these two methods in its own task, and only logs their errors.

    async def on_partitions_revoked(self, _revoked: Collection[TopicPartition]) -> None:
        if self._taking is not None:
            self._taking.cancel()
            await asyncio.wait({self._taking})
            self._taking = None
        if not self._owned.held:
            return
        if self._membership.removed:  # the group has given the partitions to other members already
            self._owned.held = {}
            for consumer in self._consumers.values():
                consumer.lose()
            return
        self._revoking = True
        try:
            await self._hand_over()
        finally:
            self._owned.held, self._revoking = {}, False
            for consumer in self._consumers.values():
                consumer.give_up()

    async def _hand_over(self) -> None:
        """Let the consumers settle what they have finished, and store their positions."""
        until = self._monotonic() + self._settings.handover
        for handled in [each.start_revocation() for each in self._consumers.values()]:
            if not await pause_for(handled, max(0.0, until - self._monotonic())):
                log.warning("group %s: a revocation was not handled in time", self.name)
                break
        await self.flush()
        await self._owned.commit_minimum()

    async def on_partitions_assigned(self, assigned: Collection[TopicPartition]) -> None:
        if assigned:
            taking = self._take_over(list(assigned), self._membership.generation)
            self._taking = asyncio.create_task(taking, name=f"assignment {self.name}")

    async def _take_over(self, assigned: Sequence[TopicPartition], epoch: int) -> None:
        """Load the positions of the assigned partitions and give the partitions to the consumers. Repeat it while the
        store is unavailable."""
        try:
            self._membership.stop_fetching(assigned)
            places = [Partition(each.topic, each.partition) for each in assigned]
            held = await self._owned.load(places, epoch)
            while self._lacking(held):
                lacking = partial(self._lacking, held)
                for group in await self._starts.begin_partitions(self.name, lacking, places):
                    self._forget(group)
                held = await self._owned.load(places, epoch)
        except IllegalStateError as error:
            log.info("group %s rebalances again: %s", self.name, error)
        except Exception as error:  # noqa: BLE001 - the next polls raise it
            self._on_error(error)
        else:
            self._owned.held = held
            for consumer in self._consumers.values():
                self._assign(consumer)

    def _lacking(self, held: Held) -> Sequence[str]:
        """Return the groups of subscriptions that have no position in one of the partitions."""
        return [
            group
            for group in self._consumers
            if not all(group in each.positions for each in held.values())
        ]

    def _assign(self, consumer: SharedConsumer) -> None:
        if self._owned.held and not self._revoking:
            consumer.assign(list(self._owned.held.values()), self._owned.epoch)

    async def _write(self) -> None:
        try:
            await self._owned.write()
        except Exception as error:  # noqa: BLE001 - the next polls raise it
            self._on_error(error)

    def _forget(self, group: str) -> None:
        """End a subscription whose positions are gone, because it was moved to a group of its own or deleted."""
        consumer = self._consumers.pop(group, None)
        if consumer is not None:
            consumer.fail(BrokerUnavailable(f"the positions of {group} were moved or deleted"))

    async def _commit(self, positions: Mapping[Partition, int]) -> bool:
        """Commit offsets of the group. Return False if the group does not take them now."""
        offsets = {TopicPartition(at.topic, at.number): (to, "") for at, to in positions.items()}
        try:
            async with asyncio.timeout(self._settings.request_timeout):
                await self._member.commit(offsets)
        except (KafkaError, TimeoutError) as error:
            log.info("group %s: the minimum was not committed: %r", self.name, error)
            return False
        return True

    async def _listen(self) -> None:
        """Pass errors of the group on. The client reports them only from ``getmany``, which fetches nothing, because
        all partitions are paused."""
        while True:
            try:
                await self._member.getmany(timeout_ms=FETCH_MS)
            except ConsumerStoppedError:
                return
            except Exception as error:  # noqa: BLE001 - the next polls raise it
                self._on_error(error)
                if not isinstance(error, KafkaError):
                    return
                await asyncio.sleep(AGAIN_AFTER)

    def _on_error(self, error: BaseException) -> None:
        """Make the polls of all subscriptions raise the error. They begin again with a new member."""
        self._retire()
        meaning = translate(error, self._settings.name) or error
        for consumer in self._consumers.values():
            consumer.fail(meaning)
