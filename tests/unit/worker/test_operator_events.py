"""Operator events: told without anybody waiting, counted, bounded, and never in a circle."""

from __future__ import annotations

import json

import pytest

from app.bindings.table import BINDINGS
from app.delivery.backoff import LONGEST_WAIT
from app.errors import BrokerRefused, BrokerUnavailable
from app.model.message import Partition
from app.model.route import Target
from app.telemetry import Counters
from app.worker import operator_events
from app.worker.operator_events import OperatorEvents
from fake_log import FakeLog
from virtual_clock import VirtualClock
from waiting import until

TOPIC = Target(broker="log", topic="operations")


class Rig:
    def __init__(self):
        self.log = FakeLog()
        self.clock = VirtualClock()
        self.counters = Counters()
        self.echoing = set()
        self.events = OperatorEvents(
            TOPIC,
            self.log,
            BINDINGS["embedded"],
            self.clock,
            self.counters,
            installation="shop",
            echoes=self.echoing.__contains__,
        )

    @property
    def told(self):
        """(type, subject, data) of what is in the topic, in order."""
        stored = self.log.partitions[Partition("operations", 0)]
        found = [BINDINGS["embedded"].decode(record).event for record, _ in stored]
        return [
            (each.type.rpartition(".")[2], each.attributes["subject"], json.loads(each.data))
            for each in found
        ]

    def counted(self, outcome):
        series = self.counters.values().get("operator_events", {})
        return sum(count for (_, found), count in series.items() if found == outcome)


@pytest.fixture
async def rig():
    rig = Rig()
    await rig.log.create_topic("operations", 1)
    await rig.events.start()
    yield rig
    if rig.events._task is not None and not rig.events._task.done():
        rig.events._task.cancel()


async def test_what_is_told_becomes_an_event_of_the_topic(rig):
    """The data has what was told, and which subscription it is about."""
    rig.events.notify("disabled", "billing", {"cause": "status-410"})
    await until(lambda: len(rig.told) == 1)
    data = {"subscription": "billing", "cause": "status-410"}
    assert rig.told == [("disabled", "billing", data)]
    assert rig.counted("published") == 1


async def test_dead_letters_of_one_cause_are_one_event_in_ten_seconds(rig):
    """A target that refuses everything must not fill the operators' topic."""
    for _ in range(500):
        rig.events.notify("dead-lettered", "billing", {"cause": "status-415"})
    rig.events.notify("dead-lettered", "billing", {"cause": "status-400"})
    await rig.clock.advance(operator_events.WINDOW)
    await until(lambda: len(rig.told) == 3)
    assert [(data["cause"], data["count"]) for _, _, data in rig.told] == [
        ("status-415", 1),
        ("status-400", 1),
        ("status-415", 499),
    ]


async def test_nothing_is_told_of_dead_letters_of_a_reader_of_the_topic(rig):
    """An event about it would be the next dead letter: a circle."""
    rig.echoing.add("pager")
    for kind in ("dead-lettered", "paused", "lagging"):
        rig.events.notify(kind, "pager", {"cause": "status-500"})
    rig.events.notify("disabled", "pager", {"cause": "status-410"})
    await until(lambda: rig.told)
    await rig.clock.advance(60)
    assert [word for word, _, _ in rig.told] == ["disabled"]


async def test_a_full_queue_drops_and_counts(rig):
    """Rule 8: the queue is bounded; deliveries never wait for it."""
    rig.log.refusals.append(BrokerUnavailable("away"))
    for number in range(operator_events.QUEUE + 7):
        rig.events.notify("lagging", f"s{number}", {})
    assert rig.counted("dropped") == 7
    await rig.clock.advance(LONGEST_WAIT)
    await until(lambda: rig.counted("published") == operator_events.QUEUE)


async def test_what_a_broker_may_take_later_is_sent_again_in_its_order(rig):
    """Away for a while is no reason to tell nothing."""
    rig.log.refusals.append(BrokerUnavailable("away"))
    rig.events.notify("disabled", "billing", {"cause": "status-410"})
    await rig.clock.rest()
    rig.events.notify("enabled", "billing", {})
    assert rig.told == []
    await rig.clock.advance(LONGEST_WAIT)
    await until(lambda: [word for word, _, _ in rig.told] == ["disabled", "enabled"])


async def test_what_a_broker_refuses_for_good_is_dropped_and_counted(rig):
    """It would be refused for ever, and all others would wait behind it."""
    rig.log.refusals.append(BrokerRefused("no such topic", kind="unknown-topic"))
    rig.events.notify("disabled", "billing", {})
    rig.events.notify("enabled", "billing", {})
    await until(lambda: [word for word, _, _ in rig.told] == ["enabled"])
    assert rig.counted("dropped") == 1
    assert rig.events.trouble in {"", "no such topic"}


async def test_a_stop_tells_what_was_counted_and_not_told_yet(rig):
    """A count that is never told is wrong."""
    for _ in range(3):
        rig.events.notify("dead-lettered", "billing", {"cause": "status-415"})
    await rig.events.stop(5.0)
    assert [data["count"] for _, _, data in rig.told] == [1, 2]


async def test_a_stop_does_not_wait_for_a_broker_that_is_away(rig):
    """Rule 11: a way out is bounded; what is left is counted as dropped."""
    rig.log.refusals.extend(BrokerUnavailable("away") for _ in range(10))
    rig.events.notify("disabled", "billing", {})
    await rig.clock.rest()
    await rig.events.stop(0.05)
    assert rig.counted("dropped") == 1
