"""One member of a consumer group, at the pace of whoever polls it.

aiokafka runs the group in a task of its own and calls us when ownership changes. Those changes become
events of ``poll``; a revocation waits, within a bound, until the next poll says that it was dealt with.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Collection, Sequence
from typing import Any

from aiokafka import ConsumerRebalanceListener, TopicPartition
from aiokafka.errors import (
    CommitFailedError,
    ConsumerStoppedError,
    IllegalStateError,
    KafkaError,
    NoOffsetForPartitionError,
    OffsetOutOfRangeError,
)

from app.brokers.driver import Joining
from app.brokers.kafka.admin import Admin
from app.brokers.kafka.commits import Commits
from app.brokers.kafka.connection import STOP_WITHIN
from app.brokers.kafka.errors import translate
from app.brokers.kafka.membership import Membership, make_consumer
from app.brokers.kafka.ownership import Owned
from app.brokers.kafka.reader import message_of, position_lost
from app.brokers.kafka.settings import KafkaSettings
from app.brokers.kafka.start_positions import prepare, resolve_new
from app.brokers.member import Member
from app.delivery.offsets import FinishedRuns
from app.filters.index import Types
from app.model.message import Assigned, Lost, Message, Partition, Revoked

log = logging.getLogger(__name__)

FETCH_MS = 60_000
NOTHING = Owned(-1, {})
_STRUCTURED = b"application/cloudevents"


class KafkaConsumer(ConsumerRebalanceListener, Member):  # type: ignore[misc]  # aiokafka is untyped
    """A ``Consumer``."""

    def __init__(
        self,
        settings: KafkaSettings,
        joining: Joining,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        Member.__init__(self)
        self._settings = settings
        self._joining = joining
        self._group = joining.group
        self._admin = Admin(settings)
        self._owned = NOTHING
        self._letting_go = False  # from the begin of a revocation until the partitions are gone
        self._fetch: asyncio.Task[Any] | None = None
        self._paused: set[Partition] = set()
        self._consumer = make_consumer(settings, joining.group, joining.client_id)
        self._membership = Membership(self._consumer, settings.session_timeout, monotonic)
        self._commits = Commits(
            self._consumer, joining.group, settings, lambda: self._owned, self._broke, monotonic
        )

    async def start(self) -> None:
        """Join. Raises PositionOutOfRange for a start that the log does not hold, or KafkaError."""
        try:
            await prepare(self._admin, self._group, self._joining.topics, self._joining.start)
            await self._consumer.start()
        except BaseException:
            self._closed = True
            await self._membership.leave(STOP_WITHIN)
            raise
        self._consumer.subscribe(list(self._joining.topics), listener=self)
        self._commits.start()

    async def settle(self, messages: Collection[Message]) -> None:
        self._owned.settle(messages)
        self._commits.soon()

    def window(self, partition: Partition) -> int:
        return self._owned.window(partition)

    def pause(self, partitions: Collection[Partition]) -> None:
        self._paused |= set(partitions)
        self._consumer.pause(*self._still_ours(partitions))

    def resume(self, partitions: Collection[Partition]) -> None:
        self._paused -= set(partitions)
        self._consumer.resume(*self._still_ours(partitions))

    def holds(self, message: Message) -> bool:
        return self._owned.has(message) and self._membership.sure()

    async def commit(self) -> None:
        await self._commits.now()

    async def close(self) -> None:
        if self._closed:
            return
        self._end()
        await self.commit()
        self._owned = NOTHING
        await self._commits.stop(STOP_WITHIN)
        if self._fetch is not None:
            self._fetch.cancel()
            await asyncio.wait({self._fetch}, timeout=STOP_WITHIN)
        await self._membership.leave(STOP_WITHIN)

    # What aiokafka calls, in its own task. Errors here would only be logged by it.

    async def on_partitions_revoked(self, _revoked: Collection[TopicPartition]) -> None:
        owned = self._owned
        if not owned.partitions:
            return
        if self._membership.thrown_out:  # a zombie: nothing can be settled any more
            self._owned = NOTHING
            self._tell(Lost(owned.partitions, owned.epoch))
            return
        self._letting_go = True
        revoked = Revoked(owned.partitions, owned.epoch)
        if not await self._hand_over(revoked, self._settings.handover):
            log.warning("group %s: a revocation was not handled in time", self._group)
        await self.commit()
        self._owned = NOTHING
        self._letting_go = False

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
        self._forget_fetch()
        self._paused.clear()
        self._owned = Owned(self._membership.generation, runs)
        if runs:
            self._tell(Assigned(self._owned.partitions, self._owned.epoch))

    async def _places(self, assigned: list[TopicPartition]) -> dict[Partition, FinishedRuns]:
        """Begin each partition at its commit; one without gets its start, committed first."""
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
            self._consumer.seek(place, offset)
            runs[Partition(place.topic, place.partition)] = FinishedRuns.restore(offset, metadata)
        return runs

    async def _batch(self) -> tuple[Message, ...]:
        if self._fetch is None:
            await self._begin_fetch()
        fetch = self._fetch
        if fetch is None or not fetch.done():
            return ()
        self._fetch = None
        self._news.set()  # also where it brought nothing of ours: the next one is to begin
        try:
            found = fetch.result()
        except (ConsumerStoppedError, NoOffsetForPartitionError, asyncio.CancelledError):
            return ()  # closed, or asked before the partitions just assigned have their place
        except OffsetOutOfRangeError as error:
            lost = await position_lost(self._consumer, error, self._settings.request_timeout)
            raise lost from error
        except KafkaError as error:
            raise translate(error, self._settings.name) or error from error
        return tuple(self._ours(found))

    async def _begin_fetch(self) -> None:
        """One fetch goes on from poll to poll: while a rebalance is under way aiokafka lets it wait, and
        nobody may have to wait for it; one that ended with each idle poll has leaked futures
        (reliability 5.1, #628).
        """
        most = self._settings.max_poll_records
        fetching = self._consumer.getmany(timeout_ms=FETCH_MS, max_records=most)
        self._fetch = asyncio.create_task(fetching)
        self._fetch.add_done_callback(lambda _: self._news.set())
        await asyncio.sleep(0)  # what the client has at hand comes in this step

    def _ours(self, found: dict[TopicPartition, list[Any]]) -> list[Message]:
        owned = self._owned
        messages: list[Message] = []
        if self._letting_go:
            return messages  # they are being let go: whoever gets them next reads these
        for place, raws in found.items():
            partition = Partition(place.topic, place.partition)
            if partition not in owned:
                continue
            if partition in self._paused:
                self._consumer.seek(place, raws[0].offset)  # read again when it is resumed
                continue
            messages += [
                message_of(raw, partition, owned.epoch)
                for raw in self._leave_out(raws)
                if owned.take(partition, raw.offset)
            ]
            owned.pass_over(partition, raws[-1].offset + 1)
        self._commits.soon()  # what was finished before a restart moves the commit by itself
        return messages

    def _leave_out(self, raws: list[Any]) -> list[Any]:
        """Those that may be wanted, told by the headers alone: most of what a busy topic holds is of other
        types, and to decode it only to drop it is what many subscriptions of one topic cost."""
        wanted = self._joining.wanted
        if wanted is None or wanted.types is None:
            return raws
        types = wanted.types
        left = [raw for raw in raws if not is_unwanted(raw.headers, types)]
        if len(left) < len(raws):
            wanted.passed(len(raws) - len(left))
        return left

    def _forget_fetch(self) -> None:
        """What was fetched before the partitions were placed is fetched again from there."""
        fetch, self._fetch = self._fetch, None
        if fetch is not None and not fetch.cancel() and not fetch.cancelled():
            fetch.exception()  # seen, so that nobody warns of it

    def _broke(self, error: BaseException) -> None:
        self._fail(translate(error, self._settings.name) or error)

    def _still_ours(self, partitions: Collection[Partition]) -> list[TopicPartition]:
        places = {TopicPartition(each.topic, each.number) for each in partitions}
        return list(places & self._consumer.assignment())


def is_unwanted(headers: Sequence[tuple[str, bytes | None]], types: Types) -> bool:
    """Whether it is an event in binary mode (K8 to K13) of another type. False is no answer: it has to
    be read, as structured events are, those of other versions, and whatever looks odd."""
    found = dict(headers)
    kind = found.get("ce_type")
    if not kind or len(found) != len(headers) or found.get("ce_specversion") != b"1.0":
        return False
    if not (found.get("ce_id") and found.get("ce_source")):
        return False
    content_type = found.get("content-type") or b""
    if content_type.lstrip().lower().startswith(_STRUCTURED):
        return False
    try:
        return not types.holds(kind.decode())
    except UnicodeDecodeError:
        return False
