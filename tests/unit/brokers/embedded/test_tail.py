"""Many consumers, one reading: who stands where, who waits for whom, and what it costs."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from functools import partial
from gzip import compress
from pathlib import Path
from typing import Any

import pytest

from app.bindings.record import Decoded, Record
from app.bindings.table import BINDINGS
from app.brokers import cursor
from app.brokers.embedded import ConsumerSettings, EmbeddedDriver, EngineSettings, RetentionLimits
from app.brokers.portable import PortableLog
from app.errors import BrokerUnavailable
from app.filters.model import Filter
from app.interfaces import Consumer
from app.log.partitions import PartitionLog
from app.model.message import Assigned, Message, MessagePage, Partition
from app.model.start import EARLIEST
from consumer_filters import consumer_filter
from log_steps import ManualTime
from patience import PATIENT, PATIENT_GROUP
from waiting import until

TOPIC = "t"
PLACE = Partition(TOPIC, 0)
PAGE = 5


def an_event(number: int, kind: str = "a") -> Record:
    attributes = {"specversion": "1.0", "id": str(number), "source": "/t", "type": kind}
    headers = tuple((f"ce_{name}", text.encode()) for name, text in attributes.items())
    return Record(None, headers, b"%d" % number)


class House:
    """One partition, small pages, and what was read of it. Nothing is committed by itself."""

    def __init__(self, folder: Path) -> None:
        self.time = ManualTime()
        self.driver = EmbeddedDriver(
            EngineSettings(
                path=folder,
                partitions=1,
                now_ms=self.time,
                retention=RetentionLimits(max_age=10),
                retention_interval=3600,
            ),
            ConsumerSettings(commit_interval=3600, page_records=PAGE, times=PATIENT_GROUP),
        )
        self.log = PortableLog(self.driver, PATIENT)
        self.pages: list[int] = []
        self.read: list[int] = []  # of these, by the reading thread
        self.passed = self.failed = 0
        self.decode = BINDINGS["embedded"].decode

    async def open(self, watch: pytest.MonkeyPatch) -> None:
        await self.log.start()
        page = self.driver.engine.page

        async def counted(place: Partition, offset: int, **bounds: int) -> MessagePage:
            self.pages.append(offset)
            self.read.append(offset)
            return await page(place, offset, **bounds)

        at_hand = self.driver.engine.at_hand

        def counted_at_hand(
            log: PartitionLog, offset: int, until: int, most: int
        ) -> MessagePage | None:
            found = at_hand(log, offset, until, most)
            if found is not None:
                self.pages.append(offset)
            return found

        watch.setattr(self.driver.engine, "page", counted)
        watch.setattr(self.driver.engine, "at_hand", counted_at_hand)

    async def publish(self, *records: Record) -> None:
        await self.log.submit(TOPIC, records)

    async def consumer(self, group: str, **dialect: object) -> Consumer:
        """Assigned, and waiting for more."""
        filters = [Filter.model_validate(dialect)] if dialect else []
        wanted = consumer_filter(filters, self._count, self.decode)
        consumer = await self.log.subscribe(group, [TOPIC], EARLIEST, wanted=wanted)
        async with asyncio.timeout(60):
            while not isinstance(await consumer.poll(1.0), Assigned):
                pass
        return consumer

    def _count(self, filtered: int, failed: int) -> None:
        self.passed += filtered + failed
        self.failed += failed

    def commit_passed(self) -> asyncio.Future[None]:
        """As the timer does. Done when all that was committed is."""
        assert self.driver._shared is not None
        self.driver._shared.commits._round()
        return self.driver.engine.groups.declare([])

    def committed(self, group: str) -> int:
        return self.driver.engine.groups.positions.of(group)[PLACE].offset

    async def lag(self, group: str) -> int:
        (lag,) = (await self.log.metadata([TOPIC], {group: [TOPIC]})).groups
        return lag.lag


@pytest.fixture
async def house(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[House]:
    house = House(tmp_path / "log")
    await house.open(monkeypatch)
    yield house
    await house.log.stop()


async def take(consumer: Consumer, count: int) -> list[Message]:
    got: list[Message] = []
    async with asyncio.timeout(60):
        while len(got) < count:
            event = await consumer.poll(1.0)
            got += event if isinstance(event, tuple) else ()
    assert len(got) == count
    return got


def numbers(messages: list[Message]) -> list[int]:
    return [int(message.record.body or b"") for message in messages]


async def test_a_page_is_read_once_and_an_event_decoded_once_for_all(house: House) -> None:
    """What the look costs must not grow with the subscriptions that only look (issue 6, 12)."""
    decoded: list[bytes | None] = []
    decode = house.decode

    def counted(record: Record) -> Decoded:
        decoded.append(record.body)
        return decode(record)

    house.decode = counted
    others = [await house.consumer(f"g{n}", exact={"type": f"other{n}"}) for n in range(50)]
    one = await house.consumer("one", exact={"type": "a"})
    two = await house.consumer("two", prefix={"type": "a"})
    waiting = [asyncio.create_task(other.poll(3600)) for other in others]
    await asyncio.sleep(0)
    await house.publish(*(an_event(n) for n in range(PAGE)))
    for consumer in (one, two):
        messages = await take(consumer, PAGE)
        assert all(message.decoded is not None for message in messages), "nobody decodes it again"
    assert house.pages == [0]
    assert decoded == [b"%d" % n for n in range(PAGE)]
    assert not any(task.done() for task in waiting), "who wants nothing of it is not even woken"
    for task in waiting:
        task.cancel()


async def test_what_was_stored_a_moment_ago_is_handed_out_without_reading_it(house: House) -> None:
    """Who waits at the end gets it in the step that tells of it; who comes later reads it, and it is the same."""
    one = await house.consumer("one", exact={"type": "a"})
    polling = asyncio.create_task(one.poll(3600))
    await asyncio.sleep(0)
    read = len(house.read)
    await house.publish(an_event(0), an_event(1, "b"), an_event(2))
    messages = await polling
    assert isinstance(messages, tuple)
    assert house.read[read:] == []
    late = await take(await house.consumer("late", exact={"type": "a"}), 2)
    assert house.read[read:] == [0]
    seen = [(m.offset, m.position, m.time_ms, m.record, m.decoded) for m in messages]
    assert seen == [(m.offset, m.position, m.time_ms, m.record, m.decoded) for m in late]


async def test_more_than_a_page_at_once_is_read(house: House) -> None:
    """The loop has its turn between pages, however much one commit group brings."""
    one = await house.consumer("one", exact={"type": "a"})
    polling = asyncio.create_task(one.poll(3600))
    await asyncio.sleep(0)
    await house.publish(*(an_event(n) for n in range(PAGE + 1)))
    assert numbers([*await polling, *await take(one, 1)]) == list(range(PAGE + 1))
    assert house.read[:2] == [0, PAGE]


async def test_one_that_is_behind_reads_by_itself_and_joins_where_the_others_stand(
    house: House,
) -> None:
    """No gap and no duplicate where it joins."""
    first = await house.consumer("first", exact={"type": "a"})
    await house.publish(*(an_event(n) for n in range(12)))
    await take(first, 12)
    behind = await house.consumer("behind", exact={"type": "a"})
    assert numbers(await take(behind, 12)) == list(range(12))
    house.pages.clear()
    await asyncio.gather(first.poll(0), behind.poll(0))
    await house.publish(*(an_event(n) for n in range(12, 15)))
    for consumer in (first, behind):
        assert numbers(await take(consumer, 3)) == [12, 13, 14]
    assert house.pages == [12], "one page for both"


async def test_a_paused_one_holds_up_nobody_and_misses_nothing(house: House) -> None:
    """The shared reading waits for nobody (rule 6: a pause is of one subscription)."""
    paused = await house.consumer("paused", exact={"type": "a"})
    other = await house.consumer("other", exact={"type": "a"})
    paused.pause([PLACE])
    await house.publish(*(an_event(n) for n in range(20)))
    assert numbers(await take(other, 20)) == list(range(20))
    assert await paused.poll(0.05) is None
    paused.resume([PLACE])
    assert numbers(await take(paused, 20)) == list(range(20))


async def test_what_lay_ready_when_it_was_paused_comes_after_the_pause(house: House) -> None:
    """Ready is not taken: the position is before it."""
    one = await house.consumer("one", exact={"type": "a"})
    polling = asyncio.create_task(one.poll(3600))
    await asyncio.sleep(0)
    await house.publish(an_event(0), an_event(1, "b"), an_event(2))
    assert isinstance(await polling, tuple)
    await house.publish(an_event(3))
    await one.poll(0)  # asks for it
    await until(lambda: house.pages == [0, 3])
    await asyncio.sleep(0.01)
    one.pause([PLACE])
    assert one.window(PLACE) == 3
    one.resume([PLACE])
    assert numbers(await take(one, 1)) == [3]


async def test_a_slow_one_keeps_a_page_and_then_leaves(house: House) -> None:
    """What lies ready for it is bounded (rule 8); the rest it reads later, by itself."""
    slow = await house.consumer("slow", exact={"type": "a"})
    fast = await house.consumer("fast", exact={"type": "a"})
    await house.publish(*(an_event(n) for n in range(4 * PAGE)))
    assert numbers(await take(fast, 4 * PAGE)) == list(range(4 * PAGE))
    assert isinstance(slow, type(fast))
    owned = slow._owned[PLACE]  # type: ignore[attr-defined]
    assert len(owned._ready) <= PAGE
    assert numbers(await take(slow, 4 * PAGE)) == list(range(4 * PAGE))


async def test_positions_that_only_pass_are_committed_together_and_no_lag_from_then_on(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A thousand at rest: one transaction for all. Before it a kill would take the position back, so nobody is
    told of it."""
    idle = [await house.consumer(f"g{n}", exact={"type": "never"}) for n in range(20)]
    one = await house.consumer("one", exact={"type": "a"})
    await house.publish(*(an_event(n) for n in range(8)))
    messages = await take(one, 8)
    assert [await house.lag(f"g{n}") for n in range(20)] == [8] * 20
    assert [house.committed(f"g{n}") for n in range(20)] == [0] * 20
    positions = house.driver.engine.groups.positions
    rounds: list[int] = []
    store = positions.store
    monkeypatch.setattr(
        positions, "store", lambda db, all_: rounds.append(len(all_)) or store(db, all_)
    )
    await house.commit_passed()
    assert [house.committed(f"g{n}") for n in range(20)] == [8] * 20
    assert [await house.lag(f"g{n}") for n in range(20)] == [0] * 20
    assert rounds == [20], "one transaction, and nothing for the one that has all of it open"
    assert house.committed("one") == 0
    assert house.passed == 8 * 20
    await one.settle(messages)
    await one.commit()
    assert house.committed("one") == 8
    await asyncio.gather(*(consumer.close() for consumer in idle))


