"""Find the positions at which subscriptions begin in a shared group, and move them between groups (ADR 0055).

Thousands of subscriptions join at once. Those that wait are handled together, with one request for each question.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import NamedTuple

from aiokafka import TopicPartition
from aiokafka.errors import CommitFailedError

from app.brokers.driver import JoinRequest
from app.brokers.kafka.admin import KafkaAdmin
from app.brokers.kafka.start_positions import resolve
from app.errors import BrokerUnavailable, StoreUnavailable
from app.interfaces import Commit, Progress, ProgressStore
from app.model.message import Partition
from app.model.start import EARLIEST, StartAt

Rows = Mapping[Partition, Progress]


class _Waiting(NamedTuple):
    """A subscription that joins, and the future of its positions."""

    shared: str
    joining: JoinRequest
    answer: asyncio.Future[Rows]


class SharedStarts:
    """The positions of subscriptions that join shared groups of one cluster.

    Methods raise KafkaError, and BrokerUnavailable if the store does not answer.
    """

    def __init__(self, broker: str, admin: KafkaAdmin, store: ProgressStore) -> None:
        self.store = store
        self._broker = broker
        self._admin = admin
        self._waiting: list[_Waiting] = []
        self._task: asyncio.Task[None] | None = None

    async def begin(self, shared: str, joining: JoinRequest) -> Rows:
        """Return the positions of a subscription. Store them first if it has none.

        A subscription whose own group has commits takes them over. Raises BrokerUnavailable while that group still
        has members, and PositionOutOfRange if a partition does not hold the start position.
        """
        answer: asyncio.Future[Rows] = asyncio.get_running_loop().create_future()
        self._waiting.append(_Waiting(shared, joining, answer))
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._begin_waiting(), name="positions to begin")
        return await answer

    async def find(self, group: str) -> Rows:
        """Return the stored positions of a subscription."""
        try:
            return (await self.store.find(self._broker, [group])).get(group, {})
        except StoreUnavailable as error:
            raise self._unknown(error) from error

    async def begin_partitions(
        self, shared: str, lacking: Callable[[], Collection[str]], places: Sequence[Partition]
    ) -> Collection[str]:
        """Store the first position in partitions that were added to the topic. It is the earliest one, so that no
        record is skipped. ``lacking`` returns the groups that still need it.

        Return the groups that have no position at all. Another process has moved or deleted their subscriptions. With new
        positions, they would receive the whole topic again.
        """
        offsets = await self._resolve(
            [TopicPartition(at.topic, at.number) for at in places], EARLIEST
        )
        starts = {at: Commit(offset) for at, offset in offsets.items()}
        groups = lacking()
        known = _of_topic(await self.store.find(self._broker, groups), places[0].topic)
        begun = dict.fromkeys([group for group in groups if group in known], starts)
        await self.store.begin(self._broker, shared, begun)
        return [group for group in groups if group not in known]

    async def give_back(self, group: str, topics: Collection[str]) -> None:
        """Commit the positions of a subscription to its own group, if it has any, and delete them.

        Raises BrokerUnavailable while another member of its own group runs.
        """
        rows = await self.find(group)
        if not rows:
            return
        offsets = {
            TopicPartition(at.topic, at.number): (row.offset, row.finished)
            for at, row in rows.items()
            if at.topic in topics
        }
        async with self._admin.reader(group_id=group, enable_auto_commit=False) as consumer:
            consumer.assign(list(offsets))
            try:
                await consumer.commit(offsets)
            except CommitFailedError as error:
                raise self._still_running(group) from error
        await self.store.remove(self._broker, [group])

    async def _begin_waiting(self) -> None:
        while self._waiting:
            await asyncio.sleep(0)  # more subscriptions may join in this step
            waiting, self._waiting = self._waiting, []
            by_place: dict[tuple[str, str], list[_Waiting]] = {}
            for each in waiting:
                by_place.setdefault((each.shared, each.joining.topics[0]), []).append(each)
            for (shared, topic), some in by_place.items():
                try:
                    found = await self._begin_all(shared, topic, some)
                except StoreUnavailable as error:
                    _answer(some, {}, self._unknown(error))
                except Exception as error:  # noqa: BLE001 - the callers raise it
                    _answer(some, {}, error)
                else:
                    _answer(some, found, self._unknown("there are none"))

    async def _begin_all(
        self, shared: str, topic: str, waiting: Sequence[_Waiting]
    ) -> Mapping[str, Rows | Exception]:
        joining = [each.joining for each in waiting]
        await self._admin.ensure([topic])
        places = await self._admin.places([topic])
        groups = [each.group for each in joining]
        rows = _of_topic(await self.store.find(self._broker, groups), topic)
        lacking = [each for each in joining if len(rows.get(each.group, ())) < len(places)]
        if not lacking:
            return {**rows}
        starts, failed = await self._starts(places, lacking, rows)
        # A subscription that has ended meanwhile may begin in a group of its own next. Rows that came later than its look
        # for rows would move it back at its next start.
        ended = {each.joining.group for each in waiting if each.answer.done()}
        starts = {group: each for group, each in starts.items() if group not in ended}
        await self.store.begin(self._broker, shared, starts)
        rows = _of_topic(await self.store.find(self._broker, groups), topic)
        return {**rows, **failed}

    async def _starts(
        self,
        places: Sequence[TopicPartition],
        joining: Sequence[JoinRequest],
        rows: Mapping[str, Rows],
    ) -> tuple[dict[str, dict[Partition, Commit]], dict[str, Exception]]:
        """Return the first positions of subscriptions, and the errors of those that cannot begin."""
        fresh = {each.group for each in joining if each.group not in rows}
        existing = fresh & await self._admin.groups() if fresh else set[str]()
        starts: dict[str, dict[Partition, Commit]] = {}
        failed: dict[str, Exception] = {}
        known: dict[str, dict[Partition, int] | Exception] = {}
        for each in joining:
            own = await self._own_commits(each.group, places) if each.group in existing else {}
            if isinstance(own, Exception):
                failed[each.group] = own
                continue
            start = EARLIEST if own or each.group not in fresh else each.start
            if repr(start) not in known:
                known[repr(start)] = await self._try(places, start)
            offsets = known[repr(start)]
            if isinstance(offsets, Exception):
                failed[each.group] = offsets
            else:
                starts[each.group] = {at: Commit(offset) for at, offset in offsets.items()} | own
        return starts, failed

    async def _own_commits(
        self, group: str, places: Collection[TopicPartition]
    ) -> dict[Partition, Commit] | Exception:
        """Return the commits of the own group of a subscription, or an error while that group has members."""
        if not await self._admin.is_empty(group):
            return self._still_running(group)
        return {
            Partition(at.topic, at.partition): commit
            for at, commit in (await self._admin.commits(group)).items()
            if at in places
        }

    async def _try(
        self, places: Collection[TopicPartition], start: StartAt
    ) -> dict[Partition, int] | Exception:
        try:
            return await self._resolve(places, start)
        except Exception as error:  # noqa: BLE001 - the callers with this start raise it
            return error

    async def _resolve(
        self, places: Collection[TopicPartition], start: StartAt
    ) -> dict[Partition, int]:
        async with self._admin.reader() as consumer:
            offsets = await resolve(self._admin, consumer, places, start)
        return {Partition(at.topic, at.partition): offset for at, offset in offsets.items()}

    def _still_running(self, group: str) -> BrokerUnavailable:
        return BrokerUnavailable(
            f"group {group} still has members: another worker runs the subscription with another value of sharing",
            broker=self._broker,
        )

    def _unknown(self, why: object) -> BrokerUnavailable:
        return BrokerUnavailable(f"the positions are unknown: {why}", broker=self._broker)


def _of_topic(found: Mapping[str, Rows], topic: str) -> dict[str, Rows]:
    """Return the positions in one topic. A subscription that was given another topic has none."""
    here = {
        group: {at: row for at, row in rows.items() if at.topic == topic}
        for group, rows in found.items()
    }
    return {group: rows for group, rows in here.items() if rows}


def _answer(
    waiting: Sequence[_Waiting], found: Mapping[str, Rows | Exception], otherwise: Exception
) -> None:
    for each in waiting:
        if each.answer.done():  # its caller was cancelled
            continue
        rows = found.get(each.joining.group, otherwise)
        if isinstance(rows, Exception):
            each.answer.set_exception(rows)
        else:
            each.answer.set_result(rows)
