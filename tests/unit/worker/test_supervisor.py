"""One dispatcher a subscription, kept running, and its state in sight."""

from __future__ import annotations

import asyncio
from itertools import pairwise

import pytest

from app.errors import BrokerUnavailable, PositionOutOfRange, SetupError, StaleOwner
from app.interfaces import SinkAnswer
from app.model.message import Partition
from app.model.start import start_at
from parking_steps import AT_ONCE, BUSY
from supervisor_rig import SupervisorRig
from waiting import until
from worker_doubles import ScriptedSink, a_subscription, an_event

ORDERS = Partition("orders", 0)


class House(SupervisorRig):
    def sink_for(self, subscription):
        return self.sinks.setdefault(subscription.id, ScriptedSink())


async def running_house():
    house = House(a_subscription())
    await house.begin()
    await house.running("billing")
    return house


async def test_each_subscription_gets_everything_in_a_group_of_its_own():
    house = House(a_subscription(id="billing"), a_subscription(id="audit"))
    await house.begin()
    await house.log.submit("orders", [an_event(n, f"k{n}") for n in range(5)])
    await until(lambda: all(len(sink.answered) == 5 for sink in house.sinks.values()))
    assert set(house.log.members) == {"skybridge.test.billing", "skybridge.test.audit"}
    assert house.states == {"billing": "running", "audit": "running"}
    await house.stop()
    assert house.states == {"billing": "stopped", "audit": "stopped"}
    assert all(sink.stopped for sink in house.sinks.values())


async def test_a_dispatcher_that_dies_says_so_and_begins_anew(caplog):
    """Never silently: its cause is in the status and the log, its restarts are counted."""
    house = await running_house()
    house.log.trouble.append(ZeroDivisionError("a bug"))
    house.log.wake()
    await until(lambda: house.states == {"billing": "restarting"})
    (status,) = house.supervisor.status()
    assert status.cause == "ZeroDivisionError: a bug"
    assert "task subscription billing failed and is restarted: ZeroDivisionError" in caplog.text
    await house.clock.advance(0.5)
    await house.running("billing")
    assert house.supervisor.status()[0].restarts == 1
    await house.log.submit("orders", [an_event(0)])
    await until(lambda: house.sinks["billing"].answered == ["0"])
    await house.stop()


async def test_a_member_that_its_broker_failed_is_replaced_by_a_new_one():
    """Kafka: a member whose partitions could not be placed stays idle for good (reliability 5.1)."""
    house = await running_house()
    idle = next(iter(house.log.members.values()))[-1]
    house.log.trouble.append(BrokerUnavailable("placing took too long"))
    house.log.wake()
    await until(lambda: house.states == {"billing": "restarting"})
    assert idle.closed
    assert "placing took too long" in house.supervisor.status()[0].cause
    await house.clock.advance(1)
    await house.log.submit("orders", [an_event(0)])
    await until(lambda: house.sinks["billing"].answered == ["0"])
    await house.stop()


async def test_it_waits_longer_each_time_it_dies_at_once():
    house = House(a_subscription())
    subscribes = []

    async def away(*_, **__):
        subscribes.append(house.clock.monotonic())
        raise BrokerUnavailable("away")

    house.log.subscribe = away
    await house.begin()
    await house.clock.advance(300)
    waits = [later - earlier for earlier, later in pairwise(subscribes)]
    assert waits[:7] == [0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 30.0]
    assert max(waits) == 30.0
    await house.stop()


async def test_one_that_dies_does_not_touch_the_others():
    house = House(a_subscription(id="billing"), a_subscription(id="audit"))
    await house.begin()
    await until(lambda: set(house.states.values()) == {"running"})

    def broken(*_):
        raise ZeroDivisionError

    house.sinks["billing"].begin = broken
    await house.log.submit("orders", [an_event(0)])
    await until(lambda: house.states == {"billing": "restarting", "audit": "running"})
    assert house.sinks["audit"].answered == ["0"]
    await house.stop()


async def test_stop_while_it_waits_to_begin_anew_is_prompt():
    house = await running_house()
    house.log.trouble.append(ZeroDivisionError())
    house.log.wake()
    await until(lambda: house.states == {"billing": "restarting"})
    await house.supervisor.stop(25.0)


async def test_enable_after_gone_tells_store_and_dispatcher():
    """Rule 7: only a person ends it."""
    house = House(a_subscription())
    await house.begin()
    house.sinks["billing"].answer(0, SinkAnswer(410))
    await house.log.submit("orders", [an_event(0)])
    await until(lambda: "billing" in house.store.halts.rows)
    await until(lambda: house.states == {"billing": "disabled"})
    await house.store.halts.allow("billing")
    house.supervisor.halt({})
    await until(lambda: house.sinks["billing"].answered == ["0", "0"])
    assert house.store.halts.rows == {}
    await house.stop()


async def test_a_stop_waits_until_a_gone_is_stored():
    """Rules 7 and 11: else whoever begins next sends again, to a target that is gone."""
    house = House(a_subscription())
    await house.begin()
    house.sinks["billing"].answer(0, SinkAnswer(410))
    asked, may_store, store = asyncio.Event(), asyncio.Event(), house.store.halts.halt

    async def slow_halt(*words):
        asked.set()
        await may_store.wait()
        await store(*words)

    house.store.halts.halt = slow_halt
    await house.log.submit("orders", [an_event(0)])
    await until(asked.is_set)
    stopping = asyncio.create_task(
        house.supervisor.stop(5.0)
    )  # the clock stands until it has begun
    await until(lambda: house.states == {"billing": "stopping"})
    await house.clock.advance(1.0)
    assert not stopping.done()
    may_store.set()
    await house.ticking(stopping)
    assert house.store.halts.rows["billing"].cause == "status-410"


