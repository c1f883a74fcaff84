"""Rule 6: when the endpoint is at fault the whole subscription waits, and the log is the buffer."""

from __future__ import annotations

import logging

import pytest

from app.interfaces import SinkAnswer
from app.model.message import Partition
from app.worker.watches import LOOK
from waiting import until
from worker_doubles import OK, an_event

ORDERS = Partition("orders", 0)
GROUP = "skybridge.test.billing"
DOWN = SinkAnswer(None, "connect", "refused")


def causes(rig):
    return {name: halt.cause for name, halt in rig.store.halts.rows.items()}


@pytest.mark.parametrize("status", [429, 503])
async def test_retry_after_stops_everybody_until_then_and_takes_no_step(rig, status):
    """W6: honoured exactly, for the endpoint and not for the event alone."""
    rig.sink.default = SinkAnswer(status, retry_after="30")
    await rig.publish(an_event(0, "a"), an_event(1, "b"))
    await rig.begin(retry={"schedule": ["1s"]}, concurrency=1)
    await until(lambda: len(rig.sink.answered) == 1)
    for attempts in range(1, 6):
        await rig.clock.advance(29.9)
        assert len(rig.sink.answered) == attempts
        assert (rig.status.state, round(rig.status.paused_for, 1)) == ("paused", 0.1)
        await rig.clock.advance(0.1)
    rig.sink.default = OK
    await rig.clock.advance(30)
    await rig.committed(2)
    assert rig.store.letters.rows == []
    assert rig.status.state == "running"


async def test_an_endpoint_that_always_asks_to_wait_is_seen_by_the_age_of_what_it_holds(rig):
    """Its events keep their schedule and are held for ever: somebody must be able to notice."""
    rig.sink.default = SinkAnswer(503, retry_after="30")
    rig.log.now_ms = int(rig.clock.now() * 1000)
    await rig.publish(an_event(0), an_event(1))
    await rig.begin()
    await until(lambda: rig.status.held == 2)
    assert rig.status.oldest == pytest.approx(0.0, abs=0.01)
    await rig.clock.advance(3_600)
    assert rig.status.oldest == pytest.approx(3_600, abs=0.01)
    assert 0 < rig.status.paused_for <= 30
    rig.sink.default = OK
    await rig.clock.advance(30)
    await until(lambda: rig.status.held == 0)
    assert rig.status.oldest is None


async def test_nothing_is_taken_while_the_endpoint_waits(rig):
    rig.sink.answer(0, SinkAnswer(503, retry_after="30"))
    await rig.publish(an_event(0))
    await rig.begin()
    await until(lambda: rig.consumer.paused == {ORDERS})
    await rig.publish(*(an_event(n, f"k{n}") for n in range(1, 10)))
    await rig.clock.advance(20)
    assert rig.status.held == 1
    await rig.clock.advance(10)
    while rig.log.committed(GROUP, ORDERS) < 10:
        await rig.clock.advance(0.1)


async def test_retry_after_is_bounded(rig):
    rig.sink.answer(0, SinkAnswer(503, retry_after="999999999"))
    await rig.publish(an_event(0))
    await rig.begin(retry={"retry_after_max": "1h"})
    await rig.answered(0)
    await rig.clock.advance(3600)
    await rig.answered(0, 0)


async def test_retry_after_as_a_date(rig):
    """W6: read against the wall clock, waited for by the monotonic one."""
    from email.utils import formatdate

    date = formatdate(rig.clock.now() + 60, usegmt=True)
    rig.sink.answer(0, SinkAnswer(429, retry_after=date))
    await rig.publish(an_event(0))
    await rig.begin()
    await rig.answered(0)
    await rig.clock.advance(59)
    assert rig.sink.answered == ["0"]
    await rig.clock.advance(1)
    await rig.answered(0, 0)


