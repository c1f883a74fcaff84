"""Many that read, few fetches: what travels together, what goes beside it, and what is tried again."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
from aiokafka import TopicPartition
from aiokafka.errors import (
    CorruptRecordException,
    KafkaConnectionError,
    NotLeaderForPartitionError,
    OffsetOutOfRangeError,
    ReplicaNotAvailableError,
    TopicAuthorizationFailedError,
    UnknownError,
)

from app.bindings.record import Record
from app.brokers.kafka import fetching
from app.brokers.kafka.fetching import Fetcher
from app.brokers.kafka.settings import KafkaSettings
from app.brokers.kafka.tail import KEPT_FETCHES, FetchedTail
from app.brokers.partition_reader import PartitionReader
from app.errors import BrokerUnavailable
from app.model.message import Partition
from consumer_filters import consumer_filter
from kafka_fetches import FakeKafkaClient, batch, values

SETTINGS = KafkaSettings(name="kafka", bootstrap_servers="127.0.0.1:1")
ONE, OTHER = TopicPartition("t", 0), TopicPartition("t", 1)


@pytest.fixture
def client(monkeypatch: pytest.MonkeyPatch) -> FakeKafkaClient:
    monkeypatch.setattr(fetching, "AGAIN_AFTER", 0.001)
    monkeypatch.setattr(fetching, "WAIT", 3600.0)  # nothing comes back but when the test says so
    return FakeKafkaClient()


@pytest.fixture
async def fetches(client: FakeKafkaClient) -> AsyncIterator[Fetcher]:
    fetches = Fetcher(SETTINGS)
    fetches._client = client
    yield fetches
    await fetches.close()


async def values_of(fetches: Fetcher, place: TopicPartition, position: int) -> list[bytes]:
    return [raw.value for raw in await fetches.records(place, position)]


async def test_what_is_asked_for_at_the_same_time_is_one_request(
    client: FakeKafkaClient, fetches: Fetcher
) -> None:
    """Each has its own answer, also where two want the same."""
    asking = [
        asyncio.create_task(values_of(fetches, place, position))
        for place, position in ((ONE, 5), (OTHER, 7), (ONE, 5))
    ]
    asked = await client.next(0)
    assert asked.positions == {ONE: 5, OTHER: 7}
    asked.tell({ONE: values(5, b"a", b"b"), OTHER: values(7, b"c")})
    assert await asyncio.gather(*asking) == [[b"a", b"b"], [b"c"], [b"a", b"b"]]
    assert len(client.asked) == 1


async def test_what_is_asked_for_while_a_fetch_waits_goes_beside_it_and_is_back_no_later(
    client: FakeKafkaClient, fetches: Fetcher
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
    beside.tell({OTHER: values(0, b"b")})
    assert await second == [b"b"]
    again.tell({ONE: values(0, b"a")})
    assert await first == [b"a"]


async def test_a_fetch_of_everything_that_found_nothing_waits_longer_the_next_time(
    client: FakeKafkaClient, fetches: Fetcher, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At rest two round trips a second are most of what a reader costs. What is asked for meanwhile is not bound to
    the long wait, and what comes is followed by a short one."""
    monkeypatch.setattr(fetching, "WAIT", 0.5)
    first = asyncio.create_task(values_of(fetches, ONE, 0))
    asked = await client.next(0)
    assert asked.wait == 500
    asked.tell({ONE: b""})
    at_rest = await client.next(1)
    assert at_rest.wait == 5_000
    second = asyncio.create_task(values_of(fetches, OTHER, 0))
    beside = await client.next(2)
    assert beside.wait <= 500
    beside.tell({OTHER: values(0, b"b")})
    assert await second == [b"b"]
    at_rest.tell({ONE: values(0, b"a")})
    assert await first == [b"a"]
    again = asyncio.create_task(values_of(fetches, ONE, 1))
    busy = await client.next(3)
    assert busy.wait == 500
    busy.tell({ONE: values(1, b"c")})
    assert await again == [b"c"]


