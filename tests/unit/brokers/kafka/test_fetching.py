"""Many that read, few fetches: what travels together, what goes beside it, and what is tried again."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import Any, NamedTuple

import pytest
from aiokafka import TopicPartition
from aiokafka.errors import (
    KafkaConnectionError,
    NotLeaderForPartitionError,
    OffsetOutOfRangeError,
    TopicAuthorizationFailedError,
)
from aiokafka.protocol.fetch import FetchRequest
from aiokafka.record.default_records import DefaultRecordBatchBuilder

from app.brokers.kafka import fetching
from app.brokers.kafka.fetching import Fetching
from app.brokers.kafka.settings import KafkaSettings
from app.brokers.kafka.tail import FetchedTail
from app.errors import BrokerUnavailable
from app.model.message import Partition

SETTINGS = KafkaSettings(name="kafka", bootstrap_servers="127.0.0.1:1")
ONE, OTHER = TopicPartition("t", 0), TopicPartition("t", 1)


def batch(first: int, *values: bytes) -> bytes:
    made = DefaultRecordBatchBuilder(
        magic=2,
        compression_type=0,
        is_transactional=0,
        producer_id=-1,
        producer_epoch=-1,
        base_sequence=-1,
        batch_size=1 << 20,
    )
    for number, value in enumerate(values):
        made.append(number, 1, None, value, [])
    return first.to_bytes(8, "big") + bytes(made.build())[8:]


class Asked(NamedTuple):
    group: str
    wait: int  # milliseconds
    positions: dict[TopicPartition, int]
    answer: asyncio.Future[Any]

    def tell(self, found: dict[TopicPartition, bytes | int]) -> None:
        """Bytes, or the code of an error; the others have no news."""
        topics = [
            (
                place.topic,
                [
                    (place.partition, told, 0, 0, 0, None, -1, b"")
                    if isinstance(told := found.get(place, b""), int)
                    else (place.partition, 0, 0, 0, 0, None, -1, told)
                ],
            )
            for place in self.positions
        ]
        self.answer.set_result(SimpleNamespace(API_VERSION=11, topics=topics))


class Client:
    """One node that leads everything, and answers when the test says so."""

    def __init__(self) -> None:
        self.asked: list[Asked] = []
        self.came = asyncio.Event()
        self.updates = 0
        self.cluster = SimpleNamespace(leader_for_partition=lambda _: 1)
        self.closed = False

    async def add_topic(self, _topic: str) -> None: ...

    def force_metadata_update(self) -> None:
        self.updates += 1

    async def send(self, _node: int, request: FetchRequest, *, group: str) -> Any:
        positions = {
            TopicPartition(topic, number): position
            for topic, partitions in request.topics
            for number, position, _ in partitions
        }
        assert sum(len(partitions) for _, partitions in request.topics) == len(positions)
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self.asked.append(Asked(group, request._max_wait_ms, positions, answer))
        self.came.set()
        return await answer

    async def next(self, number: int) -> Asked:
        async with asyncio.timeout(60):
            while len(self.asked) <= number:
                self.came.clear()
                await self.came.wait()
        return self.asked[number]

    async def ready(self, _node: int, *, group: str) -> bool:
        return bool(group)

    async def close(self) -> None:
        """As the client: what waits for an answer gets none."""
        self.closed = True
        for asked in self.asked:
            if not asked.answer.done():
                asked.answer.set_exception(KafkaConnectionError("closed"))


@pytest.fixture
def client(monkeypatch: pytest.MonkeyPatch) -> Client:
    monkeypatch.setattr(fetching, "AGAIN_AFTER", 0.001)
    monkeypatch.setattr(fetching, "WAIT", 3600.0)  # nothing comes back but when the test says so
    return Client()


@pytest.fixture
async def fetches(client: Client) -> AsyncIterator[Fetching]:
    fetches = Fetching(SETTINGS)
    fetches._client = client
    yield fetches
    await fetches.close()


async def values_of(fetches: Fetching, place: TopicPartition, position: int) -> list[bytes]:
    return [raw.value for raw in await fetches.records(place, position)]


async def test_what_is_asked_for_at_the_same_time_is_one_request(
    client: Client, fetches: Fetching
) -> None:
    """Each has its own answer, also where two want the same."""
    asking = [
        asyncio.create_task(values_of(fetches, place, position))
        for place, position in ((ONE, 5), (OTHER, 7), (ONE, 5))
    ]
    asked = await client.next(0)
    assert asked.positions == {ONE: 5, OTHER: 7}
    asked.tell({ONE: batch(5, b"a", b"b"), OTHER: batch(7, b"c")})
    assert await asyncio.gather(*asking) == [[b"a", b"b"], [b"c"], [b"a", b"b"]]
    assert len(client.asked) == 1


async def test_what_is_asked_for_while_a_fetch_waits_goes_beside_it_and_is_back_no_later(
    client: Client, fetches: Fetching
) -> None:
    """A partition that is new, or goes on after a pause, must not wait for news of others; and two fetches
    may not stay two for ever."""
    first = asyncio.create_task(values_of(fetches, ONE, 0))
    waiting = await client.next(0)
    second = asyncio.create_task(values_of(fetches, OTHER, 0))
    beside = await client.next(1)
    assert beside.group != waiting.group
    assert beside.wait < waiting.wait
    waiting.tell({})
    again = await client.next(2)
    assert again.positions == {ONE: 0}
    beside.tell({OTHER: batch(0, b"b")})
    assert await second == [b"b"]
    again.tell({ONE: batch(0, b"a")})
    assert await first == [b"a"]


async def test_two_positions_of_a_partition_go_one_beside_the_other(
    client: Client, fetches: Fetching
) -> None:
    """A request can name a partition once. One that catches up does not wait for one at the end."""
    end = asyncio.create_task(values_of(fetches, ONE, 9))
    behind = asyncio.create_task(values_of(fetches, ONE, 0))
    assert (await client.next(0)).positions == {ONE: 9}
    asked = await client.next(1)
    assert asked.positions == {ONE: 0}
    asked.tell({ONE: batch(0, b"old")})
    assert await behind == [b"old"]
    (await client.next(0)).tell({ONE: batch(9, b"new")})
    assert await end == [b"new"]


async def test_nobody_asks_for_what_nobody_wants_any_more(
    client: Client, fetches: Fetching
) -> None:
    asking = asyncio.create_task(values_of(fetches, ONE, 0))
    other = asyncio.create_task(values_of(fetches, OTHER, 0))
    asked = await client.next(0)
    asking.cancel()
    await asyncio.wait({asking})
    asked.tell({})
    again = await client.next(1)
    assert again.positions == {OTHER: 0}
    again.tell({OTHER: batch(0, b"x")})
    assert await other == [b"x"]


async def test_what_fails_is_asked_for_again_of_whoever_leads_now(
    client: Client, fetches: Fetching
) -> None:
    asking = asyncio.create_task(values_of(fetches, ONE, 0))
    (await client.next(0)).tell({ONE: NotLeaderForPartitionError.errno})
    (await client.next(1)).answer.set_exception(KafkaConnectionError("gone"))
    (await client.next(2)).tell({ONE: batch(0, b"x")})
    assert await asking == [b"x"]
    assert client.updates == 2


@pytest.mark.parametrize("kind", [OffsetOutOfRangeError, TopicAuthorizationFailedError])
async def test_what_does_not_pass_by_itself_is_told(
    client: Client, fetches: Fetching, kind: type[Exception]
) -> None:
    """Of the one partition; the others of the request go on."""
    asking = asyncio.create_task(values_of(fetches, ONE, 3))
    other = asyncio.create_task(values_of(fetches, OTHER, 0))
    (await client.next(0)).tell({ONE: kind.errno, OTHER: batch(0, b"x")})  # type: ignore[attr-defined]
    with pytest.raises(kind) as raised:
        await asking
    assert raised.value.args[0] == ({ONE: 3} if kind is OffsetOutOfRangeError else "t")
    assert await other == [b"x"]


async def test_closing_ends_all(client: Client, fetches: Fetching) -> None:
    asking = asyncio.create_task(values_of(fetches, ONE, 0))
    await client.next(0)
    await fetches.close()
    with pytest.raises(BrokerUnavailable):
        await asking
    assert client.closed


async def test_a_page_is_as_large_as_asked_and_what_is_left_of_a_fetch_is_not_fetched_again(
    client: Client, fetches: Fetching
) -> None:
    tail = FetchedTail(fetches, Partition("t", 0), 100, lambda: None)
    reading = asyncio.create_task(tail.page(5, tail.end, 2))
    (await client.next(0)).tell({ONE: batch(5, b"a", b"b", b"c", b"d")})
    pages = [await reading, await tail.page(7, tail.end, 2)]
    assert [[one.record.body for one in page.messages] for page in pages] == [
        [b"a", b"b"],
        [b"c", b"d"],
    ]
    assert [page.next_offset for page in pages] == [7, 9]
    reading = asyncio.create_task(tail.page(9, tail.end, 2))
    (await client.next(1)).tell({ONE: batch(9, b"e")})
    assert [one.offset for one in (await reading).messages] == [9]
    assert client.asked[1].positions == {ONE: 9}
