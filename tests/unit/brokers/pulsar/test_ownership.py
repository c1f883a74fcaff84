"""Who is asked for owners, how often, and how many questions are under way."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence

import pytest

from app.brokers.pulsar.admin import AT_ONCE, PulsarAdmin, ask_each
from app.brokers.pulsar.answers import PartitionStats
from app.brokers.pulsar.ownership import OwnershipChecker
from app.brokers.pulsar.settings import PulsarSettings
from waiting import until

SETTINGS = PulsarSettings(
    name="main", service_url="pulsar://h:6650", admin_url="http://h:8080",
    ownership_check=0.001, quiet_check=60.0, lease=0.01,
)  # fmt: skip


class Counting(PulsarAdmin):
    """Knows nothing, and how often it was asked."""

    def __init__(self) -> None:
        super().__init__(SETTINGS)
        self.asked: list[str] = []

    async def stats(self, topic: str) -> Mapping[str, PartitionStats]:
        self.asked.append(topic)
        return {}


class Member:
    def __init__(self, *topics: str) -> None:
        self.topics: Sequence[str] = topics
        self.working: set[str] = set()
        self.looks = 0

    def busy(self, topic: str) -> bool:
        return topic in self.working

    async def apply_ownership(self, *_: object) -> bool:
        return False

    async def check_connections(self) -> None:
        self.looks += 1


async def rounds(member: Member, count: int) -> None:
    wanted = member.looks + count
    await until(lambda: member.looks >= wanted)


async def quiet(admin: Counting, member: Member) -> None:
    """Ten rounds in which nothing is asked."""
    async with asyncio.timeout(60):
        while True:
            before = len(admin.asked)
            await rounds(member, 10)
            if len(admin.asked) == before:
                return


async def test_a_quiet_topic_is_left_alone_and_a_busy_one_asked_for_each_round() -> None:
    """A hundred idle topics must not cost two hundred questions a second."""
    admin, member = Counting(), Member("a", "b")
    owners = OwnershipChecker(SETTINGS, admin)
    owners.join(member)
    await until(lambda: {"a", "b"} <= set(admin.asked))
    await quiet(admin, member)
    member.working.add("b")
    admin.asked.clear()
    await rounds(member, 10)
    assert set(admin.asked) == {"b"}
    assert len(admin.asked) >= 9
    member.working.clear()
    await quiet(admin, member)
    await owners.leave(member)
    await admin.stop()


async def test_questions_are_asked_side_by_side_within_a_bound_and_answered_in_order() -> None:
    """A topic of a thousand partitions neither takes a thousand turns nor floods the cluster."""
    under_way, most = 0, 0

    async def question(number: int) -> int:
        nonlocal under_way, most
        under_way += 1
        most = max(most, under_way)
        await asyncio.sleep(0)
        under_way -= 1
        return number

    assert await ask_each(question, range(50)) == list(range(50))
    assert most == AT_ONCE


async def test_the_first_error_ends_all_questions() -> None:
    """Nothing goes on asking for a caller who has gone."""
    ended = 0

    async def question(number: int) -> None:
        nonlocal ended
        if number == 3:
            raise ValueError("no")
        try:
            await asyncio.Event().wait()
        finally:
            ended += 1

    with pytest.raises(ValueError, match="no"):
        await ask_each(question, range(5))
    await until(lambda: ended == 4)