async def test_two_positions_of_a_partition_go_one_beside_the_other(
    client: FakeKafkaClient, fetches: Fetcher
) -> None:
    """A request can name a partition once. One that catches up does not wait for one at the end."""
    end = asyncio.create_task(values_of(fetches, ONE, 9))
    behind = asyncio.create_task(values_of(fetches, ONE, 0))
    assert (await client.next(0)).positions == {ONE: 9}
    asked = await client.next(1)
    assert asked.positions == {ONE: 0}
    asked.tell({ONE: values(0, b"old")})
    assert await behind == [b"old"]
    (await client.next(0)).tell({ONE: values(9, b"new")})
    assert await end == [b"new"]


async def test_nobody_asks_for_what_nobody_wants_any_more(
    client: FakeKafkaClient, fetches: Fetcher
) -> None:
    asking = asyncio.create_task(values_of(fetches, ONE, 0))
    other = asyncio.create_task(values_of(fetches, OTHER, 0))
    asked = await client.next(0)
    asking.cancel()
    await asyncio.wait({asking})
    asked.tell({})
    again = await client.next(1)
    assert again.positions == {OTHER: 0}
    again.tell({OTHER: values(0, b"x")})
    assert await other == [b"x"]


async def test_what_fails_is_asked_for_again_of_whoever_leads_now(
    client: FakeKafkaClient, fetches: Fetcher
) -> None:
    asking = asyncio.create_task(values_of(fetches, ONE, 0))
    (await client.next(0)).tell({ONE: NotLeaderForPartitionError.errno})
    (await client.next(1)).answer.set_exception(KafkaConnectionError("gone"))
    (await client.next(2)).tell({ONE: values(0, b"x")})
    assert await asking == [b"x"]
    assert client.updates == 2


@pytest.mark.parametrize("kind", [OffsetOutOfRangeError, TopicAuthorizationFailedError])
async def test_what_does_not_pass_by_itself_is_told(
    client: FakeKafkaClient, fetches: Fetcher, kind: type[Exception]
) -> None:
    """Of the one partition; the others of the request go on."""
    asking = asyncio.create_task(values_of(fetches, ONE, 3))
    other = asyncio.create_task(values_of(fetches, OTHER, 0))
    (await client.next(0)).tell({ONE: kind.errno, OTHER: values(0, b"x")})  # type: ignore[attr-defined]
    with pytest.raises(kind) as raised:
        await asking
    assert raised.value.args[0] == ({ONE: 3} if kind is OffsetOutOfRangeError else "t")
    assert await other == [b"x"]


async def test_a_position_is_out_of_range_only_if_the_leader_says_so(
    client: FakeKafkaClient, fetches: Fetcher
) -> None:
    """A broker that was cut off and is a follower now answers fetches, and has fewer records than the leader. The
    subscription stopped for good (seen by ``make proof ARGS="--scenario kafka-leader"``)."""
    client.ends = (0, 338)
    asking = asyncio.create_task(values_of(fetches, ONE, 338))
    (await client.next(0)).tell({ONE: OffsetOutOfRangeError.errno})
    (await client.next(1)).tell({ONE: values(338, b"x")})
    assert await asking == [b"x"]
    assert client.updates == 1, "the next fetch goes to whoever leads now"


@pytest.mark.parametrize(
    "views",
    [
        {1: (1, [1, 2, 3]), 2: (2, [2, 3]), 3: (2, [2, 3])},
        {1: (1, [1, 2]), 2: (3, [3]), 3: (3, [3])},
        {1: (1, [1, 2, 3])},
        {1: (-1, [1])},
    ],
    ids=["others have another leader", "two leaders later", "nobody else answers", "no leader"],
)
async def test_a_broker_that_still_believes_to_lead_does_not_end_a_subscription(
    client: FakeKafkaClient, fetches: Fetcher, views: dict[int, tuple[int, list[int]]]
) -> None:
    """A leader that was cut off names itself, and its log ends too early. The subscription stopped for good (seen by
    ``make proof ARGS="--scenario kafka-minority --seed 2"``)."""
    client.ends, client.views = (0, 300), views
    asking = asyncio.create_task(values_of(fetches, ONE, 338))
    (await client.next(0)).tell({ONE: OffsetOutOfRangeError.errno})
    (await client.next(1)).tell({ONE: values(338, b"x")})
    assert await asking == [b"x"]


