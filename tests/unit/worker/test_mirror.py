"""A subscription whose sink is a topic: rules 2 to 7 as for webhooks, with a broker at the other end."""

from __future__ import annotations

import asyncio

import pytest

from app.bindings import kafka
from app.bindings.record import Record
from app.errors import BrokerRefused, BrokerUnavailable, PublishUnknown, UnclearRefusal
from app.model.message import Partition
from app.sinks.topic import TopicSink
from fake_log import FakeLog
from waiting import until
from worker_doubles import a_subscription, an_event

AWAY = BrokerUnavailable("nobody there")
COPY = Partition("copy", 0)
NO_EVENT = Record(b"k", (("a", b"1"),), b"no event")


class SlowLog(FakeLog):
    """Answers a submit when the test says so; the records are stored by then, and not before."""

    def __init__(self) -> None:
        super().__init__("target")
        self.open: list[tuple[asyncio.Future, str, tuple[Record, ...]]] = []

    def submit(self, topic, records):
        self.open.append((asyncio.get_running_loop().create_future(), topic, tuple(records)))
        return self.open[-1][0]

    async def answer(self):
        future, topic, records = self.open.pop(0)
        future.set_result(await super().submit(topic, records))


@pytest.fixture
def mirror(rig):
    """Begins a mirror from ``orders`` to ``copy``, on a log of its own."""

    async def begin(target=None, **settings):
        rig.target = target or FakeLog("target")
        await rig.target.create_topic("copy", 1)
        whole = {"sink": {"broker": "target", "topic": "copy"}, **settings}
        subscription = a_subscription(**whole)
        rig.sink = TopicSink(subscription.sink, subscription, rig.target, "kafka")
        await rig.begin(**whole)

    return begin


def copied(rig):
    return [record for record, _ in rig.target.partitions[COPY]]


def ids(rig):
    return [int(kafka.decode(record).event.attributes["id"]) for record in copied(rig)]


async def test_what_is_in_the_source_is_in_the_target(rig, mirror):
    """Same records, keys and order; the status names the place."""
    records = [an_event(n, f"k{n % 3}") for n in range(30)]
    await rig.publish(*records)
    await mirror()
    await rig.committed(30)
    for key in (b"k0", b"k1", b"k2"):
        assert [each for each in copied(rig) if each.key == key] == [
            each for each in records if each.key == key
        ]
    assert rig.status.sink == "target/copy"


async def test_nothing_is_settled_before_the_receipt(rig, mirror):
    """Rule 2: the target's acknowledgement finishes a message, and nothing less."""
    await rig.publish(an_event(1))
    await mirror(target := SlowLog())
    await until(lambda: target.open)
    assert rig.log.committed("skybridge.test.billing", Partition("orders", 0)) == 0
    await target.answer()
    await rig.committed(1)


async def test_one_of_a_key_is_on_its_way_at_a_time(rig, mirror):
    """Rule 3: one that failed is never overtaken by a later one of its key."""
    await rig.publish(an_event(0, "a"), an_event(1, "a"), an_event(2, "b"))
    await mirror(target := SlowLog())
    await until(lambda: len(target.open) == 2)
    assert [kafka.decode(records[0]).event.attributes["id"] for _, _, records in target.open] == [
        "0",
        "2",
    ]
    await target.answer()
    await until(lambda: len(target.open) == 2)
    await target.answer()
    await target.answer()
    await rig.committed(3)


async def test_a_broker_that_is_away_pauses_the_subscription_at_once(rig, mirror):
    """Rule 6: the source is the buffer; one key or many, no event's schedule moves for it."""
    await rig.publish(*[an_event(n, "one") for n in range(5)])
    target = FakeLog("target")
    target.refusals.extend([AWAY] * 40)
    await mirror(target, retry={"schedule": ["1s"]})
    await rig.state("paused")
    assert "status-503" in rig.status.cause
    for _ in range(45):
        await rig.clock.advance(1.0)
    await rig.committed(5)
    assert ids(rig) == [0, 1, 2, 3, 4]
    assert rig.store.letters.rows == []


