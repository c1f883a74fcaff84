"""Cases of the broker contract on topics that Skybridge or other clients create. They do not run on the embedded
log, which creates each topic by its first event."""

from __future__ import annotations

import asyncio
from typing import Any, Protocol
from uuid import uuid4

import pytest

from app.brokers.portable import PortableLog
from app.errors import BrokerRefused, PositionOutOfRange
from app.model.message import Message, Partition
from app.model.start import EARLIEST, LATEST
from app.routing.partitions import partition_of
from contract_tools import AT_ONCE, PATIENCE, assigned, fresh_group, publish, text, until_owned


class Cluster(Protocol):
    """A harness whose logs take settings of their driver."""

    async def make_log(self, **settings: Any) -> PortableLog: ...
    async def fresh_topic(self, log: PortableLog, partitions: int = 4) -> str: ...


class CreatedTopicCases:
    """Test cases of topics that Skybridge creates."""

    async def test_topics_are_made_where_the_settings_say_so(self, harness: Cluster) -> None:
        """Publishers and subscribers create a missing topic with the configured count of
        partitions.
        """
        log = await harness.make_log(create_topics=True, partitions=3)
        published, subscribed = (f"made-{uuid4().hex[:12]}" for _ in range(2))
        await publish(log, published, [text("x") for _ in range(10)])
        consumer = await log.subscribe(fresh_group(), [subscribed], EARLIEST)
        await until_owned(consumer, 3)
        found = (await log.metadata([published, subscribed])).topics
        assert [len(topic.partitions) for topic in found] == [3, 3]
        await consumer.close()

    async def test_asking_creates_nothing(self, harness: Cluster) -> None:
        """Metadata and positions of a missing topic create no topic, although the settings let publishers create it."""
        log = await harness.make_log(create_topics=True)
        missing, group = f"asked-{uuid4().hex[:12]}", fresh_group()
        for _ in range(2):
            found = await log.metadata([missing], {group: [missing]})
            assert (found.topics, found.groups) == ((), ())
            if log.capabilities.seek_by_time:
                with pytest.raises(PositionOutOfRange):
                    await log.position_at(Partition(missing, 0), 0)


class ForeignTopicCases(CreatedTopicCases):
    """Test cases of topics that clients other than Skybridge create."""

    async def add_partitions(self, harness: Any, topic: str, count: int) -> None:
        """Raise the count of partitions of a topic to ``count`` by the broker's own tools."""
        raise NotImplementedError

    async def test_a_topic_that_is_not_there_is_refused_at_once(
        self, harness: Cluster, log: PortableLog
    ) -> None:
        """A missing topic is refused at once, before the publish time-out, and is not created."""
        began = asyncio.get_running_loop().time()
        (result,) = await log.submit("no-such-topic", [text("x")])
        assert isinstance(result, BrokerRefused)
        assert result.kind == "unknown-topic"
        with pytest.raises(BrokerRefused) as refused:
            await log.subscribe(fresh_group(), ["no-such-topic"], EARLIEST)
        assert refused.value.kind == "unknown-topic"
        assert asyncio.get_running_loop().time() - began < AT_ONCE
        assert "no-such-topic" not in {t.name for t in (await log.metadata()).topics}

    async def test_a_partition_added_later_is_written_and_read_from_its_start(
        self, harness: Cluster
    ) -> None:
        """A consumer reads a new partition from its start, so that early records are not skipped."""
        log = await harness.make_log(metadata_age=0.5)
        topic = await harness.fresh_topic(log, 1)
        consumer = await log.subscribe(fresh_group(), [topic], LATEST)
        await assigned(consumer)
        await publish(log, topic, [text("known", "k")])
        await self.add_partitions(harness, topic, 2)
        key = next(str(n) for n in range(100) if partition_of(b"%d" % n, 2) == 1)
        places: set[int] = set()
        async with asyncio.timeout(PATIENCE):
            while 1 not in places:
                (receipt,) = await publish(log, topic, [text("early", key)])
                places.add(receipt.partition)
                await asyncio.sleep(0.02)
        added: list[Message] = []
        async with asyncio.timeout(PATIENCE):
            while not added:
                event = await consumer.poll(0.2)
                found = event if isinstance(event, tuple) else ()
                added += [message for message in found if message.partition.number == 1]
        assert (added[0].position, added[0].record.body) == (receipt.position, b"early")
        await consumer.close()