async def test_an_open_message_holds_the_commit_while_others_pass(house: House) -> None:
    """Nothing is settled before it is finished, however far the reading is (rule 2); and the window
    is the distance to there (rule 4)."""
    one = await house.consumer("one", exact={"type": "a"})
    await house.publish(an_event(0), *(an_event(n, "b") for n in range(1, 9)))
    (message,) = await take(one, 1)
    await one.poll(0)
    await until(lambda: one.window(PLACE) == 9)
    await one.commit()
    assert house.committed("one") == 0
    await one.settle([message])
    assert one.window(PLACE) == 0
    await one.commit()
    assert house.committed("one") == 9


async def test_retention_does_not_pass_one_that_is_idle(house: House) -> None:
    """Its committed position counts, and that comes later than the reading."""
    idle = await house.consumer("idle", exact={"type": "never"})
    other = await house.consumer("other", exact={"type": "a"})
    await house.publish(*(an_event(n) for n in range(3)))
    await other.settle(await take(other, 3))
    await other.commit()
    house.time.now_ms += 60_000
    assert await house.driver.engine.upkeep.retain() == 0
    await house.commit_passed()
    assert await house.driver.engine.upkeep.retain() == 1
    await idle.close()


async def test_an_expression_that_fails_is_counted_once_however_often_its_event_is_read(
    house: House,
) -> None:
    """What lay ready is read again after a pause, and the events behind it are filtered again."""
    one = await house.consumer("one", any=[{"exact": {"type": "a"}}, {"sql": "missing > 1"}])
    await house.publish(an_event(0), an_event(1, "b"), an_event(2, "b"))
    await one.poll(0)
    await until(lambda: house.pages == [0])
    await asyncio.sleep(0.01)
    one.pause([PLACE])  # before anything of it was taken
    one.resume([PLACE])
    await take(one, 1)
    await one.poll(0)
    await house.publish(an_event(3, "b"))
    await one.poll(0)
    await until(lambda: one.window(PLACE) == 4)
    await one.commit()
    assert house.pages.count(0) > 1
    assert (house.passed, house.failed) == (3, 3)