async def test_an_unknown_outcome_is_tried_again_in_place(rig, mirror):
    """It may be stored twice, and stays before the next of its key."""
    await rig.publish(an_event(0), an_event(1))
    target = FakeLog("target")
    target.refusals.append(PublishUnknown("late"))
    await mirror(target, retry={"schedule": ["1s"]})
    await until(lambda: rig.status.waiting == 1)
    await rig.clock.advance(1.0)
    await rig.committed(2)
    assert ids(rig) == [0, 1]


async def test_a_record_that_is_too_large_is_a_dead_letter_and_the_next_proceeds(rig, mirror):
    await rig.publish(an_event(0), an_event(1))
    target = FakeLog("target")
    target.refusals.append(BrokerRefused("too large", kind="record-too-large"))
    await mirror(target)
    await rig.committed(2)
    (letter,) = rig.store.letters.rows
    assert (letter.cause, letter.status, ids(rig)) == ("status-413", 413, [1])


@pytest.mark.parametrize("kind", ["rejected", "unwritable", "not-capable"])
async def test_a_record_that_its_topic_refuses_for_good_is_a_dead_letter_at_once(rig, mirror, kind):
    """Such as one without a key for a compacted topic: the position would else stand still for ever."""
    await rig.publish(an_event(0), an_event(1))
    target = FakeLog("target")
    target.refusals.append(BrokerRefused("no key", kind=kind))
    await mirror(target)
    await rig.committed(2)
    (letter,) = rig.store.letters.rows
    assert (letter.cause, letter.attempts, ids(rig)) == ("status-422", 1, [1])


async def test_an_unclear_refusal_holds_its_key_alone(rig, mirror):
    """The others are published, which tells whether the topic takes any."""
    await rig.publish(an_event(0, "a"), an_event(1, "b"), an_event(2, "c"))
    target = FakeLog("target")
    target.refusals.append(UnclearRefusal("error code 131"))
    await mirror(target, retry={"schedule": ["1s"]})
    await until(lambda: ids(rig) == [1, 2])
    target.refusals.append(BrokerRefused("error code 131", kind="rejected"))
    await rig.clock.advance(1.0)
    await rig.committed(3)
    (letter,) = rig.store.letters.rows
    assert (letter.cause, letter.attempts) == ("status-422", 2)


async def test_a_missing_right_is_retried(rig, mirror):
    """It is missing for every event: a mirror must not be emptied into dead letters by it."""
    await rig.publish(an_event(0))
    target = FakeLog("target")
    target.refusals.append(BrokerRefused("no", kind="not-authorised"))
    await mirror(target, retry={"schedule": ["1s"]})
    await until(lambda: rig.status.waiting == 1)
    await rig.clock.advance(1.0)
    await rig.committed(1)
    assert rig.store.letters.rows == []


@pytest.mark.parametrize(
    ("on_foreign", "copies", "letters"),
    [("forward", [NO_EVENT], 0), ("skip", [], 0), ("dead_letter", [], 1)],
)
async def test_a_record_that_is_no_event_is_copied_if_asked(
    rig, mirror, on_foreign, copies, letters
):
    """Whoever mirrors a topic may want all of it, byte for byte; filters speak of events."""
    await rig.publish(NO_EVENT)
    await mirror(on_foreign=on_foreign, filters=[{"exact": {"type": "other"}}])
    await rig.committed(1)
    assert (copied(rig), len(rig.store.letters.rows)) == (copies, letters)


async def test_copies_keep_their_place_among_the_events_of_their_key(rig, mirror):
    await rig.publish(an_event(0), NO_EVENT, an_event(1))
    await mirror(on_foreign="forward")
    await rig.committed(3)
    assert [record.body for record in copied(rig)] == [b"0", b"no event", b"1"]


async def test_filters_hold_for_a_mirror(rig, mirror):
    await rig.publish(an_event(0, type="a"), an_event(1, type="b"))
    await mirror(filters=[{"exact": {"type": "b"}}])
    await rig.committed(2)
    assert ids(rig) == [1]
