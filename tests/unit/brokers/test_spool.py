"""The switch before a route's target: what goes straight, what waits in the spool, and in which order."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from app.bindings.record import Record
from app.bindings.spooled import from_spooled
from app.brokers import spool as module
from app.brokers import spool_capacity
from app.brokers.portable import LIMIT_KNOWN
from app.brokers.spool import SpoolingLog, When
from app.brokers.spool_capacity import SpoolCapacity
from app.errors import BoundReached, BrokerRefused, BrokerUnavailable, PublishUnknown
from app.model.metadata import LogHealth
from app.model.receipt import Receipt
from app.routing.partitions import partition_of
from scripted_log import ScriptedLog

AWAY, UNKNOWN = BrokerUnavailable("away"), PublishUnknown("no answer")
REFUSED = BrokerRefused("no such topic", kind="unknown-topic")
TOO_LARGE = BrokerRefused("too large", kind="record-too-large")
PARTITIONS = 2
A, B = (
    next(k for k in (b"%d" % n for n in range(9)) if partition_of(k, PARTITIONS) == p)
    for p in (0, 1)
)


class Waits:
    """What the disk has: records by partition, as a test says."""

    partitions = PARTITIONS

    def __init__(self) -> None:
        self.of: Counter[int] = Counter()
        self.bytes = 0

    def waiting(self, number: int) -> int:
        return self.of[number]

    @property
    def records(self) -> int:
        return self.of.total()


class House:
    def __init__(self, when: When = "outage", most: int = 1 << 20) -> None:
        self.target, self.spool, self.waits = ScriptedLog("main"), ScriptedLog("log"), Waits()
        self.target.capabilities = SimpleNamespace(max_record=1_000)  # type: ignore[attr-defined]
        self.began: list[str] = []
        self.log = SpoolingLog(
            "main", self.target, self.spool, "__spool.orders", self.waits,
            when=when, most=most, began=self.began.append,
        )  # type: ignore[arg-type]  # fmt: skip

    def post(self, body: str, key: bytes | None = A, size: int = 0) -> asyncio.Future[Any]:
        return self.log.submit("orders", [Record(key, (), body.encode().ljust(size))])

    async def settled(self, log: ScriptedLog, *results: Any) -> None:
        """Those submits of ``log`` that are open get these fates, then all of them are stored."""
        open_ = [each for each in log.submits if not each.future.done()]
        for n, each in enumerate(open_):
            log.settle(log.submits.index(each), results[n] if n < len(results) else None)
        await turn()

    async def stored(self) -> None:
        """What is under way to the spool is durable."""
        for each in self.spool.submits:
            if not each.future.done():
                for record in each.records:
                    self.waits.of[0 if record.key is None else partition_of(record.key, 2)] += 1
        await self.settled(self.spool)

    async def drained(self, partition: int, *, look: bool = True) -> None:
        self.waits.of[partition] = 0
        self.log.drained("orders", Record(A, (), b""), Receipt("main", "orders", 0, "1"))
        if look:
            await asyncio.sleep(module.LOOK * 2)

    @property
    def direct(self) -> list[str]:
        return texts(self.target.bodies)

    @property
    def waiting(self) -> list[str]:
        return texts(self.spool.bodies)


def texts(bodies: Sequence[bytes | None]) -> list[str]:
    return [(body or b"").decode().strip() for body in bodies]


async def turn() -> None:
    for _ in range(3):  # callbacks of callbacks
        await asyncio.sleep(0)


async def test_a_target_that_answers_is_published_to_without_the_spool() -> None:
    house = House()
    stored = house.post("1")
    await house.settled(house.target)

    assert isinstance(stored.result()[0], Receipt)
    assert house.waiting == []
    assert not house.began


@pytest.mark.parametrize("failure", [AWAY, UNKNOWN, BoundReached("full")])
async def test_what_a_target_that_is_away_did_not_store_is_answered_by_the_spool(
    failure: BrokerUnavailable,
) -> None:
    house = House()
    stored = house.post("1")
    await house.settled(house.target, failure)
    assert not stored.done()  # not before the spool has it (rule 1)
    await house.stored()

    assert stored.result()[0].broker == "log"
    assert house.began == [str(failure)]
    assert house.log.repeats == isinstance(failure, PublishUnknown)


async def test_a_record_of_the_spool_is_the_targets_record_to_the_byte() -> None:
    house = House(when="always")
    record = Record(b"\xff\x00", (("ce_id", b"1"), ("x", None), ("x", b"")), None, "text/plain")
    house.log.submit("orders.eu", [record])

    (spooled,) = house.spool.submits[0].records
    destination, back = from_spooled(spooled)
    assert (destination.log, destination.topic) == ("main", "orders.eu")
    assert back == record
    assert spooled.key == record.key  # it decides the partition


async def test_what_a_target_refuses_is_the_senders_to_know() -> None:
    house = House()
    stored = house.post("1")
    await house.settled(house.target, REFUSED)

    assert stored.result() == [REFUSED]
    assert house.waiting == []


async def test_all_of_a_lane_under_way_is_taken_back_in_its_order() -> None:
    """One that fails at once must not be spooled before one that is still on its way."""
    house = House()
    first, second = house.post("1"), house.post("2")
    house.target.settle(1, AWAY)
    await turn()

    assert house.target.submits[0].future.cancelled()  # rule 9: it is not sent any more
    assert house.waiting == ["1", "2"]
    assert house.log.repeats == 1  # the first may have been on the wire
    await house.stored()
    assert first.done()
    assert second.done()


async def test_what_is_known_to_be_stored_is_not_spooled() -> None:
    house = House()
    house.post("1")
    house.post("2")
    house.target.settle(0)
    house.target.settle(1, UNKNOWN)
    await turn()

    assert house.waiting == ["2"]


async def test_another_lane_goes_on_until_it_fails_itself() -> None:
    house = House()
    house.post("b1", B)
    house.post("a1", A)
    house.target.settle(1, UNKNOWN)
    await turn()
    house.post("b2", B)
    await turn()

    assert house.direct == ["b1", "a1", "b2"]  # b2 must not overtake b1, nor b1 come twice
    assert house.waiting == ["a1"]


async def test_a_lane_with_nothing_under_way_goes_to_the_spool_while_the_target_is_away() -> None:
    house = House()
    house.post("a1", A)
    await house.settled(house.target, UNKNOWN)
    house.post("b1", B)
    house.post("none", None)

    assert house.waiting == ["a1", "b1", "none"]


async def test_later_records_go_behind_those_that_wait() -> None:
    house = House()
    house.post("1")
    await house.settled(house.target, AWAY)
    await house.stored()
    house.waits.of[0] = module.HANDOVER + 1
    house.log.drained("orders", Record(A, (), b""), Receipt("main", "orders", 0, "1"))
    house.post("2", A)
    house.post("3", B)

    assert house.waiting == ["1", "2"]
    assert house.direct == ["1", "3"]  # nothing of its lane waits, and the target answers


async def test_the_last_of_a_lane_is_waited_for_and_then_it_is_direct_in_order() -> None:
    house = House()
    house.post("1")
    await house.settled(house.target, AWAY)
    await house.stored()
    house.log.drained("orders", Record(A, (), b""), Receipt("main", "orders", 0, "1"))
    house.post("2")
    house.post("3")
    assert (house.direct, house.waiting) == (["1"], ["1"])  # they are held
    assert not house.log.idle
    await house.drained(0)

    assert house.direct == ["1", "2", "3"]
    assert house.waiting == ["1"]
    assert house.log.idle
    assert house.log.ended()
    assert not house.log.ended()  # once


async def test_a_lane_is_not_held_for_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "HOLD", 0.03)
    house = House()
    house.post("1")
    await house.settled(house.target, AWAY)
    await house.stored()
    house.log.drained("orders", Record(A, (), b""), Receipt("main", "orders", 0, "1"))
    house.post("2")
    house.post("3")
    async with asyncio.timeout(10):
        while house.waiting != ["1", "2", "3"]:
            await asyncio.sleep(module.LOOK)
    house.post("4")  # nor again at once
    assert house.waiting == ["1", "2", "3", "4"]


async def test_a_lane_that_is_held_goes_to_the_spool_when_the_target_fails_again() -> None:
    house = House()
    house.post("1")
    await house.settled(house.target, AWAY)
    await house.stored()
    house.log.drained("orders", Record(A, (), b""), Receipt("main", "orders", 0, "1"))
    house.post("2")
    house.log.drained("orders", Record(A, (), b""), UNKNOWN)
    await asyncio.sleep(module.LOOK * 2)

    assert house.waiting == ["1", "2"]
    assert house.log.repeats == 1


async def test_the_records_of_one_submit_go_each_its_way_and_are_answered_in_their_order() -> None:
    house = House()
    house.waits.of[0] = module.HANDOVER + 1
    records = [Record(key, (), body) for key, body in ((B, b"b1"), (A, b"a1"), (B, b"b2"))]
    stored = house.log.submit("orders", records)
    await house.settled(house.target)
    await house.stored()

    assert house.direct == ["b1", "b2"]
    assert house.waiting == ["a1"]
    assert [each.broker for each in stored.result()] == ["main", "log", "main"]


async def test_what_the_target_could_never_store_is_refused_before_it_is_spooled() -> None:
    house = House(when="always")
    (by_setting,) = house.post("1", size=1_001).result()
    house.log.drained("orders", Record(A, (), b" " * 500), TOO_LARGE)
    (by_experience,) = house.post("2", size=500).result()
    house.post("3", size=400)

    assert [each.kind for each in (by_setting, by_experience)] == ["record-too-large"] * 2
    assert house.waiting == ["3"]


async def test_a_spool_at_its_bound_answers_that_it_is_full() -> None:
    house = House(when="always", most=400)
    house.post("1", size=200)
    (full,) = house.post("2", size=200).result()

    assert isinstance(full, BoundReached)
    await house.stored()
    assert house.post("3", size=200).done()  # what was stored counts still


async def test_a_full_disk_is_the_answer_of_the_spool() -> None:
    house = House(when="always")
    stored = house.post("1")
    full = BoundReached("the disk is full")
    await house.settled(house.spool, full)

    assert stored.result() == [full]


async def test_always_spools_what_a_target_that_answers_would_take() -> None:
    house = House(when="always")
    stored = house.post("1")
    await house.stored()

    assert stored.result()[0].broker == "log"
    assert house.direct == []
    assert house.began == []  # it is no outage


async def test_a_spool_that_was_removed_is_gone_behind_and_takes_no_more_outages() -> None:
    house = House()
    house.waits.of[0] = module.HANDOVER + 1
    house.log.set("never", 1 << 20)
    house.post("1", A)
    other = house.post("2", B)
    await house.settled(house.target, AWAY)

    assert house.waiting == ["1"]
    assert other.result() == [AWAY]


async def stalled(house: House, *healthy: bool) -> None:
    """Looks at a target that gives these answers about itself, one after the other."""
    answers = iter(healthy)

    async def health() -> LogHealth:
        return LogHealth(healthy=next(answers), cause="nobody listens")

    house.target.health = health  # type: ignore[method-assign]
    for _ in range(len(healthy) + 1):  # the first look has nothing to compare with
        await house.log.look_after_target()


async def test_what_stands_still_is_spooled_when_the_target_is_unwell_twice() -> None:
    """Before the publish time-out: a client tries again for as long, and the senders would wait."""
    house = House()
    stored = [house.post("1"), house.post("2"), house.post("3", B)]
    await stalled(house, False, False)

    assert all(each.future.cancelled() for each in house.target.submits)
    assert house.waiting == ["1", "2", "3"]
    assert house.log.cause == "nobody listens"
    assert house.log.repeats == 3  # nobody knows what was on the wire
    house.post("4")
    await house.stored()
    assert house.waiting[-1] == "4"
    assert all(isinstance(each.result()[0], Receipt) for each in stored)


@pytest.mark.parametrize("healthy", [(False, True, False), (True, True, True)])
async def test_a_target_that_is_well_again_keeps_what_is_under_way(
    healthy: tuple[bool, ...],
) -> None:
    house = House()
    house.post("1")
    await stalled(house, *healthy)

    assert house.waiting == []
    await house.settled(house.target)


async def test_a_lane_that_moves_asks_nobody() -> None:
    house = House()
    for body in ("1", "2", "3"):
        house.post(body)
        await stalled(house)
        await house.settled(house.target)
    assert house.waiting == []


async def test_always_takes_back_what_is_under_way() -> None:
    """What follows would overtake it, should it fail."""
    house = House()
    house.post("1")
    house.log.set("always", 1 << 20)
    house.post("2")

    assert house.waiting == ["1", "2"]


async def test_a_target_that_fails_is_tried_again_when_nothing_waits_that_could_try_it() -> None:
    """The spool was full, so nothing drains: only the next event finds out that the target is back."""
    house = House(most=1)
    house.post("1")
    await house.settled(house.target, AWAY)
    house.post("2")

    assert house.direct == ["1", "2"]


def test_a_size_that_a_topic_refused_is_forgotten_after_a_while(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """An operator raises the limit of the topic: nobody is told 413 until a restart."""
    now = 100.0
    monkeypatch.setattr(spool_capacity, "monotonic", lambda: now)
    house = House()
    room = SpoolCapacity(house.target, house.waits, 1 << 20)  # type: ignore[arg-type]
    large, larger = (Record(None, (), bytes(size)) for size in (100, 101))
    room.learn("orders", large, TOO_LARGE)
    assert room.refusal("orders", larger) is not None
    now += LIMIT_KNOWN
    assert room.refusal("orders", larger) is None