async def test_content_beyond_the_bound_of_its_consumers_is_no_event(house: House) -> None:
    """``limits.body`` holds for what a log decodes, as it does for what a worker decodes."""
    house.decode = partial(BINDINGS["embedded"].decode, bound=10)
    headers = (*an_event(1).headers, ("content-encoding", b"gzip"))
    one = await house.consumer("one", exact={"type": "a"})
    await house.publish(Record(None, headers, compress(bytes(11))))
    (message,) = await take(one, 1)
    assert message.decoded is None


async def test_the_loop_has_its_turn_while_filters_fail_and_all_of_a_page_is_handed_out(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A page is handed out in slices; none of it is read or filtered twice."""
    monkeypatch.setattr(cursor, "LOOKS", 2 * cursor.FAILURE)
    filters = [{"sql": "missing > 1"}, {"exact": {"id": "4"}}]
    one, two = [await house.consumer(name, any=filters) for name in ("one", "two")]
    await asyncio.gather(one.poll(0), two.poll(0))
    turns = 0
    slices: list[int] = []

    async def turn() -> None:
        nonlocal turns
        while True:
            await asyncio.sleep(0)
            turns += 1

    choose = cursor.SharedCursor._choose

    def counted(self: cursor.SharedCursor, messages: Sequence[Message]) -> Any:
        found = choose(self, messages)
        slices.append(turns)
        return found

    monkeypatch.setattr(cursor.SharedCursor, "_choose", counted)
    turning = asyncio.create_task(turn())
    await house.publish(*(an_event(n) for n in range(PAGE)))
    for each in (one, two):
        assert numbers(await take(each, 1)) == [4]
    turning.cancel()
    assert len(slices) == len(set(slices)) == PAGE
    assert house.pages == [0]
    for each in (one, two):
        await each.commit()
    assert (house.passed, house.failed) == (2 * (PAGE - 1), 2 * (PAGE - 1))


async def test_what_is_no_event_goes_to_all(house: House) -> None:
    """What becomes of it, each subscription says (``on_foreign``)."""
    consumers = [await house.consumer(f"g{n}", exact={"type": "never"}) for n in range(3)]
    await house.publish(Record(None, (("content-type", b"text/plain"),), b"7"))
    for consumer in consumers:
        (message,) = await take(consumer, 1)
        assert message.decoded is None


async def test_trouble_while_reading_is_raised_by_each_once_and_passes(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A consumer that went quiet would lose its subscription without a word."""
    consumers = [await house.consumer(f"g{n}", exact={"type": "a"}) for n in range(2)]

    async def broken(*_: object, **__: object) -> MessagePage:
        raise BrokerUnavailable("the log's file cannot be read")

    with monkeypatch.context() as patch:
        patch.setattr(house.driver.engine, "page", broken)
        patch.setattr(house.driver.engine, "at_hand", lambda *_: None)
        await asyncio.gather(*(consumer.poll(0) for consumer in consumers))
        await house.publish(an_event(0))
        for consumer in consumers:
            with pytest.raises(BrokerUnavailable):
                await take(consumer, 1)
    for consumer in consumers:
        assert numbers(await take(consumer, 1)) == [0]


async def test_a_nudged_poll_returns(house: House) -> None:
    """Who waits for long can be told that there is something else to do."""
    consumer = await house.consumer("one", exact={"type": "a"})
    polling = asyncio.create_task(consumer.poll(3600))
    await asyncio.sleep(0)
    consumer.nudge()
    async with asyncio.timeout(60):
        assert await polling is None


async def test_a_topic_that_was_deleted_and_made_again_is_read_anew(house: House) -> None:
    """Who comes later must not follow the one that is gone: nothing would ever reach it."""
    await house.publish(an_event(0))
    before = await house.consumer("g")
    await before.close()
    await house.driver.forget("g")
    await house.driver.engine.delete_topic(TOPIC)
    await house.publish(an_event(1))
    after = await house.consumer("h")
    async with asyncio.timeout(60):
        while not (got := await after.poll(1.0)):
            pass
    assert isinstance(got, tuple)
    assert [message.record.body for message in got] == [b"1"]
