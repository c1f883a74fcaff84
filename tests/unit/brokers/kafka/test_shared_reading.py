"""A member whose records come from fetches that it shares: what is handed out, passed over and committed while
it is assigned, paused, revoked and closed.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from types import SimpleNamespace

import pytest
from aiokafka import TopicPartition
from aiokafka.errors import KafkaConnectionError

from app.bindings.record import Record
from app.brokers.driver import JoinRequest
from app.brokers.kafka import fetching
from app.brokers.kafka.consumer import KafkaConsumer
from app.brokers.kafka.fetching import Fetcher
from app.brokers.kafka.settings import KafkaSettings
from app.brokers.kafka.tail import PartitionTails
from app.delivery.offsets import FinishedRuns
from app.filters.model import Filter
from app.model.message import Assigned, ConsumerEvent, Message, Partition, Revoked
from app.model.start import EARLIEST
from consumer_filters import consumer_filter
from kafka_fetches import FakeKafkaClient, PendingFetch, batch

SETTINGS = KafkaSettings(
    name="kafka",
    bootstrap_servers="127.0.0.1:1",
    commit_interval=0.001,
    rest_interval=0.001,
    passed_interval=0.001,
    handover=3600.0,
)
TOPIC = "t"
PLACE, KAFKA_PLACE = Partition(TOPIC, 0), TopicPartition(TOPIC, 0)


def events(first: int, *kinds: str) -> bytes:
    return batch(
        first,
        *(
            Record(
                None,
                (
                    ("ce_specversion", b"1.0"),
                    ("ce_id", b"1"),
                    ("ce_source", b"/s"),
                    ("ce_type", kind.encode()),
                ),
                b"{}",
            )
            for kind in kinds
        ),
    )


class House:
    """A member that wants events of type "a", and the group, which is the test's."""

    def __init__(self, client: FakeKafkaClient, watch: pytest.MonkeyPatch) -> None:
        self.client = client
        self.tails = PartitionTails(SETTINGS)
        self.tails._fetching = Fetcher(SETTINGS)
        self.tails._fetching._client = client
        self.passed = 0
        self.committed: dict[TopicPartition, int] = {}
        self.was_committed = asyncio.Event()
        filters = [Filter.model_validate({"exact": {"type": "a"}})]
        wanted = consumer_filter(filters, self._count)
        joining = JoinRequest("g", [TOPIC], EARLIEST, wanted=wanted)
        self.member = KafkaConsumer(SETTINGS, joining, self.tails.of, self.tails.tidy)
        self.tails.add(self.member)
        self._group = SimpleNamespace(generation=0)
        watch.setattr(
            type(self.member._membership), "generation", property(lambda _: self._group.generation)
        )
        watch.setattr(self.member._consumer, "commit", self._commit)
        watch.setattr(self.member, "_places", self._places)
        self.member._commits.start()

    def _count(self, filtered: int, failed: int) -> None:
        self.passed += filtered + failed

    async def _commit(self, offsets: dict[TopicPartition, tuple[int, str]]) -> None:
        self.committed |= {place: offset for place, (offset, _) in offsets.items()}
        self.was_committed.set()

    async def _places(self, assigned: list[TopicPartition]) -> dict[Partition, FinishedRuns]:
        return {
            Partition(place.topic, place.partition): FinishedRuns(self.committed.get(place, 0))
            for place in assigned
        }

    async def assign(self) -> None:
        self._group.generation += 1
        await self.member.on_partitions_assigned([KAFKA_PLACE])
        assert isinstance(await self.member.poll(0), Assigned)

    async def asked(self, number: int) -> PendingFetch:
        """The fetch that it asks for now."""
        assert await self.member.poll(0) is None
        return await self.client.next(number)

    async def until_committed(self, offset: int) -> None:
        async with asyncio.timeout(60):
            while self.committed.get(KAFKA_PLACE) != offset:
                self.was_committed.clear()
                await self.was_committed.wait()

    async def take(self) -> tuple[Message, ...]:
        """What comes next, which is messages."""
        event: ConsumerEvent | None = None
        async with asyncio.timeout(60):
            while event is None:
                event = await self.member.poll(60)
        assert isinstance(event, tuple)
        return event

    def standing(self) -> int | None:
        return self.member._owned[PLACE].position


