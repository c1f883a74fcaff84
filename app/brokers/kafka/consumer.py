"""A Kafka consumer group member that its caller polls at its own pace.

aiokafka runs the group protocol in its own task and calls this module when ownership changes. Those changes
become events of ``poll``. A revocation waits, within a time limit, until the caller's next poll shows that
it has handled the event.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Collection, Iterable

from aiokafka import ConsumerRebalanceListener, TopicPartition
from aiokafka.errors import (
    CommitFailedError,
    ConsumerStoppedError,
    IllegalStateError,
    KafkaError,
    OffsetOutOfRangeError,
)

from app.brokers.driver import JoinRequest
from app.brokers.kafka.admin import KafkaAdmin
from app.brokers.kafka.commits import CommitScheduler
from app.brokers.kafka.connection import STOP_WITHIN
from app.brokers.kafka.errors import translate
from app.brokers.kafka.heartbeats import Heartbeats
from app.brokers.kafka.membership import KafkaMembership, make_consumer
from app.brokers.kafka.ownership import OwnedPartitions
from app.brokers.kafka.reader import position_lost
from app.brokers.kafka.settings import KafkaSettings
from app.brokers.kafka.start_positions import prepare, resolve_new
from app.brokers.partition_reader import PartitionReader, PartitionReadingMember
from app.brokers.tail import PartitionTail
from app.delivery.offsets import FinishedRuns
from app.model.message import Assigned, Lost, Message, Partition, Revoked

log = logging.getLogger(__name__)

FETCH_MS = 3_600_000
AGAIN_AFTER = 1.0  # seconds
NOTHING = OwnedPartitions(-1, {})


class KafkaConsumer(ConsumerRebalanceListener, PartitionReadingMember[PartitionReader]):  # type: ignore[misc]  # aiokafka is untyped
    """A ``Consumer`` in a Kafka consumer group.

    Args:
        settings: The settings with which to reach the cluster, and the time limits.
        joining: The group and its topics.
        tail: A function that returns the shared reader of a partition. All members of the process use the
            same one.
        gone: Called when this member is closed.
        monotonic: A clock in seconds.
        beats: The timer that sends the heartbeats of all members of the process together.
    """

    def __init__(
        self,
        settings: KafkaSettings,
        joining: JoinRequest,
        tail: Callable[[Partition], PartitionTail],
        gone: Callable[[], None],
        monotonic: Callable[[], float] = time.monotonic,
        beats: Heartbeats | None = None,
    ) -> None:
        PartitionReadingMember.__init__(self, settings.max_poll_records)
        self._settings = settings
        self._joining = joining
        self._group = joining.group
        self._admin = KafkaAdmin(settings)
        self._held = NOTHING
        self._tail = tail
        self._gone = gone
        self._listening: asyncio.Task[None] | None = None
        self._consumer = make_consumer(
            settings, joining.group, joining.client_id, paced=beats is not None
        )
        self._membership = KafkaMembership(
            self._consumer, settings.session_timeout, monotonic, beats
        )
        self._commits = CommitScheduler(
            self._consumer,
            joining.group,
            settings,
            self._owned_with_skipped,
            self._on_error,
            monotonic,
        )

    async def start(self) -> None:
        """Join the group. Raises KafkaError. Raises PositionOutOfRange if a partition does not hold the start
        position."""
        try:
            await prepare(self._admin, self._group, self._joining.topics, self._joining.start)
            await self._consumer.start()
        except BaseException:
            self._closed = True
            self._gone()
            await self._membership.leave(STOP_WITHIN)
            raise
        self._consumer.subscribe(list(self._joining.topics), listener=self)
        self._listening = asyncio.create_task(self._listen(), name=f"group {self._group}")
        self._commits.start()

    @property
    def topics(self) -> Collection[str]:
        return self._joining.topics

    async def settle(self, messages: Collection[Message]) -> None:
        self._held.settle(messages)
        self._commits.soon()

    def window(self, partition: Partition) -> int:
        if not self._held.has_open(partition):
            return 0
        self._skip_to_position(partition)
        return self._held.window(partition)

    def holds(self, message: Message) -> bool:
        return self._held.has(message) and self._membership.has_lease()

    async def commit(self) -> None:
        await self._commits.now()

    async def close(self) -> None:
        if self._closed:
            return
        self._end()
        await self.commit()
        self._give_up()
        self._gone()
        await self._commits.stop(STOP_WITHIN)
        if self._listening is not None:
            self._listening.cancel()
            await asyncio.wait({self._listening}, timeout=STOP_WITHIN)
        await self._membership.leave(STOP_WITHIN)

    # aiokafka calls these two methods in its own task, and only logs their errors.

    async def on_partitions_revoked(self, _revoked: Collection[TopicPartition]) -> None:
        self._stop_reading()
        held = self._held
        if not held.partitions:
            return
        if self._membership.removed:  # the group has given the partitions to other members already
            self._give_up()
            self._enqueue(Lost(held.partitions, held.epoch))
            return
        revoked = Revoked(held.partitions, held.epoch)
        if not await self._revoke_and_wait(revoked, self._settings.handover):
            log.warning("group %s: a revocation was not handled in time", self._group)
        await self.commit()
        self._give_up()

    async def on_partitions_assigned(self, assigned: Collection[TopicPartition]) -> None:
        try:
            async with asyncio.timeout(self._settings.session_timeout):
                runs = await self._places(list(assigned))
        except (CommitFailedError, IllegalStateError) as error:
            log.info("group %s rebalances again: %s", self._group, error)
            return
        except Exception as error:  # noqa: BLE001 - poll raises it, while aiokafka would only log it
            self._on_error(error)
            return
        if self._closed:  # a closed member would never release the partitions
            return
        self._give_up()
        self._held = held = OwnedPartitions(self._membership.generation, runs)
        for place, finished in runs.items():
            following = PartitionReader(
                self._tail(place), held.epoch, finished.next, self._joining.wanted, self._stirred
            )
            self._own(place, following)
            following.join()
        if runs:
            self._enqueue(Assigned(held.partitions, held.epoch))

    def _give_up(self) -> None:
        """Give up all owned partitions at once."""
        self._disown()
        self._held = NOTHING

    async def _places(self, assigned: list[TopicPartition]) -> dict[Partition, FinishedRuns]:
        """Return the position of each assigned partition. It is the group's commit. For a partition without a
        commit, the start position is committed first."""
        self._membership.stop_fetching(assigned)
        committed = dict(await self._membership.committed(assigned))
        new = [place for place in assigned if place not in committed]
        if new:
            started = {place.topic for place in await self._admin.committed(self._group)}
            offsets = await resolve_new(
                self._admin, self._consumer, new, started, self._joining.start
            )
            await self._consumer.commit({place: (offset, "") for place, offset in offsets.items()})
            committed |= await self._membership.committed(new)
        runs = {}
        for place in assigned:
            offset, metadata = committed[place].offset, committed[place].metadata
            runs[Partition(place.topic, place.partition)] = FinishedRuns.restore(offset, metadata)
        return runs

    async def _batch(self) -> tuple[Message, ...]:
        try:
            return await super()._batch()
        except OffsetOutOfRangeError as error:
            lost = await position_lost(self._consumer, error, self._settings.request_timeout)
            raise lost from error
        except KafkaError as error:
            raise translate(error, self._settings.name) or error from error

    def _take(self, owned: PartitionReader) -> Iterable[Message]:
        held = self._held
        ready = [one for one in owned.take() if held.take(one.partition, one.offset)]
        if not ready:
            self._commits.soon()  # messages finished before a restart move the commit position
        return ready

    def _owned_with_skipped(self) -> OwnedPartitions:
        """Return the owned partitions. Messages that the filter skipped are counted as finished first."""
        for place, owned in self._owned.items():
            owned.count()
            self._skip_to_position(place)
        return self._held

    def _skip_to_position(self, place: Partition) -> None:
        if place in self._owned:
            self._held.skip_to(place, self._owned[place].position)

    def on_positions_moved(self) -> None:
        """Report skipped messages to the filter, and schedule a commit if a position has moved."""
        if self._owned_with_skipped().due():
            self._commits.soon()

    async def _listen(self) -> None:
        """Pass errors of the group on to the next poll.

        The client reports errors only from ``getmany``. That fetches no records, because all partitions are
        paused.
        """
        while True:
            try:
                await self._consumer.getmany(timeout_ms=FETCH_MS)
            except ConsumerStoppedError:
                return
            except KafkaError as error:
                self._on_error(error)
                await asyncio.sleep(AGAIN_AFTER)
            except Exception as error:  # noqa: BLE001 - a bug: poll raises it
                self._on_error(error)
                return

    def _on_error(self, error: BaseException) -> None:
        self._fail(translate(error, self._settings.name) or error)