@pytest.mark.parametrize("header", ["0", "Sun, 06 Nov 1994 08:49:37 GMT", "soon"])
async def test_a_retry_after_that_asks_for_nothing_leaves_the_schedule(rig, header):
    rig.sink.answer(0, *[SinkAnswer(503, retry_after=header)] * 2)
    await rig.publish(an_event(0))
    await rig.begin(retry={"schedule": ["10s"]})
    await rig.answered(0)
    assert rig.status.state == "running"
    await rig.clock.advance(5)
    await rig.answered(0, 0)
    await until(
        lambda: [letter.cause for letter in rig.store.letters.rows] == ["schedule-exhausted"]
    )


async def test_an_outage_pauses_probes_and_resumes_without_dead_letters(rig):
    """The schedule here is over after two attempts: an outage must not turn it into dead letters."""
    rig.sink.default = DOWN
    await rig.publish(*(an_event(n, f"k{n}") for n in range(40)))
    await rig.begin(retry={"schedule": ["24h"]}, concurrency=5)
    await rig.state("paused")
    assert "connect" in rig.status.cause
    before = len(rig.sink.requests)
    assert before < 20
    for _ in range(60):
        await rig.clock.advance(1)
    probes = rig.sink.ids[before:]
    assert 4 <= len(probes) <= 8, "pauses grow from 1 s to 60 s"
    assert len(set(probes)) == len(probes), "not the same event each time"
    rig.sink.default = OK
    await rig.clock.advance(60)
    await rig.clock.advance(24 * 3600)
    while rig.log.committed(GROUP, ORDERS) < 40:
        await rig.clock.advance(0.1)
    assert rig.store.letters.rows == []
    assert rig.status.state == "running"


async def test_one_event_that_always_fails_ends_in_the_dead_letters_alone(rig):
    """Only single keys fail: no pause, its own schedule ends it, the others go on."""
    rig.sink.answer(0, *[SinkAnswer(500)] * 3)
    await rig.publish(*(an_event(n, f"k{n}") for n in range(30)))
    await rig.begin(retry={"schedule": ["1s", "1s"]})
    await until(lambda: rig.delivered == 29)
    await rig.clock.advance(2)
    await rig.committed(30)
    assert [letter.cause for letter in rig.store.letters.rows] == ["schedule-exhausted"]


async def test_a_blocked_address_pauses_and_loses_nothing(rig):
    """Reliability 4.3: DNS or the configuration may heal; meanwhile the cause is in sight."""
    rig.sink.default = SinkAnswer(None, "blocked-address", "10.0.0.1")
    await rig.publish(*(an_event(n, f"k{n}") for n in range(20)))
    await rig.begin()
    await rig.state("paused")
    assert "blocked-address" in rig.status.cause
    assert rig.store.letters.rows == []


async def test_gone_disables_the_subscription_and_keeps_its_event(rig):
    """Rule 7, W5: nothing more is sent, and the event stays unfinished."""
    rig.sink.answer(0, SinkAnswer(410))
    await rig.publish(an_event(0))
    await rig.begin()
    await rig.state("disabled")
    await until(lambda: causes(rig) == {"billing": "status-410"})
    await rig.publish(an_event(1, "other"))
    await rig.clock.advance(3600)
    await until(lambda: rig.consumer.paused == {ORDERS})
    assert rig.sink.answered == ["0"]
    assert rig.log.committed(GROUP, ORDERS) == 0
    assert rig.consumer.paused == {ORDERS}


async def test_gone_is_warned_of_once_and_at_each_start(rig, caplog):
    """W5: whoever reads the log alone is to know what ends it."""
    caplog.set_level(logging.WARNING, "skybridge.worker")
    said = (
        "subscription billing is disabled: status-410; "
        "deliver again with: skybridge subscriptions resume billing"
    )
    rig.sink.default = SinkAnswer(410)
    await rig.publish(*(an_event(n, f"k{n}") for n in range(3)))
    await rig.begin()
    await until(lambda: causes(rig) == {"billing": "status-410"})
    rig.dispatcher.pause("disabled: status-410")  # as the next look at the store says
    assert caplog.messages == [said]
    await rig.stop()
    await rig.begin()
    assert caplog.messages == [said, said]