async def test_an_event_in_a_lane_is_found_behind_its_head():
    """It was never tried, and is no row yet. The head was: its attempts tell."""
    house = House(a_subscription())
    await house.begin()
    house.sinks["billing"].hold(0)
    await house.log.submit("orders", [an_event(0, "a"), an_event(1, "a")])
    await until(lambda: house.sinks["billing"].flying == 1)  # from now on it waits for nothing
    await until(lambda: house.supervisor.status()[0].held == 2)
    (follower,) = house.supervisor.waiting("billing", "1")
    assert (follower.position, follower.behind.id, follower.parked) == ("1", "0", False)
    assert house.supervisor.waiting("audit", "1") == house.supervisor.waiting(None, "0") == []
    house.sinks["billing"].release(0)
    await house.stop()


async def test_a_position_out_of_range_is_not_begun_anew():
    """Rule 10: it stops and asks."""
    house = await running_house()
    house.log.trouble.append(PositionOutOfRange("gone"))
    house.log.wake()
    await until(lambda: house.states == {"billing": "stopped"})
    await house.clock.advance(600)
    (status,) = house.supervisor.status()
    assert (status.state, status.restarts) == ("stopped", 0)
    assert "position out of range: gone" in status.cause
    await house.stop()


async def test_a_start_outside_of_the_log_stops_the_subscription_and_names_the_cure():
    """Rule 10: it would be out of range at each restart."""
    house = House(a_subscription())

    async def refused(*_, **__):
        raise PositionOutOfRange("events/0 holds positions 3 to 9, not 10")

    house.log.subscribe = refused
    await house.begin()
    await until(lambda: house.states == {"billing": "stopped"})
    await house.clock.advance(600)
    (status,) = house.supervisor.status()
    assert (status.state, status.restarts) == ("stopped", 0)
    assert "holds positions 3 to 9, not 10; set start to" in status.cause
    await house.stop()


@pytest.mark.parametrize(
    ("setting", "settings"),
    [
        ("source.broker", {"source": {"broker": "main", "topics": ["orders"]}}),
        ("dead_letter.broker", {"dead_letter": {"broker": "main", "topic": "dead"}}),
    ],
)
async def test_a_broker_that_nobody_configured_is_named(setting, settings):
    house = House(a_subscription(**settings))
    with pytest.raises(SetupError) as error:
        await house.supervisor.start()
    assert error.value.setting == f"subscriptions.billing.{setting}"
    assert "log" in error.value.cure


async def test_attempts_are_remembered_newest_first_and_bounded():
    house = House(a_subscription(id="billing"), a_subscription(id="audit"))
    await house.begin()
    for n in range(3):
        await house.log.submit("orders", [an_event(n)])
        await until(lambda: len(house.supervisor.attempts()) == 2 * (n + 1))  # noqa: B023
        await house.clock.advance(1)
    ids = [attempt.event.id for attempt in house.supervisor.attempts("billing", limit=2)]
    assert ids == ["2", "1"]
    assert len(house.supervisor.attempts(limit=5)) == 5
    await house.stop()


def test_a_start_is_read_as_the_subscription_says():
    assert start_at("latest").kind == "latest"
    assert start_at("earliest").kind == "earliest"
    assert start_at(a_subscription(start={"position": {0: "7"}}).start).positions == {0: "7"}
    old = start_at(a_subscription(start={"time": "1969-12-31T23:59:59.999Z"}).start)
    assert old.time_ms == 0  # -1 is another word for latest in Kafka
    at = start_at(a_subscription(start={"time": "2026-01-31T13:00:00+01:00"}).start)
    assert (at.kind, at.time_ms) == ("time", 1_769_860_800_000)


@pytest.mark.parametrize("fault", [ZeroDivisionError("a bug"), StaleOwner("another owner")])
async def test_what_is_delivered_is_committed_before_a_failed_dispatcher_leaves(fault):
    """Else the next one would deliver it again. The store names another owner if members have joined at once."""
    house = House(a_subscription(retry=AT_ONCE))
    await house.begin()
    await house.running("billing")
    house.sinks["billing"].answer(1, BUSY)
    house.store.failures.append(fault)
    await house.log.submit("orders", [an_event(0, "a"), an_event(1, "b")])
    await until(lambda: house.states == {"billing": "restarting"})
    assert house.log.committed("skybridge.test.billing", ORDERS) == 1
    await house.clock.advance(1.0)
    await until(lambda: house.sinks["billing"].answered == ["0", "1", "1"])
    await house.stop()


@pytest.mark.parametrize("step", [3600.0, -3600.0])
async def test_how_long_a_target_fails_is_no_matter_of_the_wall_clock(step):
    """A clock that is set during the failures must neither begin nor end a verdict on them."""
    house = await running_house()
    house.sinks["billing"].answer(0, SinkAnswer(503, retry_after="3600"))  # it stays at fault
    await house.log.submit("orders", [an_event(0)])
    await until(lambda: house.supervisor.status()[0].failures)
    house.clock.ahead = step
    house.clock.suspend(5.0)
    assert 5.0 <= house.supervisor.status()[0].failing_for < 60.0
    await house.stop()
