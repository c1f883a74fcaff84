"""One member of a consumer group, at the pace of its caller.

aiokafka runs the group in a task of its own and calls us when ownership changes. Those changes become
events of ``poll``; a revocation waits, within a bound, until the next poll says that it was dealt with.
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

from app.brokers.driver import Joining
from app.brokers.following import Following, FollowingMember
from app.brokers.kafka.admin import Admin
from app.brokers.kafka.commits import Commits
from app.brokers.kafka.connection import STOP_WITHIN
from app.brokers.kafka.errors import translate
from app.brokers.kafka.heartbeats import Heartbeats
from app.brokers.kafka.membership import Membership, make_consumer
from app.brokers.kafka.ownership import Owned
from app.brokers.kafka.reader import position_lost
from app.brokers.kafka.settings import KafkaSettings
from app.brokers.kafka.start_positions import prepare, resolve_new
from app.brokers.tail import Tail
from app.delivery.offsets import FinishedRuns
from app.model.message import Assigned, Lost, Message, Partition, Revoked

log = logging.getLogger(__name__)

FETCH_MS = 3_600_000
AGAIN_AFTER = 1.0  # seconds
NOTHING = Owned(-1, {})


class KafkaConsumer(ConsumerRebalanceListener, FollowingMember[Following]):  # type: ignore[misc]  # aiokafka is untyped
    """A ``Consumer``. ``tail``: that of a partition, which all members of a process share. ``gone`` is called
    when this one is closed. ``beats``: of all members of the process."""

    def __init__(
        self,
        settings: KafkaSettings,
        joining: Joining,
        tail: Callable[[Partition], Tail],
        gone: Callable[[], None],
        monotonic: Callable[[], float] = time.monotonic,
        beats: Heartbeats | None = None,
    ) -> None:
        FollowingMember.__init__(self, settings.max_poll_records)
        self._settings = settings
        self._joining = joining
        self._group = joining.group
        self._admin = Admin(settings)
        self._held = NOTHING
        self._tail = tail
        self._gone = gone
        self._listening: asyncio.Task[None] | None = None
        self._consumer = make_consumer(
            settings, joining.group, joining.client_id, paced=beats is not None
        )
        self._membership = Membership(self._consumer, settings.session_timeout, monotonic, beats)
        self._commits = Commits(
            self._consumer, joining.group, settings, self._passed_over, self._broke, monotonic
        )

    async def start(self) -> None:
        """Join. Raises PositionOutOfRange for a start that the log does not hold, or KafkaError."""
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
        self._pass_over(partition)
        return self._held.window(partition)

    def holds(self, message: Message) -> bool:
        return self._held.has(message) and self._membership.sure()

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

    # What aiokafka calls, in its own task. Errors here would only be logged by it.

    async def on_partitions_revoked(self, _revoked: Collection[TopicPartition]) -> None:
        self._stop_reading()
        held = self._held
        if not held.partitions:
            return
        if self._membership.thrown_out:  # a zombie: nothing can be settled any more
            self._give_up()
            self._tell(Lost(held.partitions, held.epoch))
            return
        revoked = Revoked(held.partitions, held.epoch)
        if not await self._hand_over(revoked, self._settings.handover):
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
        except Exception as error:  # noqa: BLE001 - aiokafka would only log it: poll raises it
            self._broke(error)
            return
        if self._closed:  # nobody would ever take it away from one that has given up
            return
        self._give_up()
        self._held = held = Owned(self._membership.generation, runs)
        for place, finished in runs.items():
            following = Following(
                self._tail(place), held.epoch, finished.next, self._joining.wanted, self._stirred
            )
            self._own(place, following)
            following.join()
        if runs:
            self._tell(Assigned(held.partitions, held.epoch))

    def _give_up(self) -> None:
        """Nothing is ours any more."""
        self._disown()
        self._held = NOTHING

    async def _places(self, assigned: list[TopicPartition]) -> dict[Partition, FinishedRuns]:
        """Begin each partition at its commit; one without gets its start, committed first."""
        self._membership.rest(assigned)
        committed = dict(await self._membership.committed(assigned))
        new = [place for place in assigned if place not in committed]
        if new:
            started = {place.topic for place in await self._admin.committed(self._group)}
            offsets = await resolve_new(self._consumer, new, started, self._joining.start)
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

    def _take(self, owned: Following) -> Iterable[Message]:
        held = self._held
        ready = [one for one in owned.take() if held.take(one.partition, one.offset)]
        if not ready:
            self._commits.soon()  # what was finished before a restart moves the commit by itself
        return ready

    def _passed_over(self) -> Owned:
        """What it holds now, with what passed it by."""
        for place, owned in self._owned.items():
            owned.count()
            self._pass_over(place)
        return self._held

    def _pass_over(self, place: Partition) -> None:
        if place in self._owned:
            self._held.pass_over(place, self._owned[place].position)

    def look(self) -> None:
        """Positions have moved: what only passed it by is committed, too, and told."""
        if self._passed_over().due():
            self._commits.soon()

    async def _listen(self) -> None:
        """What goes wrong in the group comes out of the client's own fetches, which bring nothing else."""
        while True:
            try:
                await self._consumer.getmany(timeout_ms=FETCH_MS)
            except ConsumerStoppedError:
                return
            except KafkaError as error:
                self._broke(error)
                await asyncio.sleep(AGAIN_AFTER)
            except Exception as error:  # noqa: BLE001 - a bug: poll raises it
                self._broke(error)
                return

    def _broke(self, error: BaseException) -> None:
        self._fail(translate(error, self._settings.name) or error)