async def test_disabled_stays_so_through_a_restart_until_enabled(rig):
    await rig.store.halts.halt("billing", "disabled", "status-410", 0)
    await rig.publish(an_event(0))
    await rig.begin()
    await rig.clock.advance(60)
    assert (rig.status.state, rig.status.cause) == ("disabled", "disabled: status-410")
    assert rig.sink.requests == []
    rig.dispatcher.enable()
    while rig.log.committed(GROUP, ORDERS) < 1:
        await rig.clock.advance(0.1)


async def test_a_paused_subscription_joins_and_sends_nothing(rig):
    """Rule 10: it holds its place in the log."""
    await rig.publish(an_event(0))
    await rig.begin(paused=True)
    await rig.clock.advance(60)
    assert rig.status.state == "paused"
    assert rig.sink.requests == []


async def test_a_paused_subscription_commits_again_each_day(rig):
    """Rule 10: a group that commits nothing for long is forgotten by its broker."""
    await rig.begin(paused=True)
    commits = []
    commit = rig.consumer.commit

    async def counted():
        commits.append(rig.clock.monotonic())
        await commit()

    rig.consumer.commit = counted
    await rig.clock.advance(86_401)
    rig.log.wake()
    await until(lambda: len(commits) == 1)


async def test_a_probe_that_is_foreign_is_buried_and_another_is_made(rig):
    from app.bindings.record import Record

    rig.sink.answer(1, SinkAnswer(503, retry_after="10"))
    rig.sink.hold(1)
    rig.log.batch = 2
    await rig.publish(an_event(1, "a"), Record(b"a", (), b"foreign"), an_event(2, "b"))
    await rig.begin(concurrency=1)
    await until(lambda: rig.sink.flying == 1)
    rig.sink.release(1)
    await rig.clock.advance(10)
    while rig.log.committed(GROUP, ORDERS) < 3:
        await rig.clock.advance(0.1)
    assert [letter.cause for letter in rig.store.letters.rows] == ["foreign"]


async def test_a_probe_whose_partition_is_in_doubt_is_made_again(rig):
    """Else one late heartbeat at the wrong moment would stop the subscription for ever."""
    rig.sink.answer(0, SinkAnswer(503, retry_after="10"))
    await rig.publish(an_event(0))
    await rig.begin()
    await rig.state("paused")
    rig.consumer.leases = False
    await rig.clock.advance(11)
    assert rig.sink.answered == ["0"]
    rig.consumer.leases = True
    await rig.clock.advance(1)
    await rig.answered(0, 0)
    await rig.state("running")


async def test_with_nothing_left_to_probe_it_takes_anew(rig):
    """Its partitions went to another worker while it was paused, and came back."""
    rig.sink.answer(0, SinkAnswer(503, retry_after="10"))
    await rig.publish(an_event(0))
    await rig.begin()
    await rig.state("paused")
    rig.log.revoke(GROUP, [ORDERS])
    await until(lambda: rig.status.held == 0)
    await rig.clock.advance(11)
    await rig.state("running")
    rig.log.give(GROUP, [ORDERS])
    await rig.committed(1)


async def test_a_pause_that_outlasts_retention_is_said_once_before_anything_expires(rig, caplog):
    """Rule 6: in the log, in the status and to operators; and taken back when events flow again."""
    await rig.publish(*(an_event(n) for n in range(10)))
    await rig.begin()
    await rig.committed(10)
    rig.dispatcher.pause("paused: by a person")
    await rig.clock.advance(61)
    rig.log.earliest[ORDERS] = 4
    await rig.clock.advance(61)
    assert rig.status.cause == "paused: by a person"
    rig.log.earliest[ORDERS] = 5
    for _ in range(3):
        await rig.clock.advance(61)
    assert "orders/0, 5 positions before the subscription's position" in rig.status.cause
    assert caplog.text.count("will drop events before they are delivered") == 1
    rig.dispatcher.enable()
    await rig.clock.advance(61)
    assert rig.status.cause == ""


