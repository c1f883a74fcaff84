"""Cases of the broker contract on groups: members share partitions, and only unfinished messages
are repeated.
"""

from __future__ import annotations

from app.brokers.portable import PortableLog
from app.model.message import Assigned, Partition, Revoked
from app.model.start import EARLIEST, LATEST
from app.routing.partitions import partition_of
from contract_tools import (
    Harness,
    Member,
    bodies,
    close_all,
    fresh_group,
    lacks,
    nothing_comes,
    publish,
    take,
    text,
    until_owned,
)
from waiting import until


class GroupCases:
    """Test cases of groups and their partitions. A base of ``BrokerContract``."""

    async def test_members_share_partitions_and_a_third_moves_some(
        self, harness: Harness, log: PortableLog
    ) -> None:
        """A member that leaves gives its partitions back at once. Other members need not wait for
        the end of its session."""
        topic = await harness.fresh_topic(log, partitions=6)
        group = fresh_group()
        everything = {Partition(topic, number) for number in range(6)}
        members: list[Member] = []
        for count in (1, 2, 3):
            members.append(Member(await log.subscribe(group, [topic], EARLIEST)))
            share = 6 // count
            await until(
                lambda share=share: (
                    [len(m.owned) for m in members] == [share] * len(members)
                    and set().union(*(m.owned for m in members)) == everything
                )
            )
        assert any(isinstance(change, Revoked) for change in members[0].changes)
        epochs = [change.epoch for change in members[0].changes if isinstance(change, Assigned)]
        assert epochs == sorted(set(epochs)), "each ownership is newer than the last"
        given = [
            (partition, change.epoch)
            for member in members
            for change in member.changes
            if isinstance(change, Assigned)
            for partition in change.partitions
        ]
        assert len(given) == len(set(given)), "two owners never have the same epoch"
        await publish(log, topic, [text(str(n), f"key-{n}") for n in range(60)])
        await until(lambda: sum(len(m.messages) for m in members) >= 60)
        assert sum(len(m.messages) for m in members) == 60
        assert all(member.messages for member in members)
        await close_all(members)

    async def test_a_leaving_member_gives_its_partitions_back(
        self, harness: Harness, log: PortableLog
    ) -> None:
        """Closing a member frees its partitions at once, without waiting for the end of its
        session.
        """
        topic = await harness.fresh_topic(log, partitions=2)
        group = fresh_group()
        stays = Member(await log.subscribe(group, [topic], EARLIEST))
        leaves = Member(await log.subscribe(group, [topic], EARLIEST))
        await until(lambda: len(stays.owned) == len(leaves.owned) == 1)
        await leaves.close()
        await until(lambda: len(stays.owned) == 2)
        await stays.close()

    async def test_what_was_not_settled_comes_again(
        self, harness: Harness, log: PortableLog
    ) -> None:
        """Messages that were not settled are delivered again after the consumer is closed: delivery
        is at least once."""
        topic = await harness.fresh_topic(log)
        group = fresh_group()
        await publish(log, topic, [text(str(n), "k") for n in range(3)])
        first = await log.subscribe(group, [topic], EARLIEST)
        assert bodies(await take(first, 3)) == [b"0", b"1", b"2"]
        await first.close()
        second = await log.subscribe(group, [topic], EARLIEST)
        assert bodies(await take(second, 3)) == [b"0", b"1", b"2"]
        await second.close()

    async def test_only_open_ones_repeat_after_settling_out_of_order(
        self, harness: Harness
    ) -> None:
        """A restart repeats only unfinished messages, because the commit's metadata has the
        finished ranges."""
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

    async def test_settling_twice_is_settling_once(
        self, harness: Harness, log: PortableLog
    ) -> None:
        """A message that is settled twice counts once. A worker may repeat a request of which it
        does not know the result."""
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

    async def test_two_groups_each_see_everything(self, harness: Harness, log: PortableLog) -> None:
        """Two groups each receive all messages, because every subscription has its own group."""
        if lacks(harness, "own_groups"):
            return
        topic = await harness.fresh_topic(log)
        await publish(log, topic, [text(str(n), str(n)) for n in range(8)])
        for group in (fresh_group(), fresh_group()):
            consumer = await log.subscribe(group, [topic], EARLIEST)
            got = bodies(await take(consumer, 8))
            assert sorted(body or b"" for body in got) == [b"%d" % n for n in range(8)]
            await consumer.settle([])
            await consumer.close()

    async def test_a_group_can_read_several_topics(
        self, harness: Harness, log: PortableLog
    ) -> None:
        """A group can read several topics, because a subscription may name a list of topics."""
        topics = [await harness.fresh_topic(log, 2), await harness.fresh_topic(log, 2)]
        for topic in topics:
            await publish(log, topic, [text(topic, "k")])
        consumer = await log.subscribe(fresh_group(), topics, EARLIEST)
        messages = await take(consumer, 2)
        assert {m.partition.topic for m in messages} == set(topics)
        await consumer.close()

    async def test_a_paused_partition_hands_out_nothing_and_others_go_on(
        self, harness: Harness, log: PortableLog
    ) -> None:
        """A paused partition hands out no messages and keeps its owner. Other partitions continue."""
        topic = await harness.fresh_topic(log, partitions=2)
        consumer = await log.subscribe(fresh_group(), [topic], EARLIEST)
        await until_owned(consumer, 2)
        keys = {partition_of(b"%d" % n, 2): str(n) for n in range(20)}
        consumer.pause([Partition(topic, 0)])
        await publish(log, topic, [text("zero", keys[0]), text("one", keys[1])])
        assert bodies(await take(consumer, 1)) == [b"one"]
        await nothing_comes(consumer)
        consumer.resume([Partition(topic, 0)])
        assert bodies(await take(consumer, 1)) == [b"zero"]
        await consumer.close()

    async def test_a_partition_is_not_paused_when_it_is_assigned(
        self, harness: Harness, log: PortableLog
    ) -> None:
        """A pause ends with the ownership. The caller pauses partitions that it does not own any more, because it has not
        polled their loss and their new assignment yet.
        """
        topic = await harness.fresh_topic(log, partitions=2)
        consumer = await log.subscribe(fresh_group(), [topic], EARLIEST)
        consumer.pause([Partition(topic, 0), Partition(topic, 1)])
        keys = {partition_of(b"%d" % n, 2): str(n) for n in range(20)}
        await publish(log, topic, [text("zero", keys[0]), text("one", keys[1])])
        assert sorted(bodies(await take(consumer, 2))) == [b"one", b"zero"]
        await consumer.close()

    async def test_a_message_is_held_until_its_partition_is_given_up(
        self, harness: Harness, log: PortableLog
    ) -> None:
        """A consumer holds a message until the partition of the message is given up. A worker
        checks this before each attempt, without asking the broker."""
        topic = await harness.fresh_topic(log, partitions=1)
        await publish(log, topic, [text("x")])
        consumer = await log.subscribe(fresh_group(), [topic], EARLIEST)
        (message,) = await take(consumer, 1)
        assert consumer.holds(message)
        await consumer.close()
        assert not consumer.holds(message)

    async def test_the_window_grows_with_taking_and_shrinks_with_settling(
        self, harness: Harness, log: PortableLog
    ) -> None:
        """The window is the distance from the committed position to the newest message that was
        taken.
        """
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
