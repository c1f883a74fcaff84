"""Fetch requests of a whole process: what many want of one node travels in one of them.

A node answers one request of a connection at a time, and a fetch without news waits there. So what is asked
for while one waits goes on a connection beside it, which comes back no later: then all of it is one again.
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
from app.brokers.kafka.fetch_request import Want, found_in, request_for
from app.brokers.kafka.records import FetchedRecords
from app.brokers.kafka.settings import KafkaSettings
from app.brokers.sharing import Shared
from app.errors import BrokerUnavailable

log = logging.getLogger(__name__)

WAIT = 0.5  # seconds that a node may wait for news; what comes is answered at once
AT_REST = 5.0  # the same, once it had none for all that is wanted of it
TOGETHER = 0.02  # seconds before a fetch comes back in which no other is begun beside it
SETTLE = 0.002  # seconds for those that were answered to ask for more, before the next fetch leaves
BESIDE = 4  # connections to one node, at most
AGAIN_AFTER = 0.1  # seconds, after a fetch that failed
TOLD = (OffsetOutOfRangeError, TopicAuthorizationFailedError, CorruptRecordException)


class Node:
    """What is wanted of one node."""

    def __init__(self, number: int, client: AIOKafkaClient, at_rest: float = AT_REST) -> None:
        self._number = number
        self._at_rest = at_rest
        self._had_news = True  # the fetch that came back last
        self._client = client
        self._wants: list[Want] = []
        self._channels: dict[int, asyncio.Task[None]] = {}
        self._back_by: dict[int, float] = {}  # when a fetch that is on its way comes back
        self._answered: set[TopicPartition] = set()  # just now, and has not asked for more
        self._asked = asyncio.Event()
        self._closed = False

    async def fetch(self, place: TopicPartition, position: int) -> FetchedRecords:
        """Some records from ``position`` on, once there are any. Raises KafkaError."""
        answer: asyncio.Future[FetchedRecords] = asyncio.get_running_loop().create_future()
        self._wants.append(Want(place, position, answer))
        self._answered.discard(place)
        if not self._answered:
            self._asked.set()
        self._begin()
        return await answer

    def end(self) -> Collection[asyncio.Task[None]]:
        """Nothing more is asked for. What is on its way ends with its connection; a connection that is being
        made is not cut off, for the client would forget it."""
        self._closed = True
        self._drop_all()
        return list(self._channels.values())

    def _begin(self) -> None:
        """On the first connection that is free; where none is, whichever comes back takes it along."""
        free = (number for number in range(BESIDE) if number not in self._channels)
        if (number := next(free, None)) is not None and not self._soon_back():
            self._channels[number] = asyncio.create_task(
                self._fetch_on(number), name=f"fetches {self._number}/{number}"
            )

    def _soon_back(self) -> bool:
        return any(left < TOGETHER for left in self._left())

    def _left(self) -> list[float]:
        """Seconds until each fetch comes back. One that is overdue is waited for no longer."""
        now = asyncio.get_running_loop().time()
        return [back - now for back in self._back_by.values() if back - now > -TOGETHER]

    async def _fetch_on(self, number: int) -> None:
        try:
            await asyncio.sleep(0)  # what is asked for in this step goes along
            while not self._closed and not self._soon_back() and (wants := self._take()):
                await self._fetch(number, wants)
                await self._settle()
        finally:
            del self._channels[number]
            if self._closed:
                self._drop_all()
            elif self._wants:
                self._begin()  # what came while all were on their way

    async def _settle(self) -> None:
        """A moment, so that what is asked for again need not go alone."""
        self._asked.clear()
        if self._answered:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(SETTLE):
                    await self._asked.wait()
        self._answered.clear()

    def _take(self) -> dict[TopicPartition, list[Want]]:
        """One position of each partition: a request names none twice."""
        taken: dict[TopicPartition, list[Want]] = {}
        left: list[Want] = []
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

    async def _fetch(self, number: int, wants: dict[TopicPartition, list[Want]]) -> None:
        wait = self._wait()
        self._back_by[number] = asyncio.get_running_loop().time() + wait
        try:
            found = await self._found(f"fetch-{number}", request_for(wants, wait))
            self._had_news = any(getattr(each, "raw", True) for each in found.values())
            for place, same in wants.items():
                self._tell(place, same, found.get(place))
        except Exception as error:  # noqa: BLE001 - the caller tries again, or raises it
            self._fail(wants, error)
        except BaseException:
            self._fail(wants, NodeNotReadyError("closing"))
            raise
        finally:
            del self._back_by[number]

    def _wait(self) -> float:
        """Long only for a fetch of everything: what is asked for beside it is to be one with it before long."""
        if not self._back_by and not self._had_news:
            return self._at_rest
        return max(0.0, min([WAIT, *(left - TOGETHER for left in self._left())]))

    async def _found(self, group: str, request: Any) -> dict[TopicPartition, Any]:
        """Raises KafkaError."""
        if not await self._client.ready(self._number, group=group) or self._closed:
            raise NodeNotReadyError(f"node {self._number}")
        return found_in(await self._client.send(self._number, request, group=group))

    def _tell(self, place: TopicPartition, wants: list[Want], found: Any) -> None:
        """No news: it is asked for again, by itself."""
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
    def _fail(wants: dict[TopicPartition, list[Want]], error: Exception) -> None:
        for same in wants.values():
            for want in same:
                if not want.answer.done():
                    want.answer.set_exception(error)


class Fetching:
    """Of one cluster. Opened by the first fetch; what fails is tried again, for as long as it is asked for."""

    def __init__(self, settings: KafkaSettings) -> None:
        self._settings = settings
        self._client: AIOKafkaClient | None = None
        self._opening = Shared()  # an asker that goes away takes no connection with it
        self._closed = False
        self._nodes: dict[int, Node] = {}

    async def records(self, place: TopicPartition, position: int) -> FetchedRecords:
        """From ``position`` on, once there are any. Raises the answers that do not pass by themselves
        (``TOLD``), and a KafkaError of our side that does not."""
        said = False
        while not self._closed:
            try:
                node = await self._leader(place)
                return await node.fetch(place, position)
            except TOLD:
                raise
            except (KafkaError, OSError, TimeoutError) as error:
                if not _passes(error):
                    raise
                odd = not getattr(error, "retriable", True)
                level = logging.WARNING if odd and not said else logging.DEBUG
                log.log(level, "fetching of %s is tried again: %r", place, error)
                said = said or odd
                if self._client is not None:
                    self._client.force_metadata_update()
            await asyncio.sleep(AGAIN_AFTER)
        raise BrokerUnavailable("this log is closing", broker=self._settings.name)

    async def ask(self, node: int, request: Any, connection: str) -> Any:
        """Something else of this node, on a connection of this name. Raises KafkaError, OSError or TimeoutError."""
        client: Any = self._client or await self._opening.ask("open", self._open)
        return await client.send(node, request, group=connection)

    def only(self, topics: Collection[str]) -> None:
        """Others are asked for no more: to ask for one that was deleted may create it."""
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
        await _within(STOP_WITHIN, client.close())  # also what was connected meanwhile

    async def _leader(self, place: TopicPartition) -> Node:
        """Raises KafkaError."""
        client: Any = self._client or await self._opening.ask("open", self._open)
        await client.add_topic(place.topic)
        number = client.cluster.leader_for_partition(place)
        if self._closed:
            raise NodeNotReadyError("closing")
        if number is None or number < 0:
            raise LeaderNotAvailableError(str(place))
        if number not in self._nodes:
            at_rest = min(AT_REST, self._settings.request_timeout / 2)  # an answer is due by then
            self._nodes[number] = Node(number, client, at_rest)
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


def _passes(error: Exception) -> bool:
    """What a broker answers may change with its state, also what it has no word for."""
    if not isinstance(error, KafkaError) or error.retriable:
        return True
    return isinstance(error, BrokerResponseError)


async def _within(seconds: float, *endings: Awaitable[None]) -> None:
    """Bounded: a peer that does not read lets a close wait for ever."""
    tasks = {asyncio.ensure_future(ending) for ending in endings}
    if tasks:
        _, late = await asyncio.wait(tasks, timeout=seconds)
        for task in late:
            task.cancel()
