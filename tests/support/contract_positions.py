"""Cases of the broker contract on positions: the start of a group, reads without a group, and
metadata.
"""

from __future__ import annotations

import time

import pytest

from app.brokers.portable import PortableLog
from app.errors import BrokerRefused, PositionOutOfRange, SkybridgeError
from app.model.message import Partition
from app.model.start import EARLIEST, LATEST, StartAt
from contract_tools import Harness, assigned, bodies, fresh_group, has, lacks, publish, take, text
from waiting import until


def _no_place(harness: Harness) -> type[SkybridgeError]:
    """Return the error for a missing position, or for any position on a log that cannot replay."""
    return PositionOutOfRange if has(harness, "replayable") else BrokerRefused


class PlaceCases:
    """Test cases of positions. A base of ``BrokerContract``."""

    async def test_start_latest_sees_only_what_comes_after(
        self, harness: Harness, log: PortableLog
    ) -> None:
        """A group that starts at ``latest`` gets only records that are stored after the subscription was made, even
        if they came before its first poll."""
        if lacks(harness, "own_groups"):
            return
        topic = await harness.fresh_topic(log)
        await publish(log, topic, [text("before", "k")])
        consumer = await log.subscribe(fresh_group(), [topic], LATEST)
        await assigned(consumer)
        await publish(log, topic, [text("after", "k")])
        assert bodies(await take(consumer, 1)) == [b"after"]
        await consumer.close()

    async def test_a_resolved_start_is_kept_by_a_group_that_settled_nothing(
        self, harness: Harness
    ) -> None:
        """A group keeps its resolved start even if it settled nothing. The start is committed before the first
        message is handed out."""
        if lacks(harness, "own_groups"):
            return
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
        self, harness: Harness, log: PortableLog
    ) -> None:
        """A group that starts at a time reads the records stored since. Only for brokers that can
        seek by time.
        """
        if lacks(harness, "seek_by_time"):
            return
        topic = await harness.fresh_topic(log)
        await publish(log, topic, [text("before", "k")])
        between = await self._a_moment(harness)
        await publish(log, topic, [text("after", "k")])
        start = StartAt("time", time_ms=between)
        consumer = await log.subscribe(fresh_group(), [topic], start)
        assert bodies(await take(consumer, 1)) == [b"after"]
        await consumer.close()

    async def test_start_at_a_position_begins_with_that_record(
        self, harness: Harness, log: PortableLog
    ) -> None:
        """A replay can start at a position from a receipt or a reader, and begins with this
        record.
        """
        if lacks(harness, "replayable"):
            return
        topic = await harness.fresh_topic(log, partitions=1)
        places = await self._published(harness, log, topic, 5)
        start = StartAt("position", positions={0: places[3]})
        consumer = await log.subscribe(fresh_group(), [topic], start)
        assert bodies(await take(consumer, 2)) == [b"3", b"4"]
        await consumer.close()

    async def test_a_start_outside_the_log_is_out_of_range(
        self, harness: Harness, log: PortableLog
    ) -> None:
        """A start outside the log raises an error and is never guessed. A log that cannot replay
        refuses all positions.
        """
        topic = await harness.fresh_topic(log, partitions=1)
        await publish(log, topic, [text("only")])
        start = StartAt("position", positions={0: harness.outside})
        with pytest.raises(_no_place(harness)):
            await self._subscribe_and_poll(log, topic, start)

    async def test_reading_without_a_group_ends_where_it_was_told(
        self, harness: Harness, log: PortableLog
    ) -> None:
        """Reads for peek, tail, replay and pull end at the given position and move no group."""
        if lacks(harness, "replayable"):
            return
        topic = await harness.fresh_topic(log, partitions=1)
        places = await self._published(harness, log, topic, 6)
        place = Partition(topic, 0)
        some = log.read(place, places[1], places[4])
        assert bodies([message async for message in some]) == [b"1", b"2", b"3"]
        rest = log.read(place, places[4])
        assert bodies([message async for message in rest]) == [b"4", b"5"]

    async def test_reading_outside_the_log_is_out_of_range(
        self, harness: Harness, log: PortableLog
    ) -> None:
        """A read from a missing partition or position raises an error, instead of being empty."""
        topic = await harness.fresh_topic(log, partitions=1)
        (receipt,) = await publish(log, topic, [text("only")])
        outside = ((Partition(topic, 0), harness.outside), (Partition(topic, 9), receipt.position))
        for place, position in outside:
            with pytest.raises(_no_place(harness)):
                async for _ in log.read(place, position):
                    pass

    async def test_a_position_is_found_by_time(self, harness: Harness, log: PortableLog) -> None:
        """A time gives the position of the first record stored at or after it, or the end of the
        partition.
        """
        if lacks(harness, "seek_by_time"):
            return
        topic = await harness.fresh_topic(log, partitions=1)
        place = Partition(topic, 0)
        await publish(log, topic, [text("before")])
        between = await self._a_moment(harness)
        await publish(log, topic, [text("after")])
        first, second = await self._everything(log, place)
        assert await log.position_at(place, 0) == first
        assert await log.position_at(place, between) == second
        (found,) = (await log.metadata([topic])).topics
        later = (time.time_ns() // 1_000_000) + 60_000
        assert await log.position_at(place, later) == found.partitions[0].latest

    async def test_a_position_is_found_from_the_end(
        self, harness: Harness, log: PortableLog
    ) -> None:
        """A position can be found by a count of records from the end. If the count is larger than the log, the
        earliest position is returned."""
        if lacks(harness, "replayable"):
            return
        topic = await harness.fresh_topic(log, partitions=1)
        place = Partition(topic, 0)
        for number in range(5):
            await publish(log, topic, [text(str(number))])
        places = await self._everything(log, place)
        assert await log.position_back(place, 2) == places[3]
        assert await log.position_back(place, 99) == places[0]
        (found,) = (await log.metadata([topic])).topics
        assert await log.position_back(place, 0) == found.partitions[0].latest

    async def test_a_log_without_a_past_says_that_it_has_none(
        self, harness: Harness, log: PortableLog
    ) -> None:
        """A log refuses an operation of which it is not capable with the kind ``not-capable``. It never gives a
        wrong answer."""
        topic = await harness.fresh_topic(log, partitions=1)
        if not has(harness, "seek_by_time"):
            with pytest.raises(BrokerRefused) as by_time:
                await log.position_at(Partition(topic, 0), 0)
            assert by_time.value.kind == "not-capable"
        if not has(harness, "replayable"):
            with pytest.raises(BrokerRefused) as from_end:
                await log.position_back(Partition(topic, 0), 1)
            assert from_end.value.kind == "not-capable"
            with pytest.raises(BrokerRefused) as reading:
                await anext(log.read(Partition(topic, 0), "0"))
            assert reading.value.kind == "not-capable"

    async def test_metadata_tells_partitions_and_their_ends(
        self, harness: Harness, log: PortableLog
    ) -> None:
        """Metadata has the partitions of a topic and their first and last positions, as the answers Metadata and
        Offset of the protocol guide need them."""
        topic = await harness.fresh_topic(log, partitions=3)
        receipts = await publish(log, topic, [text(str(n), "k") for n in range(5)])
        (found,) = (await log.metadata([topic])).topics
        assert [p.number for p in found.partitions] == [0, 1, 2]
        assert all(p.leader is not None and p.isr for p in found.partitions)
        ends = found.partitions[receipts[0].partition]
        if has(harness, "positions"):
            assert ends.earliest == receipts[0].position
            assert ends.latest == harness.after(receipts[-1].position)
        else:
            assert int(ends.latest) - int(ends.earliest) == 5
        assert topic in {t.name for t in (await log.metadata()).topics}

    async def test_lag_counts_down_to_zero(self, harness: Harness, log: PortableLog) -> None:
        """The lag of a group falls with each commit, down to zero."""
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

    async def test_creating_a_topic_twice_is_no_error(
        self, harness: Harness, log: PortableLog
    ) -> None:
        """Creating a topic that exists is no error, because several processes may create it at start-up."""
        topic = await harness.fresh_topic(log, partitions=2)
        await log.create_topic(topic, 2)
        (found,) = (await log.metadata([topic])).topics
        assert len(found.partitions) == 2

    async def _published(
        self, harness: Harness, log: PortableLog, topic: str, count: int
    ) -> list[str]:
        """Publish numbered records to the only partition of a topic and return their positions.

        The positions of receipts must equal those that a reader sees.
        """
        receipts = await publish(log, topic, [text(str(n)) for n in range(count)])
        places = await self._everything(log, Partition(topic, 0))
        if has(harness, "positions"):
            assert places == [receipt.position for receipt in receipts]
        return places

    async def _everything(self, log: PortableLog, place: Partition) -> list[str]:
        (found,) = (await log.metadata([place.topic])).topics
        earliest = found.partitions[place.number].earliest
        assert earliest is not None
        return [message.position async for message in log.read(place, earliest)]

    async def _a_moment(self, harness: Harness) -> int:
        """Wait until a time that is later than the times of all published records, as far as the log can
        distinguish times. Return this time in ms."""
        moment = time.time_ns() // 1_000_000 + 1 + harness.capabilities.time_grain
        await until(lambda: time.time_ns() // 1_000_000 > moment + 2)
        return moment

    async def _subscribe_and_poll(self, log: PortableLog, topic: str, start: StartAt) -> None:
        consumer = await log.subscribe(fresh_group(), [topic], start)
        try:
            await take(consumer, 1)
        finally:
            await consumer.close()

    async def _lag(self, log: PortableLog, topic: str, group: str) -> int:
        metadata = await log.metadata([topic], {group: [topic]})
        lags = [entry.lag for entry in metadata.groups if entry.topic == topic]
        assert lags
        assert all(lag is not None for lag in lags)
        return sum(lag or 0 for lag in lags)