async def test_a_position_that_the_confirmed_leader_does_not_have_is_told(
    client: FakeKafkaClient, fetches: Fetcher
) -> None:
    """The answer of another broker does not count, even if it has the position."""
    client.views = dict.fromkeys((1, 2, 3), (2, [1, 2, 3]))
    client.ends, client.stated = (0, 338), {2: (0, 300)}
    asking = asyncio.create_task(values_of(fetches, ONE, 338))
    (await client.next(0)).tell({ONE: OffsetOutOfRangeError.errno})
    with pytest.raises(OffsetOutOfRangeError):
        await asking


async def test_closing_ends_all(client: FakeKafkaClient, fetches: Fetcher) -> None:
    asking = asyncio.create_task(values_of(fetches, ONE, 0))
    await client.next(0)
    await fetches.close()
    with pytest.raises(BrokerUnavailable):
        await asking
    assert client.closed


async def test_a_page_is_as_large_as_asked_and_what_is_left_of_a_fetch_is_not_fetched_again(
    client: FakeKafkaClient, fetches: Fetcher
) -> None:
    tail = FetchedTail(fetches, Partition("t", 0), 100, lambda: None)
    reading = asyncio.create_task(tail.page(5, tail.end, 2))
    (await client.next(0)).tell({ONE: values(5, b"a", b"b", b"c", b"d")})
    pages = [await reading, await tail.page(7, tail.end, 2)]
    assert [[one.record.body for one in page.messages] for page in pages] == [
        [b"a", b"b"],
        [b"c", b"d"],
    ]
    assert [page.next_offset for page in pages] == [7, 9]
    reading = asyncio.create_task(tail.page(9, tail.end, 2))
    (await client.next(1)).tell({ONE: values(9, b"e")})
    assert [one.offset for one in (await reading).messages] == [9]
    assert client.asked[1].positions == {ONE: 9}


async def test_it_is_back_when_its_broker_is(client: FakeKafkaClient, fetches: Fetcher) -> None:
    """Nobody is told, and no connection is made anew for each that asks."""
    asking = asyncio.create_task(values_of(fetches, ONE, 0))
    (await client.next(0)).answer.set_exception(KafkaConnectionError("gone"))
    client.away = True
    tries = client.updates
    async with asyncio.timeout(60):
        while client.updates < tries + 3:
            await asyncio.sleep(0)
    assert len(client.asked) == 1
    client.away = False
    (await client.next(1)).tell({ONE: values(0, b"x")})
    assert await asking == [b"x"]


@pytest.mark.parametrize("code", [UnknownError.errno, ReplicaNotAvailableError.errno, 78])
async def test_an_odd_answer_is_tried_again_and_said_once(
    client: FakeKafkaClient, fetches: Fetcher, caplog: pytest.LogCaptureFixture, code: int
) -> None:
    """A restart of all its subscriptions would help nobody."""
    asking = asyncio.create_task(values_of(fetches, ONE, 0))
    for number in range(3):
        (await client.next(number)).tell({ONE: code})
    (await client.next(3)).tell({ONE: values(0, b"x")})
    assert await asking == [b"x"]
    assert [each.levelname for each in caplog.records if "is retried" in each.message] == [
        "WARNING"
    ]


async def test_an_answer_that_cannot_be_read_is_raised_and_what_comes_next_is_fetched(
    client: FakeKafkaClient, fetches: Fetcher
) -> None:
    """Else those that wait for it would wait for ever."""
    asking = [asyncio.create_task(values_of(fetches, place, 0)) for place in (ONE, OTHER)]
    (await client.next(0)).answer.set_result(None)
    for each in asking:
        with pytest.raises(AttributeError):
            await each
    again = asyncio.create_task(values_of(fetches, ONE, 0))
    (await client.next(1)).tell({ONE: values(0, b"x")})
    assert await again == [b"x"]


