"""Where a group starts, what is read without one, and what is told about both."""

from __future__ import annotations

import time

import pytest

from app.brokers.portable import PortableLog
from app.errors import (
    PositionOutOfRange,
)
from app.model.message import Partition
from app.model.start import EARLIEST, LATEST, StartAt
from contract_tools import (
    Harness,
    assigned,
    bodies,
    fresh_group,
    publish,
    take,
    text,
    until,
)


class PlaceCases:
    """Positions. Mixed into ``BrokerContract``."""

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