@pytest.fixture
async def house(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[House]:
    monkeypatch.setattr(fetching, "AGAIN_AFTER", 0.001)
    monkeypatch.setattr(fetching, "WAIT", 3600.0)
    house = House(FakeKafkaClient(), monkeypatch)
    await house.assign()
    yield house
    await house.member.close()
    await house.tails.close()


def offsets(messages: tuple[Message, ...]) -> list[int]:
    return [message.offset for message in messages]


async def test_positions_that_only_unwanted_events_passed_are_committed_and_counted(
    house: House,
) -> None:
    """By the timer: nothing is handed out, so nobody settles anything."""
    (await house.asked(0)).tell({KAFKA_PLACE: events(0, "b", "b", "b")})
    await house.until_committed(3)
    assert house.passed == 3


async def test_offsets_without_a_record_are_passed_and_not_counted(house: House) -> None:
    """Compaction and the marks of transactions leave gaps; nobody filtered them out."""
    (await house.asked(0)).tell({KAFKA_PLACE: events(0, "b", "b") + events(10, "b")})
    await house.until_committed(11)
    assert house.passed == 3


async def test_what_is_open_holds_the_commit_while_others_pass(house: House) -> None:
    (await house.asked(0)).tell({KAFKA_PLACE: events(0, "b", "a", "b", "b")})
    messages = await house.take()
    assert offsets(messages) == [1]
    await house.until_committed(1)
    assert house.member.window(PLACE) == 3
    await house.member.settle(messages)
    await house.until_committed(4)
    assert house.passed == 3
    assert house.member.window(PLACE) == 0


async def test_a_pause_ends_the_fetch_that_waits_and_a_resume_begins_it_again(house: House) -> None:
    """What its answer brings all the same comes to nobody twice."""
    asked = await house.asked(0)
    house.member.pause([PLACE])
    asked.tell({KAFKA_PLACE: events(0, "a", "a")})
    assert await house.member.poll(0.01) is None
    house.member.resume([PLACE])
    again = await house.asked(1)
    assert again.positions == {KAFKA_PLACE: 0}
    again.tell({KAFKA_PLACE: events(0, "a", "a")})
    assert offsets(await house.take()) == [0, 1]
    assert (await house.asked(2)).positions == {KAFKA_PLACE: 2}


async def test_what_is_fetched_for_an_ownership_that_ends_is_handed_out_to_the_next_alone(
    house: House,
) -> None:
    """Rule 5: also where the answer comes while the hand-over waits."""
    asked = await house.asked(0)
    revoking = asyncio.create_task(house.member.on_partitions_revoked([KAFKA_PLACE]))
    await asyncio.sleep(0)
    assert isinstance(await house.member.poll(60), Revoked)
    asked.tell({KAFKA_PLACE: events(0, "a")})
    assert await house.member.poll(0.01) is None  # dealt with
    await revoking
    assert house.committed == {KAFKA_PLACE: 0}
    await house.assign()
    (await house.asked(1)).tell({KAFKA_PLACE: events(0, "a")})
    (message,) = await house.take()
    assert message.epoch == 2
    assert house.member.holds(message) == house.member._membership.has_lease()


async def test_what_lies_ready_when_it_is_revoked_is_neither_handed_out_nor_committed(
    house: House,
) -> None:
    (await house.asked(0)).tell({KAFKA_PLACE: events(0, "b", "b", "a")})
    async with asyncio.timeout(60):
        while not house.member._owned[PLACE]._ready:
            await asyncio.sleep(0)
    revoking = asyncio.create_task(house.member.on_partitions_revoked([KAFKA_PLACE]))
    await asyncio.sleep(0)
    assert isinstance(await house.member.poll(60), Revoked)
    assert await house.member.poll(0) is None
    await revoking
    assert house.committed == {KAFKA_PLACE: 2}
    assert house.passed == 2


async def test_a_fetch_on_its_way_holds_up_no_end_and_leaves_nothing_behind(house: House) -> None:
    await house.asked(0)
    async with asyncio.timeout(60):
        await house.member.close()
        await house.tails.close()
    assert await house.member.poll(0) is None
    left = {task.get_name().split()[0] for task in asyncio.all_tasks() if not task.done()}
    assert not left & {"cursor", "fetches", "group"}


async def test_one_that_closes_while_it_is_assigned_follows_nothing(house: House) -> None:
    """It would keep its cursor reading for ever."""
    await house.member.close()
    await house.member.on_partitions_assigned([KAFKA_PLACE])
    assert not house.tails._tails
    assert not house.member._owned


async def test_nobody_is_told_of_a_broker_that_is_away_and_comes_back(house: House) -> None:
    """The subscription need not begin anew: it goes on where it was."""
    asked = await house.asked(0)
    house.client.away = True
    asked.answer.set_exception(KafkaConnectionError("gone"))
    assert await house.member.poll(0.05) is None
    house.client.away = False
    (await house.client.next(1)).tell({KAFKA_PLACE: events(0, "a")})
    assert offsets(await house.take()) == [0]


async def test_a_topic_is_asked_for_no_more_when_its_last_reader_has_gone(house: House) -> None:
    """A broker that makes topics as they are asked for would make one anew that was deleted."""
    other = KafkaConsumer(
        SETTINGS, JoinRequest("h", ["other"], EARLIEST), house.tails.of, house.tails.tidy
    )
    house.tails.add(other)
    assert PLACE in house.tails._tails
    await house.member.close()
    assert house.client.topics == {"other"}
    assert not house.tails._tails
    await other.close()
    assert house.client.topics == set()