async def test_closing_ends_also_where_a_connection_does_not(
    client: FakeKafkaClient, fetches: Fetcher, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fetching, "STOP_WITHIN", 0.001)
    never: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    monkeypatch.setattr(client, "close", lambda: never)
    asking = asyncio.create_task(values_of(fetches, ONE, 0))
    await client.next(0)
    asking.cancel()
    async with asyncio.timeout(60):
        await fetches.close()


async def test_a_compressed_batch_that_begins_before_gives_what_was_asked_for(
    client: FakeKafkaClient, fetches: Fetcher
) -> None:
    records = [Record(None, (), b"%d" % number) for number in range(10)]
    asking = asyncio.create_task(values_of(fetches, ONE, 17))
    (await client.next(0)).tell({ONE: batch(10, *records, codec=1)})
    assert await asking == [b"7", b"8", b"9"]


async def test_a_record_that_is_damaged_stops_its_partition_and_not_what_lies_before_it(
    client: FakeKafkaClient, fetches: Fetcher
) -> None:
    tail = FetchedTail(fetches, Partition("t", 0), 100, lambda: None)
    good, bad = values(0, b"a", b"b"), bytearray(values(2, b"c"))
    bad[-2] ^= 1
    reading = asyncio.create_task(tail.page(0, tail.end, 10))
    (await client.next(0)).tell({ONE: good + bytes(bad)})
    page = await reading
    assert [one.record.body for one in page.messages] == [b"a", b"b"]
    assert page.next_offset == 2
    reading = asyncio.create_task(tail.page(2, tail.end, 10))
    (await client.next(1)).tell({ONE: bytes(bad)})
    with pytest.raises(CorruptRecordException):
        await reading


async def test_two_that_catch_up_from_different_places_take_nothing_from_each_other(
    client: FakeKafkaClient, fetches: Fetcher
) -> None:
    tail = FetchedTail(fetches, Partition("t", 0), 100, lambda: None)
    for position in (0, 10):
        reading = asyncio.create_task(tail.page(position, tail.end, 1))
        asked = await client.next(len(client.asked))
        asked.tell({ONE: values(position, *(b"%d" % (position + n) for n in range(4)))})
        await reading
    for step in (1, 2, 3):
        for position in (step, 10 + step):
            page = await tail.page(position, tail.end, 1)
            assert [one.record.body for one in page.messages] == [b"%d" % position]
    assert len(client.asked) == 2


async def test_few_rests_are_kept_and_none_that_nobody_stands_at(
    client: FakeKafkaClient, fetches: Fetcher
) -> None:
    """A mebibyte each (rule 8)."""
    tail = FetchedTail(fetches, Partition("t", 0), 100, lambda: None)
    for position in range(0, 100, 10):
        reading = asyncio.create_task(tail.page(position, tail.end, 1))
        (await client.next(len(client.asked))).tell({ONE: values(position, b"a", b"b")})
        await reading
    assert len(tail._kept) == KEPT_FETCHES
    wanted = consumer_filter([], lambda *_: None)
    followers = [
        PartitionReader(tail, 1, position, wanted, lambda _: None) for position in (71, 90)
    ]
    for each in followers:
        each.join()
    followers[1].leave()
    assert list(tail._kept) == [71]
    followers[0].leave()
    assert not tail._kept


async def test_a_page_of_what_came_compressed_is_no_larger(
    client: FakeKafkaClient, fetches: Fetcher
) -> None:
    tail = FetchedTail(fetches, Partition("t", 0), 100, lambda: None)
    records = [Record(None, (), bytes(400_000)) for _ in range(8)]
    reading = asyncio.create_task(tail.page(0, tail.end, 1_000))
    (await client.next(0)).tell({ONE: batch(0, *records, codec=1)})
    assert [one.offset for one in (await reading).messages] == [0, 1, 2]
    page = await tail.page(3, tail.end, 1_000)
    assert [one.offset for one in page.messages] == [3, 4, 5]
    assert len(client.asked) == 1
