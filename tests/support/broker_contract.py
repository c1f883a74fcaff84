"""What every broker must do, as one suite that runs unchanged on each of them.

A broker's test module gives a ``harness`` fixture and ``class TestX(BrokerContract)``. Cases ask the
log's declared capabilities what to expect; none of them knows which broker it runs on.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Protocol
from uuid import uuid4

import pytest

from app.bindings.record import Record
from app.brokers.portable import Bounds, PortableLog
from app.errors import (
    BoundReached,
    BrokerError,
    BrokerRefused,
    BrokerUnavailable,
    PositionOutOfRange,
)
from app.interfaces import Consumer
from app.model.capabilities import Capabilities
from app.model.message import Assigned, Lost, Message, Partition, Revoked
from app.model.receipt import Receipt
from app.model.start import EARLIEST, LATEST, StartAt
from app.routing.partitions import partition_of

PATIENCE = 20.0  # seconds; a bound, not a wait: every wait ends with its condition
JAVA_HASHES = {
    b"21": 1173551340,
    b"foobar": 1357151166,
}  # murmur2 & 0x7FFFFFFF, by Kafka's Java client


class Harness(Protocol):
    """What a broker's tests give to the suite.

    ``can_go_away``  the broker can be taken away and brought back under a running log.
    """

    capabilities: Capabilities
    can_go_away: bool

    async def make_log(self, *, bounds: Bounds | None = None) -> PortableLog:
        """A started log on the harness's data. At most one is open at a time."""

    async def fresh_topic(self, log: PortableLog, partitions: int = 4) -> str:
        """A new topic, there and ready when this returns."""

    async def take_away(self) -> None: ...
    async def bring_back(self) -> None: ...

    async def close(self) -> None:
        """Stop the logs that a failed case left open."""


def text(body: str, key: str | None = None) -> Record:
    return Record(
        None if key is None else key.encode(), (("content-type", b"text/plain"),), body.encode()
    )


def fresh_group() -> str:
    return f"contract.{uuid4().hex[:12]}"


async def until(condition: Callable[[], bool], within: float = PATIENCE) -> None:
    """Bounded wait on a condition."""
    deadline = time.monotonic() + within
    while not condition():
        assert time.monotonic() < deadline, "the condition did not come true in time"
        await asyncio.sleep(0.01)


async def publish(log: PortableLog, topic: str, records: Sequence[Record]) -> list[Receipt]:
    results = await log.submit(topic, records)
    receipts = [result for result in results if isinstance(result, Receipt)]
    assert len(receipts) == len(records), results
    return receipts


async def take(consumer: Consumer, count: int, within: float = PATIENCE) -> list[Message]:
    """Exactly ``count`` messages; changes of ownership are passed over."""
    messages: list[Message] = []
    deadline = time.monotonic() + within
    while len(messages) < count:
        assert time.monotonic() < deadline, f"{len(messages)} of {count} messages came in time"
        event = await consumer.poll(0.2)
        if isinstance(event, tuple):
            messages += event
    assert len(messages) == count
    return messages


async def assigned(consumer: Consumer, within: float = PATIENCE) -> Assigned:
    deadline = time.monotonic() + within
    while time.monotonic() < deadline:
        event = await consumer.poll(0.2)
        if isinstance(event, Assigned):
            return event
    raise AssertionError("nothing was assigned in time")


async def nothing_comes(consumer: Consumer, within: float = 0.3) -> None:
    """A bounded look: no message is handed out. Ownership may change meanwhile."""
    deadline = time.monotonic() + within
    while time.monotonic() < deadline:
        event = await consumer.poll(0.05)
        assert not isinstance(event, tuple), f"unexpected messages: {event}"


def bodies(messages: Iterable[Message]) -> list[bytes | None]:
    return [message.record.body for message in messages]


