"""What a broker that was cut off states about the ends of a partition ends no replay and no subscription."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import pytest
from aiokafka import TopicPartition
from aiokafka.errors import LeaderNotAvailableError

from app.brokers.kafka.reader import read
from app.brokers.kafka.records import FetchedRecords
from app.brokers.kafka.start_positions import resolve
from app.errors import PositionOutOfRange
from app.model.message import Partition
from app.model.start import StartAt
from kafka_fetches import values

PLACE, ONE = Partition("t", 0), TopicPartition("t", 0)


class Cluster:
    """Has the records 0 to 3. A broker that was cut off states that there are two.

    Attributes:
        confirmed: The ends that the confirmed leader states, or None while there is none.
    """

    confirmed: tuple[int, int] | None = (0, 4)

    async def ends(self, _: Partition) -> tuple[int, int]:
        return 0, 2

    async def confirmed_ends(self, _: Partition) -> tuple[int, int]:
        if self.confirmed is None:
            raise LeaderNotAvailableError
        return self.confirmed

    async def records(self, _: TopicPartition, position: int) -> FetchedRecords:
        return FetchedRecords(values(0, b"a", b"b", b"c", b"d"), None, position)

    async def close(self) -> None: ...

    async def beginning_offsets(self, places: Any) -> dict[TopicPartition, int]:
        return dict.fromkeys(places, 0)

    async def end_offsets(self, places: Any) -> dict[TopicPartition, int]:
        return dict.fromkeys(places, 2)


def bodies(cluster: Cluster, start: str, until: str | None) -> list[bytes | None]:
    async def all_of_them() -> list[bytes | None]:
        messages = read(cast("Any", cluster), cast("Any", cluster), PLACE, start, until)
        return [each.record.body async for each in messages]

    return asyncio.run(all_of_them())


def starts(cluster: Cluster, text: str) -> dict[TopicPartition, int]:
    start = cast("StartAt", SimpleNamespace(kind="position", positions={0: text}))
    return asyncio.run(resolve(cast("Any", cluster), cast("Any", cluster), [ONE], start))


def test_a_range_is_read_to_its_end() -> None:
    """A replay ended without its last events, and counted as finished."""
    assert bodies(Cluster(), "1", "4") == [b"b", b"c", b"d"]


def test_a_position_that_the_leader_has_is_read() -> None:
    assert bodies(Cluster(), "3", "4") == [b"d"]
    assert starts(Cluster(), "3") == {ONE: 3}


def test_without_a_confirmed_leader_the_caller_tries_again() -> None:
    """The error is temporary: neither a replay nor a subscription ends by it."""
    cluster = Cluster()
    cluster.confirmed = None
    for ask in (lambda: bodies(cluster, "1", "4"), lambda: starts(cluster, "3")):
        with pytest.raises(LeaderNotAvailableError) as raised:
            ask()
        assert raised.value.retriable


def test_what_the_confirmed_leader_does_not_have_is_out_of_range() -> None:
    for ask in (lambda: bodies(Cluster(), "5", None), lambda: starts(Cluster(), "5")):
        with pytest.raises(PositionOutOfRange) as raised:
            ask()
        assert (raised.value.earliest, raised.value.latest) == ("0", "4")