async def test_an_open_subscription_has_no_timer_for_retention(rig, monkeypatch):
    """Five thousand of them at rest would wake 83 times a second for nothing."""
    waits = []
    sleep = rig.clock.sleep

    async def noted(seconds):
        waits.append(seconds)
        await sleep(seconds)

    monkeypatch.setattr(rig.clock, "sleep", noted)
    await rig.begin()
    await rig.clock.advance(10 * LOOK)
    assert LOOK not in waits
    rig.dispatcher.pause("paused: by a person")
    await rig.clock.advance(3 * LOOK + 1)
    assert waits.count(LOOK) > 2
    rig.dispatcher.enable()
    await rig.clock.advance(2 * LOOK)
    waits.clear()
    await rig.clock.advance(10 * LOOK)
    assert LOOK not in waits


async def test_no_probe_leaves_once_a_person_has_paused_it(rig):
    """Also one whose event was still being read from the store."""
    rig.log.clock = rig.clock
    read = rig.store.parked.rows

    async def slow(*given, **named):
        await rig.clock.sleep(1.0)
        return await read(*given, **named)

    rig.store.parked.rows = slow
    rig.sink.answer(0, SinkAnswer(409))
    await rig.publish(an_event(0, "a"))
    await rig.begin(retry={"schedule": ["1h", "1h"], "hold": 0}, concurrency=1)
    await until(lambda: rig.status.parked_rows == 1)
    rig.sink.answer(1, SinkAnswer(503, retry_after="10"))
    await rig.publish(an_event(1, "b"))
    await rig.answered(0, 1)
    await rig.clock.advance(10.5)
    rig.dispatcher.pause("paused: by a person")
    await rig.clock.advance(10)
    assert rig.sink.answered == ["0", "1"]
    rig.dispatcher.enable()
    await rig.clock.advance(10)
    assert sorted(rig.sink.answered) == ["0", "0", "1", "1"]


@pytest.mark.parametrize("poison", [SinkAnswer(500), SinkAnswer(503, retry_after="30")])
@pytest.mark.parametrize("hold", [7, 0])
async def test_a_few_events_that_always_fail_do_not_stop_the_others_for_ever(rig, hold, poison):
    """Little comes, and all that is held fails wherever the target stands: held or parked, none of them
    is a probe that can ever tell. Rule 6 is about targets; one that works gets its events."""
    rig.log.clock = rig.clock
    schedule = ["100ms", "500ms", "2s", "10s", "1m", "5m", "30m"]
    for number in range(3):
        rig.sink.answer(number, *[poison] * 1_000)
    await rig.publish(*(an_event(n, f"k{n}") for n in range(3)))
    await rig.begin(retry={"schedule": schedule, "hold": hold})
    for number in range(3, 9):
        await rig.clock.advance(600)
        await rig.publish(an_event(number, f"k{number}"))
    await rig.clock.advance(600)
    assert {str(n) for n in range(3, 9)} <= set(rig.sink.answered)


async def test_a_target_that_is_down_is_tried_with_new_events_one_at_a_time(rig):
    """Rule 6: the log is the buffer. No more of it is taken than there are probes."""
    rig.log.clock, rig.log.batch = rig.clock, 1
    rig.sink.default = DOWN
    await rig.publish(*(an_event(n, f"k{n}") for n in range(12)))
    await rig.begin(window=10_000)
    await rig.state("paused")
    held, tried = rig.status.held, len(rig.sink.requests)
    await rig.publish(*(an_event(n, f"k{n}") for n in range(12, 500)))
    await rig.clock.advance(600)
    assert rig.status.held - held <= len(rig.sink.requests) - tried < 30
    assert rig.status.parked_rows == 0
    rig.sink.default = OK
    while rig.log.committed(GROUP, ORDERS) < 500:
        await rig.clock.advance(1)