class Member:
    """Polls a consumer in a task of its own, as a worker would, and settles what comes."""

    def __init__(self, consumer: Consumer) -> None:
        self.consumer = consumer
        self.messages: list[Message] = []
        self.changes: list[Assigned | Revoked | Lost] = []
        self.owned: set[Partition] = set()
        self._stopping = False
        self._task = asyncio.create_task(self._run())

    async def _run(self) -> None:
        while not self._stopping:
            event = await self.consumer.poll(0.1)
            if isinstance(event, tuple):
                self.messages += event
                await self.consumer.settle(event)
            elif isinstance(event, Assigned):
                self.changes.append(event)
                self.owned |= set(event.partitions)
            elif event is not None:
                self.changes.append(event)
                self.owned -= set(event.partitions)

    async def close(self) -> None:
        self._stopping = True
        await self._task
        await self.consumer.close()


async def close_all(members: Collection[Member]) -> None:
    await asyncio.gather(*(member.close() for member in members))


class BrokerContract:
    """The cases. Each name is a claim."""

    async def test_what_is_published_is_consumed(self, harness: Harness) -> None:
        """The journey's middle: key, headers and body come out as they went in."""
        log = await harness.make_log()
        topic = await harness.fresh_topic(log)
        record = Record(b"k", (("ce_id", b"1"), ("content-type", b"text/plain")), b"hello")
        (receipt,) = await publish(log, topic, [record])
        consumer = await log.subscribe(fresh_group(), [topic], EARLIEST)
        (message,) = await take(consumer, 1)
        assert message.record == record
        assert (message.partition, message.position) == (
            Partition(topic, receipt.partition),
            receipt.position,
        )
        await consumer.close()
        await log.stop()

    async def test_records_of_one_key_keep_their_order(self, harness: Harness) -> None:
        """Order per key is the promise (reliability G3), also over many submits at once."""
        log = await harness.make_log()
        topic = await harness.fresh_topic(log)
        sent = [text(f"{key}-{number}", key) for number in range(50) for key in ("a", "b", "c")]
        results = await asyncio.gather(*(log.submit(topic, [record]) for record in sent))
        assert all(isinstance(result, Receipt) for (result,) in results)
        consumer = await log.subscribe(fresh_group(), [topic], EARLIEST)
        messages = await take(consumer, len(sent))
        for key in (b"a", b"b", b"c"):
            got = [m.record.body for m in messages if m.record.key == key]
            assert got == [b"%b-%d" % (key, number) for number in range(50)]
        await consumer.close()
        await log.stop()

    async def test_one_submit_keeps_the_order_of_its_records(self, harness: Harness) -> None:
        """A batch of one key is stored as it was given, with rising positions."""
        log = await harness.make_log()
        topic = await harness.fresh_topic(log)
        receipts = await publish(log, topic, [text(str(n), "one") for n in range(20)])
        assert len({receipt.partition for receipt in receipts}) == 1
        offsets = [int(receipt.position) for receipt in receipts]
        assert offsets == sorted(set(offsets))
        await log.stop()

    async def test_members_share_partitions_and_a_third_moves_some(self, harness: Harness) -> None:
        """One owner a partition at all times; ownership changes are told (rule 5)."""
        log = await harness.make_log()
        topic = await harness.fresh_topic(log, partitions=6)
        group = fresh_group()
        everything = {Partition(topic, number) for number in range(6)}
        members: list[Member] = []
        for count in (1, 2, 3):
            members.append(Member(await log.subscribe(group, [topic], EARLIEST)))
            share = 6 // count
            await until(
                lambda share=share: [len(m.owned) for m in members] == [share] * len(members)
            )
            assert set().union(*(member.owned for member in members)) == everything
        assert any(isinstance(change, Revoked) for change in members[0].changes)
        epochs = [change.epoch for change in members[0].changes if isinstance(change, Assigned)]
        assert epochs == sorted(set(epochs)), "each ownership is newer than the last"
        await publish(log, topic, [text(str(n), f"key-{n}") for n in range(60)])
        await until(lambda: sum(len(m.messages) for m in members) >= 60)
        assert sum(len(m.messages) for m in members) == 60
        assert all(member.messages for member in members)
        await close_all(members)
        await log.stop()

    async def test_a_leaving_member_gives_its_partitions_back(self, harness: Harness) -> None:
        """A closed member must not hold up its partitions until a session ends (R13)."""
        log = await harness.make_log()
        topic = await harness.fresh_topic(log, partitions=2)
        group = fresh_group()
        stays = Member(await log.subscribe(group, [topic], EARLIEST))
        leaves = Member(await log.subscribe(group, [topic], EARLIEST))
        await until(lambda: len(stays.owned) == len(leaves.owned) == 1)
        await leaves.close()
        await until(lambda: len(stays.owned) == 2)
        await stays.close()
        await log.stop()

    async def test_what_was_not_settled_comes_again(self, harness: Harness) -> None:
        """At least once (reliability G1): closing finishes nothing."""
        log = await harness.make_log()
        topic = await harness.fresh_topic(log)
        group = fresh_group()
        await publish(log, topic, [text(str(n), "k") for n in range(3)])
        first = await log.subscribe(group, [topic], EARLIEST)
        assert bodies(await take(first, 3)) == [b"0", b"1", b"2"]
        await first.close()
        second = await log.subscribe(group, [topic], EARLIEST)
        assert bodies(await take(second, 3)) == [b"0", b"1", b"2"]
        await second.close()
        await log.stop()

    async def test_only_open_ones_repeat_after_settling_out_of_order(
        self, harness: Harness
    ) -> None:
        """Finished ranges ride in the commit's metadata and survive a restart (rule 2)."""
        log = await harness.make_log()
        topic = await harness.fresh_topic(log, partitions=1)
        group = fresh_group()
        await publish(log, topic, [text(str(n)) for n in range(6)])
        consumer = await log.subscribe(group, [topic], EARLIEST)
        messages = await take(consumer, 6)
        await consumer.settle([messages[n] for n in (4, 1, 3)])
        await consumer.close()
        await log.stop()
        log = await harness.make_log()
        consumer = await log.subscribe(group, [topic], LATEST)
        assert bodies(await take(consumer, 3)) == [b"0", b"2", b"5"]
        await nothing_comes(consumer)
        await consumer.close()
        await log.stop()

    async def test_settling_twice_is_settling_once(self, harness: Harness) -> None:
        """Settle is idempotent: a worker may not know whether it got through."""
        log = await harness.make_log()
        topic = await harness.fresh_topic(log, partitions=1)
        group = fresh_group()
        await publish(log, topic, [text("a"), text("b")])
        consumer = await log.subscribe(group, [topic], EARLIEST)
        first, second = await take(consumer, 2)
        await consumer.settle([first])
        await consumer.settle([first, first])
        assert consumer.window(first.partition) == 1
        await consumer.close()
        again = await log.subscribe(group, [topic], EARLIEST)
        assert bodies(await take(again, 1)) == [second.record.body]
        await again.close()
        await log.stop()

    async def test_no_body_and_an_empty_body_are_told_apart(self, harness: Harness) -> None:
        """A tombstone is not an empty value (design: values)."""
        records = [Record(b"k", (), None), Record(b"k", (), b""), Record(b"k", (), b"x")]
        expected = [None if harness.capabilities.null_body else b"", b"", b"x"]
        assert bodies(await self._round_trip(harness, records)) == expected

    async def test_headers_keep_order_repeats_and_null_values(self, harness: Harness) -> None:
        """A bridge forwards what it does not know: repeats and nulls too."""
        null = None if harness.capabilities.null_headers else b""
        headers = (("a", b"1"), ("b", b""), ("a", b"2"), ("c", null), ("a", b"1"))
        (message,) = await self._round_trip(harness, [Record(b"k", headers, b"x")])
        assert message.record.headers == headers

    async def test_bytes_that_are_no_text_survive(self, harness: Harness) -> None:
        """Keys, values and bodies are bytes, never assumed to be UTF-8."""
        key = b"\xff\x00\x80" if harness.capabilities.binary_keys else b"key"
        record = Record(key, (("raw", b"\x00\xfe\xff"),), bytes(range(256)))
        (message,) = await self._round_trip(harness, [record])
        assert message.record == record

    async def test_text_beyond_ascii_survives(self, harness: Harness) -> None:
        """Attribute values are Unicode (core 1.3)."""
        value = "Grüße, 世界 🌍".encode()
        record = Record(value, (("ce_subject", value), ("ce_größe", b"1")), value)
        (message,) = await self._round_trip(harness, [record])
        assert message.record == record

    async def test_a_key_can_be_missing_or_empty(self, harness: Harness) -> None:
        """No key and an empty key are different keys."""
        records = [Record(None, (), b"none"), Record(b"", (), b"empty")]
        messages = await self._round_trip(harness, records)
        assert {m.record.body: m.record.key for m in messages} == {b"none": None, b"empty": b""}

    async def test_a_large_record_survives(self, harness: Harness) -> None:
        """900 kB is within every broker's default."""
        body = bytes(range(256)) * 3_600
        (message,) = await self._round_trip(harness, [Record(b"k", (), body)])
        assert message.record.body == body

    async def test_a_record_above_the_bound_is_refused_and_harms_no_neighbour(
        self, harness: Harness
    ) -> None:
        """Refused for good, with its kind, so that the sender is told 4xx or 5xx rightly."""
        bound = harness.capabilities.max_record
        assert bound, "a log says how large a record may be"
        log = await harness.make_log()
        topic = await harness.fresh_topic(log)
        (refusal,) = await log.submit(topic, [Record(b"k", (), bytes(bound + 1))])
        assert isinstance(refusal, BrokerRefused)
        assert refusal.kind == "record-too-large"
        await publish(log, topic, [text("next", "k")])
        await log.stop()

    async def test_two_groups_each_see_everything(self, harness: Harness) -> None:
        """One group a subscription: they do not share."""
        log = await harness.make_log()
        topic = await harness.fresh_topic(log)
        await publish(log, topic, [text(str(n), str(n)) for n in range(8)])
        for group in (fresh_group(), fresh_group()):
            consumer = await log.subscribe(group, [topic], EARLIEST)
            got = bodies(await take(consumer, 8))
            assert sorted(body or b"" for body in got) == [b"%d" % n for n in range(8)]
            await consumer.settle([])
            await consumer.close()
        await log.stop()

    async def test_a_group_can_read_several_topics(self, harness: Harness) -> None:
        """A subscription's source is a list of topics."""
        log = await harness.make_log()
        topics = [await harness.fresh_topic(log, 2), await harness.fresh_topic(log, 2)]
        for topic in topics:
            await publish(log, topic, [text(topic, "k")])
        consumer = await log.subscribe(fresh_group(), topics, EARLIEST)
        messages = await take(consumer, 2)
        assert {m.partition.topic for m in messages} == set(topics)
        await consumer.close()
        await log.stop()

    async def test_start_latest_sees_only_what_comes_after(self, harness: Harness) -> None:
        """Latest is resolved when the subscription is made, not at the first poll (rule 10)."""
        log = await harness.make_log()
        topic = await harness.fresh_topic(log)
        await publish(log, topic, [text("before", "k")])
        consumer = await log.subscribe(fresh_group(), [topic], LATEST)
        await assigned(consumer)
        await publish(log, topic, [text("after", "k")])
        assert bodies(await take(consumer, 1)) == [b"after"]
        await consumer.close()
        await log.stop()

    async def test_a_resolved_start_is_kept_by_a_group_that_settled_nothing(
        self, harness: Harness
    ) -> None:
        """The start is committed before the first hand-out: a restart may not move it (rule 10)."""
        log = await harness.make_log()
        topic = await harness.fresh_topic(log)
        group = fresh_group()
        await publish(log, topic, [text("before", "k")])
        consumer = await log.subscribe(group, [topic], LATEST)
        await assigned(consumer)
        await consumer.close()
        await publish(log, topic, [text("between", "k")])
        await log.stop()
        log = await harness.make_log()
        again = await log.subscribe(group, [topic], LATEST)
        assert bodies(await take(again, 1)) == [b"between"]
        await again.close()
        await log.stop()

    async def test_start_at_a_time_sees_what_was_stored_from_then_on(
        self, harness: Harness
    ) -> None:
        """Where the broker can seek by time."""
        if not harness.capabilities.seek_by_time:
            return
        log = await harness.make_log()
        topic = await harness.fresh_topic(log)
        await publish(log, topic, [text("before", "k")])
        before = time.time_ns() // 1_000_000
        await until(lambda: time.time_ns() // 1_000_000 > before + 5)
        await publish(log, topic, [text("after", "k")])
        start = StartAt("time", time_ms=before + 2)
        consumer = await log.subscribe(fresh_group(), [topic], start)
        assert bodies(await take(consumer, 1)) == [b"after"]
        await consumer.close()
        await log.stop()

    async def test_start_at_a_position_begins_with_that_record(self, harness: Harness) -> None:
        """For replay by hand: positions are those of receipts."""
        log = await harness.make_log()
        topic = await harness.fresh_topic(log, partitions=1)
        receipts = await publish(log, topic, [text(str(n)) for n in range(5)])
        start = StartAt("position", positions={0: receipts[3].position})
        consumer = await log.subscribe(fresh_group(), [topic], start)
        assert bodies(await take(consumer, 2)) == [b"3", b"4"]
        await consumer.close()
        await log.stop()

    async def test_a_start_outside_the_log_is_out_of_range(self, harness: Harness) -> None:
        """It stops and asks; it never guesses (rule 10)."""
        log = await harness.make_log()
        topic = await harness.fresh_topic(log, partitions=1)
        await publish(log, topic, [text("only")])
        start = StartAt("position", positions={0: "1000"})
        with pytest.raises(PositionOutOfRange):
            await self._subscribe_and_poll(log, topic, start)
        await log.stop()

    async def test_a_paused_partition_hands_out_nothing_and_others_go_on(
        self, harness: Harness
    ) -> None:
        """Back-pressure is per partition, and ownership is kept (rule 6)."""
        log = await harness.make_log()
        topic = await harness.fresh_topic(log, partitions=2)
        consumer = await log.subscribe(fresh_group(), [topic], EARLIEST)
        await assigned(consumer)
        keys = {partition_of(b"%d" % n, 2): str(n) for n in range(20)}
        consumer.pause([Partition(topic, 0)])
        await publish(log, topic, [text("zero", keys[0]), text("one", keys[1])])
        assert bodies(await take(consumer, 1)) == [b"one"]
        await nothing_comes(consumer)
        consumer.resume([Partition(topic, 0)])
        assert bodies(await take(consumer, 1)) == [b"zero"]
        await consumer.close()
        await log.stop()

    async def test_a_message_is_held_until_its_partition_is_given_up(
        self, harness: Harness
    ) -> None:
        """Asked before each attempt, of no server: who lost a partition must not send (rule 5)."""
        log = await harness.make_log()
        topic = await harness.fresh_topic(log, partitions=1)
        await publish(log, topic, [text("x")])
        consumer = await log.subscribe(fresh_group(), [topic], EARLIEST)
        (message,) = await take(consumer, 1)
        assert consumer.holds(message)
        await consumer.close()
        assert not consumer.holds(message)
        await log.stop()

    async def test_the_window_grows_with_taking_and_shrinks_with_settling(
        self, harness: Harness
    ) -> None:
        """Distance from the commit position to the newest taken one (rule 4)."""
        log = await harness.make_log()
        topic = await harness.fresh_topic(log, partitions=1)
        await publish(log, topic, [text(str(n)) for n in range(4)])
        consumer = await log.subscribe(fresh_group(), [topic], EARLIEST)
        messages = await take(consumer, 4)
        place = messages[0].partition
        assert consumer.window(place) == 4
        await consumer.settle([messages[1]])
        assert consumer.window(place) == 4, "the first is still open"
        await consumer.settle([messages[0]])
        assert consumer.window(place) == 2
        await consumer.settle(messages)
        assert consumer.window(place) == 0
        await consumer.close()
        await log.stop()

    async def test_reading_without_a_group_ends_where_it_was_told(self, harness: Harness) -> None:
        """For peek, tail, replay and pull; it moves nobody's position."""
        if not harness.capabilities.replayable:
            return
        log = await harness.make_log()
        topic = await harness.fresh_topic(log, partitions=1)
        receipts = await publish(log, topic, [text(str(n)) for n in range(6)])
        place = Partition(topic, 0)
        some = log.read(place, receipts[1].position, receipts[4].position)
        assert bodies([message async for message in some]) == [b"1", b"2", b"3"]
        rest = log.read(place, receipts[4].position)
        assert bodies([message async for message in rest]) == [b"4", b"5"]
        await log.stop()

    async def test_reading_outside_the_log_is_out_of_range(self, harness: Harness) -> None:
        """Neither a missing partition nor a missing position is quietly empty."""
        log = await harness.make_log()
        topic = await harness.fresh_topic(log, partitions=1)
        await publish(log, topic, [text("only")])
        for place, position in ((Partition(topic, 0), "77"), (Partition(topic, 9), "0")):
            with pytest.raises(PositionOutOfRange):
                async for _ in log.read(place, position):
                    pass
        await log.stop()

    async def test_metadata_tells_partitions_and_their_ends(self, harness: Harness) -> None:
        """The protocol guide's Metadata and Offset answers."""
        log = await harness.make_log()
        topic = await harness.fresh_topic(log, partitions=3)
        receipts = await publish(log, topic, [text(str(n), "k") for n in range(5)])
        (found,) = (await log.metadata([topic])).topics
        assert [p.number for p in found.partitions] == [0, 1, 2]
        assert all(p.leader is not None and p.isr for p in found.partitions)
        ends = found.partitions[receipts[0].partition]
        assert ends.earliest == receipts[0].position
        assert int(ends.latest) == int(receipts[-1].position) + 1
        assert topic in {t.name for t in (await log.metadata()).topics}
        await log.stop()

    async def test_lag_counts_down_to_zero(self, harness: Harness) -> None:
        """What an operator watches."""
        log = await harness.make_log()
        topic = await harness.fresh_topic(log, partitions=2)
        group = fresh_group()
        consumer = await log.subscribe(group, [topic], EARLIEST)
        await assigned(consumer)
        await publish(log, topic, [text(str(n), str(n)) for n in range(10)])
        messages = await take(consumer, 10)
        assert await self._lag(log, topic, group) == 10
        by_place = sorted(messages, key=lambda m: (m.partition.number, m.offset))
        await consumer.settle(by_place[:4])
        await consumer.commit()
        assert await self._lag(log, topic, group) == 6
        await consumer.settle(messages)
        await consumer.commit()
        assert await self._lag(log, topic, group) == 0
        await consumer.close()
        await log.stop()

    async def test_creating_a_topic_twice_is_no_error(self, harness: Harness) -> None:
        """Start-up creates what it needs, whoever was first."""
        log = await harness.make_log()
        topic = await harness.fresh_topic(log, partitions=2)
        await log.create_topic(topic, 2)
        (found,) = (await log.metadata([topic])).topics
        assert len(found.partitions) == 2
        await log.stop()

    async def test_a_key_lands_where_kafkas_java_client_puts_it(self, harness: Harness) -> None:
        """Whoever writes a key, it lands in the same partition (design: partition)."""
        log = await harness.make_log()
        topic = await harness.fresh_topic(log, partitions=7)
        for key, positive_hash in JAVA_HASHES.items():
            (receipt,) = await publish(log, topic, [Record(key, (), b"x")])
            assert receipt.partition == positive_hash % 7
        await log.stop()

    async def test_records_without_a_key_spread(self, harness: Harness) -> None:
        """A keyless record goes anywhere; all of them in one place would be a hot spot."""
        log = await harness.make_log()
        topic = await harness.fresh_topic(log, partitions=3)
        used: set[int] = set()
        for _ in range(40):
            receipts = await publish(log, topic, [text("x") for _ in range(50)])
            used |= {receipt.partition for receipt in receipts}
            if len(used) == 3:
                break
        assert used == {0, 1, 2}
        await log.stop()

    async def test_a_full_bound_is_answered_with_when_to_come_back(self, harness: Harness) -> None:
        """503 with Retry-After, never memory that grows (rule 8)."""
        log = await harness.make_log(bounds=Bounds(records=2, retry_after=3.0))
        topic = await harness.fresh_topic(log)
        results = await log.submit(topic, [text(str(n)) for n in range(3)])
        assert all(isinstance(result, BoundReached) for result in results)
        assert {r.retry_after for r in results if isinstance(r, BrokerError)} == {3.0}
        await publish(log, topic, [text("a"), text("b")])
        assert log.stats().records_in_flight == 0
        await log.stop()

    async def test_health_is_true_while_running_and_false_after_stop(
        self, harness: Harness
    ) -> None:
        """Readiness is drawn from it."""
        log = await harness.make_log()
        assert (await log.health()).healthy
        await log.stop()
        health = await log.health()
        assert not health.healthy
        assert health.cause
        (result,) = await log.submit("anything", [text("x")])
        assert isinstance(result, BrokerUnavailable)

    async def test_it_heals_when_the_broker_comes_back(self, harness: Harness) -> None:
        """An outage is seen, and ends by itself (reliability R20)."""
        if not harness.can_go_away:
            return
        log = await harness.make_log(bounds=Bounds(publish_timeout=1.0))
        topic = await harness.fresh_topic(log)
        await harness.take_away()
        (result,) = await log.submit(topic, [text("lost", "k")])
        assert isinstance(result, BrokerUnavailable)
        await self._health_becomes(log, expected=False)
        await harness.bring_back()
        await self._health_becomes(log, expected=True)
        await publish(log, topic, [text("stored", "k")])
        await log.stop()

    async def test_closing_and_cancelling_leave_no_task_behind(self, harness: Harness) -> None:
        """A leak of one task a subscription ends a long-running process (reliability R17)."""
        before = asyncio.all_tasks()
        log = await harness.make_log()
        topic = await harness.fresh_topic(log)
        consumer = await log.subscribe(fresh_group(), [topic], EARLIEST)
        await assigned(consumer)
        polling = asyncio.create_task(consumer.poll(30.0))
        await asyncio.sleep(0)
        polling.cancel()
        with pytest.raises(asyncio.CancelledError):
            await polling
        abandoned = log.submit(topic, [text("x")])
        abandoned.cancel()
        await consumer.close()
        await consumer.close()
        await log.stop()
        await log.stop()
        await until(lambda: asyncio.all_tasks() <= before)
        assert log.stats().records_in_flight == 0

    async def test_closing_ends_a_poll_that_waits(self, harness: Harness) -> None:
        """Shutdown must not wait for the next message."""
        log = await harness.make_log()
        topic = await harness.fresh_topic(log)
        consumer = await log.subscribe(fresh_group(), [topic], EARLIEST)
        await assigned(consumer)
        polling = asyncio.create_task(consumer.poll(60.0))
        await asyncio.sleep(0)
        await consumer.close()
        assert not isinstance(await asyncio.wait_for(polling, PATIENCE), tuple)
        await log.stop()

    async def _round_trip(self, harness: Harness, records: Sequence[Record]) -> list[Message]:
        log = await harness.make_log()
        topic = await harness.fresh_topic(log, partitions=1)
        await publish(log, topic, records)
        consumer = await log.subscribe(fresh_group(), [topic], EARLIEST)
        messages = await take(consumer, len(records))
        await consumer.close()
        await log.stop()
        return messages

    async def _subscribe_and_poll(self, log: PortableLog, topic: str, start: StartAt) -> None:
        consumer = await log.subscribe(fresh_group(), [topic], start)
        try:
            await take(consumer, 1, within=5.0)
        finally:
            await consumer.close()

    async def _lag(self, log: PortableLog, topic: str, group: str) -> int:
        metadata = await log.metadata([topic], [group])
        lags = [entry.lag for entry in metadata.groups if entry.topic == topic]
        assert lags
        assert all(lag is not None for lag in lags)
        return sum(lag or 0 for lag in lags)

    async def _health_becomes(self, log: PortableLog, *, expected: bool) -> None:
        deadline = time.monotonic() + PATIENCE
        while (await log.health()).healthy is not expected:
            assert time.monotonic() < deadline, f"health did not become {expected}"
            await asyncio.sleep(0.05)
