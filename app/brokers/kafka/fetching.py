"""Fetch records for all group members of a process, with as few requests to each node as possible.

A node answers the requests of one connection in order, and a fetch without new records waits at the node. So
requests that come during this wait use an additional connection. The additional fetch returns no later than
the waiting fetch. Afterwards one request covers all partitions again.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Collection
from typing import Any

from aiokafka import AIOKafkaClient, TopicPartition
from aiokafka.errors import (
    BrokerResponseError,
    CorruptRecordException,
    KafkaError,
    LeaderNotAvailableError,
    NodeNotReadyError,
    OffsetOutOfRangeError,
    TopicAuthorizationFailedError,
)

from app.brokers.kafka.connection import STOP_WITHIN
from app.brokers.kafka.fetch_request import PendingFetch, found_in, request_for
from app.brokers.kafka.leadership import confirmed_ends
from app.brokers.kafka.records import FetchedRecords
from app.brokers.kafka.settings import KafkaSettings
from app.brokers.sharing import SingleFlight
from app.errors import BrokerUnavailable

log = logging.getLogger(__name__)

WAIT = 0.5  # seconds that a node may wait for new records; it answers at once when some arrive
IDLE_WAIT = 5.0  # the same, after an answer without new records
TOGETHER = 0.02  # no additional fetch begins when another returns within so many seconds
SETTLE = 0.002  # seconds in which answered callers can ask again before the next fetch is sent
MOST_CONNECTIONS = 4  # most connections to one node
AGAIN_AFTER = 0.1  # seconds before a failed fetch is retried
PERMANENT = (OffsetOutOfRangeError, TopicAuthorizationFailedError, CorruptRecordException)


class NodeFetcher:
    """The sender of fetch requests to one node."""

    def __init__(self, number: int, client: AIOKafkaClient, at_rest: float = IDLE_WAIT) -> None:
        self._number = number
        self._at_rest = at_rest
        self._had_news = True  # whether the last answer had records
        self._client = client
        self._wants: list[PendingFetch] = []
        self._channels: dict[int, asyncio.Task[None]] = {}
        self._back_by: dict[int, float] = {}  # by connection: when its fetch returns at the latest
        self._answered: set[TopicPartition] = (
            set()
        )  # partitions that were answered and have not asked again
        self._asked = asyncio.Event()
        self._closed = False

    async def fetch(self, place: TopicPartition, position: int) -> FetchedRecords:
        """Return records of the partition from ``position`` on, as soon as the node has any. Raises
        KafkaError."""
        answer: asyncio.Future[FetchedRecords] = asyncio.get_running_loop().create_future()
        self._wants.append(PendingFetch(place, position, answer))
        self._answered.discard(place)
        if not self._answered:
            self._asked.set()
        self._begin()
        return await answer

    def end(self) -> Collection[asyncio.Task[None]]:
        """Fail waiting callers and refuse new requests. Return the tasks of fetches that are still in
        flight.

        A connection that is being opened is not cancelled, because the client would lose track of it.
        """
        self._closed = True
        self._drop_all()
        return list(self._channels.values())

    def _begin(self) -> None:
        """Start a fetch on a free connection. If no connection is free, the new requests are sent when the
        next fetch returns."""
        free = (number for number in range(MOST_CONNECTIONS) if number not in self._channels)
        if (number := next(free, None)) is not None and not self._soon_back():
            self._channels[number] = asyncio.create_task(
                self._fetch_on(number), name=f"fetches {self._number}/{number}"
            )

    def _soon_back(self) -> bool:
        return any(left < TOGETHER for left in self._seconds_left())

    def _seconds_left(self) -> list[float]:
        """Return the seconds until each fetch in flight returns. An overdue fetch is left out."""
        now = asyncio.get_running_loop().time()
        return [back - now for back in self._back_by.values() if back - now > -TOGETHER]

    async def _fetch_on(self, number: int) -> None:
        try:
            await asyncio.sleep(0)  # includes requests made in the same step
            while not self._closed and not self._soon_back() and (wants := self._take()):
                await self._fetch(number, wants)
                await self._regroup()
        finally:
            del self._channels[number]
            if self._closed:
                self._drop_all()
            elif self._wants:
                self._begin()  # requests that arrived while all connections were in use

    async def _regroup(self) -> None:
        """Wait a moment, so that callers that just got records can ask again and share the next fetch."""
        self._asked.clear()
        if self._answered:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(SETTLE):
                    await self._asked.wait()
        self._answered.clear()

    def _take(self) -> dict[TopicPartition, list[PendingFetch]]:
        """Remove and return the waiting requests that the next fetch covers. A fetch has one position for
        each partition, as Kafka requires."""
        taken: dict[TopicPartition, list[PendingFetch]] = {}
        left: list[PendingFetch] = []
        for want in self._wants:
            if want.answer.done():
                continue
            same = taken.setdefault(want.place, [])
            if not same or same[0].position == want.position:
                same.append(want)
            else:
                left.append(want)
        self._wants = left
        return taken

    async def _fetch(self, number: int, wants: dict[TopicPartition, list[PendingFetch]]) -> None:
        wait = self._wait()
        self._back_by[number] = asyncio.get_running_loop().time() + wait
        try:
            found = await self._found(f"fetch-{number}", request_for(wants, wait))
            self._had_news = any(getattr(each, "raw", True) for each in found.values())
            for place, same in wants.items():
                self._resolve(place, same, found.get(place))
        except Exception as error:  # noqa: BLE001 - passed to the callers
            self._fail(wants, error)
        except BaseException:
            self._fail(wants, NodeNotReadyError("closing"))
            raise
        finally:
            del self._back_by[number]

    def _wait(self) -> float:
        """Return the seconds that the node may wait for records.

        The wait is long only for a fetch of all partitions. An additional fetch returns before the others,
        so that they become one request again.
        """
        if not self._back_by and not self._had_news:
            return self._at_rest
        return max(0.0, min([WAIT, *(left - TOGETHER for left in self._seconds_left())]))

    async def _found(self, group: str, request: Any) -> dict[TopicPartition, Any]:
        """Send a fetch request on the connection named ``group``. Return the answer by partition. Raises
        KafkaError."""
        if not await self._client.ready(self._number, group=group) or self._closed:
            raise NodeNotReadyError(f"node {self._number}")
        return found_in(await self._client.send(self._number, request, group=group))

    def _resolve(self, place: TopicPartition, wants: list[PendingFetch], found: Any) -> None:
        """Resolve the callers of one partition with its records or its error. If there are no new records,
        request them again."""
        if found is None:
            self._fail({place: wants}, LeaderNotAvailableError(str(place)))
        elif isinstance(found, KafkaError):
            out = isinstance(found, OffsetOutOfRangeError)
            error = OffsetOutOfRangeError({place: wants[0].position}) if out else found
            self._fail({place: wants}, error)
        elif not found.raw:
            self._wants += wants
        else:
            self._answered.add(place)
            for want in wants:
                if not want.answer.done():
                    want.answer.set_result(found.begin(want))

    def _drop_all(self) -> None:
        wants, self._wants = self._wants, []
        for want in wants:
            self._fail({want.place: [want]}, NodeNotReadyError("closing"))

    @staticmethod
    def _fail(wants: dict[TopicPartition, list[PendingFetch]], error: Exception) -> None:
        for same in wants.values():
            for want in same:
                if not want.answer.done():
                    want.answer.set_exception(error)


class Fetcher:
    """The sender of all fetch requests of this process to one cluster.

    The first fetch opens the client. A failed fetch is retried for as long as its caller waits.
    """

    def __init__(self, settings: KafkaSettings) -> None:
        self._settings = settings
        self._client: AIOKafkaClient | None = None
        self._opening = SingleFlight()  # a cancelled caller does not cancel the connection
        self._closed = False
        self._nodes: dict[int, NodeFetcher] = {}

    async def records(self, place: TopicPartition, position: int) -> FetchedRecords:
        """Return records of the partition from ``position`` on, as soon as there are any.

        Raises the permanent errors in ``PERMANENT``, or a KafkaError of the client that is permanent. A position is
        out of range only if the confirmed leader does not have it.
        """
        warned = False
        while not self._closed:
            try:
                node = await self._leader(place)
                return await node.fetch(place, position)
            except OffsetOutOfRangeError:
                if await self._is_outside(place, position):
                    raise
                log.info(
                    "partition %s: a node without record %d is not its leader", place, position
                )
            except PERMANENT:
                raise
            except (KafkaError, OSError, TimeoutError) as error:
                if not _is_temporary(error):
                    raise
                odd = not getattr(error, "retriable", True)
                level = logging.WARNING if odd and not warned else logging.DEBUG
                log.log(level, "partition %s: a fetch failed and is retried: %r", place, error)
                warned = warned or odd
                if self._client is not None:
                    self._client.force_metadata_update()
            await asyncio.sleep(AGAIN_AFTER)
        raise BrokerUnavailable("this log is closing", broker=self._settings.name)

    async def _is_outside(self, place: TopicPartition, position: int) -> bool:
        """Return True if the confirmed leader of the partition does not have this position.

        A node that was the leader answers fetches as a follower too (KIP-392), or still as the leader. After it was cut off,
        it may have fewer records than the leader.
        """
        client: Any = self._client
        try:
            async with asyncio.timeout(self._settings.request_timeout):
                await client.force_metadata_update()
                named = client.cluster.leader_for_partition(place)
                ends = None if named is None else await confirmed_ends(client, place, named)
        except (KafkaError, OSError, TimeoutError):
            return False
        return ends is not None and not ends[0] <= position <= ends[1]

    async def ask(self, node: int, request: Any, connection: str) -> Any:
        """Send another request to a node on the named connection. Raises KafkaError, OSError or
        TimeoutError."""
        client: Any = self._client or await self._opening.ask("open", self._open)
        return await client.send(node, request, group=connection)

    def only(self, topics: Collection[str]) -> None:
        """Stop refreshing the metadata of other topics. A metadata request for a deleted topic may create
        it again."""
        if self._client is not None:
            self._client.set_topics(topics)

    async def close(self) -> None:
        self._closed = True
        left = [task for node in self._nodes.values() for task in node.end()]
        await self._opening.close()
        client, self._client = self._client, None
        if client is None:
            return
        await _within(STOP_WITHIN, client.close())
        await _within(STOP_WITHIN, *left)
        await _within(STOP_WITHIN, client.close())  # also closes connections opened meanwhile

    async def _leader(self, place: TopicPartition) -> NodeFetcher:
        """Return the fetcher of the partition's leader. Raises KafkaError if there is no leader."""
        client: Any = self._client or await self._opening.ask("open", self._open)
        await client.add_topic(place.topic)
        number = client.cluster.leader_for_partition(place)
        if self._closed:
            raise NodeNotReadyError("closing")
        if number is None or number < 0:
            raise LeaderNotAvailableError(str(place))
        if number not in self._nodes:
            at_rest = min(
                IDLE_WAIT, self._settings.request_timeout / 2
            )  # the client expects an answer by then
            self._nodes[number] = NodeFetcher(number, client, at_rest)
        return self._nodes[number]

    async def _open(self) -> AIOKafkaClient:
        client = AIOKafkaClient(**self._settings.client())
        try:
            await client.bootstrap()
        except BaseException:
            await client.close()
            raise
        self._client = client
        return client


def _is_temporary(error: Exception) -> bool:
    """Return True if the error may be temporary. Any error answer of a broker may change with its state."""
    if not isinstance(error, KafkaError) or error.retriable:
        return True
    return isinstance(error, BrokerResponseError)


async def _within(seconds: float, *endings: Awaitable[None]) -> None:
    """Run coroutines that close connections, for at most ``seconds``. The limit is needed because closing
    hangs if the peer does not read."""
    tasks = {asyncio.ensure_future(ending) for ending in endings}
    if tasks:
        _, late = await asyncio.wait(tasks, timeout=seconds)
        for task in late:
            task.cancel()
