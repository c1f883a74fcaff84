"""Fetch requests of a whole process: what many want of one node travels in one of them.

A node answers one request of a connection at a time, and a fetch without news waits there. So what is asked
for while one waits goes on a connection beside it, which comes back no later: then all of it is one again.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import defaultdict
from collections.abc import Collection
from typing import Any, NamedTuple

from aiokafka import TopicPartition
from aiokafka.client import AIOKafkaClient
from aiokafka.errors import (
    KafkaError,
    LeaderNotAvailableError,
    NodeNotReadyError,
    OffsetOutOfRangeError,
    TopicAuthorizationFailedError,
    for_code,
)
from aiokafka.protocol.fetch import FetchRequest

from app.brokers.kafka.connection import STOP_WITHIN
from app.brokers.kafka.records import KeptRecords, PatientRecords
from app.brokers.kafka.settings import KafkaSettings
from app.errors import BrokerUnavailable

log = logging.getLogger(__name__)

WAIT = 1.0  # seconds that a node may wait for news; what comes is answered at once
TOGETHER = 0.02  # seconds before a fetch comes back in which no other is begun beside it
SETTLE = 0.002  # seconds for those that were answered to ask for more, before the next fetch leaves
BESIDE = 4  # connections to one node, at most
AGAIN_AFTER = 0.1  # seconds, after a fetch that failed
MOST_BYTES = 50 << 20
MOST_OF_PARTITION = 1 << 20
_READ_COMMITTED = 1
_ABORTED_FIRST = 11  # the version of the answer from which the read replica stands behind them


class Want(NamedTuple):
    place: TopicPartition
    position: int
    answer: asyncio.Future[PatientRecords | None]


class Node:
    """What is wanted of one node."""

    def __init__(self, number: int, client: AIOKafkaClient) -> None:
        self._number = number
        self._client = client
        self._wants: list[Want] = []
        self._channels: dict[int, asyncio.Task[None]] = {}
        self._back_by: dict[int, float] = {}  # when a fetch that is on its way comes back
        self._answered: set[TopicPartition] = set()  # just now, and has not asked for more
        self._asked = asyncio.Event()
        self._closed = False

    async def fetch(self, place: TopicPartition, position: int) -> PatientRecords | None:
        """Some records from ``position`` on, once there are any; None: ask again. Raises KafkaError."""
        answer: asyncio.Future[PatientRecords | None] = asyncio.get_running_loop().create_future()
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
        wait = max(0.0, min([WAIT, *(left - TOGETHER for left in self._left())]))
        self._back_by[number] = asyncio.get_running_loop().time() + wait
        try:
            found = await self._found(f"fetch-{number}", _request(wants, wait))
        except Exception as error:  # noqa: BLE001 - whoever asked tries again, or raises it
            self._fail(wants, error)
            return
        except BaseException:
            self._fail(wants, NodeNotReadyError("closing"))
            raise
        finally:
            del self._back_by[number]
        for place, same in wants.items():
            self._tell(place, same, found.get(place))

    async def _found(self, group: str, request: FetchRequest) -> dict[TopicPartition, Any]:
        """Raises KafkaError."""
        if not await self._client.ready(self._number, group=group) or self._closed:
            raise NodeNotReadyError(f"node {self._number}")
        return _found(await self._client.send(self._number, request, group=group))

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


class _Found(NamedTuple):
    raw: bytes
    aborted: Any

    def begin(self, want: Want) -> PatientRecords:
        return PatientRecords(
            want.place,
            KeptRecords(self.raw),
            self.aborted,
            want.position,
            None,
            None,
            True,  # checksums are looked at
            _READ_COMMITTED,
        )


def _request(wants: dict[TopicPartition, list[Want]], wait: float) -> FetchRequest:
    topics: dict[str, list[tuple[int, int, int]]] = defaultdict(list)
    for place, (want, *_) in wants.items():
        topics[place.topic].append((place.partition, want.position, MOST_OF_PARTITION))
    return FetchRequest(
        round(wait * 1000), 1, MOST_BYTES, _READ_COMMITTED, list(topics.items()), rack_id=""
    )


def _found(answer: Any) -> dict[TopicPartition, _Found | KafkaError]:
    found: dict[TopicPartition, _Found | KafkaError] = {}
    for topic, partitions in answer.topics:
        for number, code, _, *rest in partitions:
            aborted = rest[2 if answer.API_VERSION >= _ABORTED_FIRST else -2] if rest[1:] else None
            kind = for_code(code)
            found[TopicPartition(topic, number)] = (
                kind(topic) if code else _Found(bytes(rest[-1] or b""), aborted)
            )
    return found


class Fetching:
    """Of one cluster. Opened by the first fetch; what fails is tried again, for as long as it is asked for."""

    def __init__(self, settings: KafkaSettings) -> None:
        self._settings = settings
        self._client: AIOKafkaClient | None = None
        self._opening: asyncio.Task[AIOKafkaClient] | None = None
        self._closed = False
        self._nodes: dict[int, Node] = {}

    async def records(self, place: TopicPartition, position: int) -> PatientRecords:
        """From ``position`` on, once there are any. Raises OffsetOutOfRangeError, and
        TopicAuthorizationFailedError or another KafkaError that does not pass by itself."""
        while not self._closed:
            try:
                node = await self._leader(place)
                if (found := await node.fetch(place, position)) is not None:
                    return found
            except (OffsetOutOfRangeError, TopicAuthorizationFailedError):
                raise
            except (KafkaError, OSError, TimeoutError) as error:
                if isinstance(error, KafkaError) and not error.retriable:
                    raise
                log.debug("fetching of %s: %r", place, error)
                if self._client is not None:
                    self._client.force_metadata_update()
            await asyncio.sleep(AGAIN_AFTER)
        raise BrokerUnavailable("this log is closing", broker=self._settings.name)

    async def close(self) -> None:
        self._closed = True
        left = [task for node in self._nodes.values() for task in node.end()]
        if self._opening is not None:
            await asyncio.wait({self._opening}, timeout=STOP_WITHIN)
        client, self._client = self._client, None
        if client is None:
            return
        await client.close()
        if left:
            _, late = await asyncio.wait(left, timeout=STOP_WITHIN)
            for task in late:
                task.cancel()
        await client.close()  # also what was connected meanwhile

    async def _leader(self, place: TopicPartition) -> Node:
        """Raises KafkaError."""
        client = await self._opened()
        await client.add_topic(place.topic)
        number = client.cluster.leader_for_partition(place)
        if number is None or number < 0:
            raise LeaderNotAvailableError(str(place))
        if number not in self._nodes:
            self._nodes[number] = Node(number, client)
        return self._nodes[number]

    async def _opened(self) -> AIOKafkaClient:
        """An asker that goes away takes no connection with it."""
        if self._client is not None:
            return self._client
        opening = self._opening
        if opening is None or opening.done():
            opening = self._opening = asyncio.create_task(self._open(), name="fetches open")
        await asyncio.wait({opening})
        return opening.result()

    async def _open(self) -> AIOKafkaClient:
        client = AIOKafkaClient(**self._settings.client())
        try:
            await client.bootstrap()
        except BaseException:
            await client.close()
            raise
        self._client = client
        return client
