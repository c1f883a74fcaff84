"""Rules 3 to 6: a key that cannot be delivered parks, its followers with it, and all others go on."""

from __future__ import annotations

import pytest

from app.errors import StoreFull, StoreUnavailable
from app.interfaces import DeadLetterFilter, SinkAnswer
from app.model.message import Partition
from app.worker.redrive import LOOK
from parking_steps import AT_ONCE, BUSY, park_across, park_and_refuse, parked_numbers, rows
from waiting import until
from worker_doubles import OK, an_event

ORDERS = Partition("orders", 0)
GROUP = "skybridge.test.billing"
ONE_HOLD = {"schedule": ["1s", "1h"], "hold": 1}


async def finished(rig, count):
    while rig.log.committed(GROUP, ORDERS) < count:
        await rig.clock.advance(0.1)


async def test_beyond_hold_the_key_parks_with_its_followers_and_others_go_on(rig):
    """Rule 4; and what is stored is finished (rule 2)."""
    rig.sink.answer(0, BUSY, BUSY)
    await rig.publish(an_event(0, "a"), an_event(1, "a"), an_event(2, "b"))
    await rig.begin(retry=ONE_HOLD)
    await rig.answered(0, 2)
    assert parked_numbers(rig) == []
    await rig.clock.advance(0.5)
    await until(lambda: parked_numbers(rig) == [0, 1])
    await finished(rig, 3)
    head, follower = rows(rig)
    assert (head.steps, head.attempts, head.cause, head.detail) == (2, 2, "status-409", "busy")
    assert head.due_ms == pytest.approx((rig.clock.now() + 1800) * 1000, abs=60_000)
    assert (follower.steps, follower.attempts, follower.lane) == (0, 0, head.lane)
    assert (head.event.id, head.message.epoch) == ("0", 1)
    assert (rig.status.parked_rows, rig.status.parked_keys, rig.status.held) == (2, 1, 0)


async def test_what_arrives_for_a_parked_key_goes_behind_it(rig):
    """Rule 4: later ones of that key follow them."""
    rig.sink.answer(0, BUSY)
    await rig.publish(an_event(0, "a"))
    await rig.begin(retry=AT_ONCE)
    await until(lambda: parked_numbers(rig) == [0])
    await rig.publish(an_event(1, "a"), an_event(2, "b"))
    await until(lambda: parked_numbers(rig) == [0, 1])
    await finished(rig, 3)
    assert rig.sink.answered == ["0", "2"]


async def test_a_parked_key_is_delivered_in_order_when_due_and_is_live_again(rig):
    """Rule 5: drained oldest first; live in the step that finds its queue empty."""
    rig.sink.answer(0, BUSY)
    await rig.publish(*(an_event(n, "a") for n in range(5)))
    await rig.begin(retry=AT_ONCE)
    await until(lambda: parked_numbers(rig) == [0, 1, 2, 3, 4])
    await rig.clock.advance(1799)
    assert rig.sink.answered == ["0"]
    await rig.clock.advance(2)
    await rig.answered(0, 0, 1, 2, 3, 4)
    await until(lambda: rig.status.parked_keys == 0)
    assert parked_numbers(rig) == []
    await rig.publish(an_event(5, "a"))
    await rig.answered(0, 0, 1, 2, 3, 4, 5)
    assert parked_numbers(rig) == []


async def test_a_lane_of_many_rows_is_drained_by_pages_and_keeps_its_order(rig):
    rig.sink.answer(0, BUSY)
    await rig.publish(*(an_event(n, "a") for n in range(350)))
    await rig.begin(retry=AT_ONCE)
    await finished(rig, 350)
    await rig.clock.advance(1801)
    for _ in range(30):
        await rig.clock.advance(0.1)
    await rig.answered(0, *range(350))
    assert rig.status.parked_rows == 0


async def test_a_head_that_fails_again_waits_again_in_the_store(rig):
    rig.sink.answer(0, BUSY, BUSY)
    await rig.publish(an_event(0, "a"), an_event(1, "a"))
    await rig.begin(retry={"schedule": ["1h", "2h", "4h"], "hold": 0})
    await until(lambda: len(rows(rig)) == 2)
    await rig.clock.advance(1800)
    await until(lambda: rows(rig)[0].steps == 2)
    assert (rows(rig)[0].attempts, rig.status.held) == (2, 0)
    await rig.clock.advance(3599)
    assert rig.sink.answered == ["0", "0"]
    await rig.clock.advance(2)
    await rig.answered(0, 0, 0, 1)


async def test_after_a_dead_letter_the_next_of_the_key_proceeds(rig):
    """Rule 4; the row becomes the letter in one step."""
    rig.sink.answer(0, BUSY, SinkAnswer(415))
    await rig.publish(an_event(0, "a"), an_event(1, "a"))
    await rig.begin(retry=AT_ONCE)
    await until(lambda: len(rows(rig)) == 2)
    await rig.clock.advance(1801)
    await rig.answered(0, 0, 1)
    await until(lambda: rig.status.parked_keys == 0)
    assert [letter.cause for letter in rig.store.letters.rows] == ["status-415"]
    assert rows(rig) == []


async def test_a_schedule_that_holds_to_its_end_never_parks(rig):
    """Brief: such a subscription keeps all it has in the log."""
    rig.sink.answer(0, *[BUSY] * 3)
    await rig.publish(*(an_event(n, "a") for n in range(9)))
    await rig.begin(retry={"schedule": ["1s"] * 3, "hold": 3}, window=4)
    await rig.answered(0)
    await rig.clock.advance(0.5)
    await rig.answered(0, 0)
    assert rows(rig) == []
    await finished(rig, 9)


async def test_half_of_the_window_used_parks_the_key_that_waits(rig):
    """Rule 4: also one whose head just waits; never one that is on the wire."""
    rig.log.batch = 1
    rig.sink.answer(0, BUSY)
    rig.sink.hold(1)
    await rig.publish(an_event(0, "a"), an_event(1, "b"))
    await rig.begin(window=8, retry={"schedule": ["1h", "1h"], "hold": 1})
    await rig.answered(0)
    assert rows(rig) == []
    await rig.publish(*(an_event(n, "c") for n in range(2, 6)))
    await until(lambda: parked_numbers(rig) == [0] and rig.sink.flying == 1)
    rig.sink.release(1)
    await finished(rig, 6)
    assert parked_numbers(rig) == [0]


async def test_an_attempt_that_lands_while_half_of_the_window_is_used_parks(rig):
    rig.log.batch = 1
    rig.sink.hold(0)
    rig.sink.answer(0, BUSY)
    await rig.publish(an_event(0, "a"), *(an_event(n, f"k{n}") for n in range(1, 7)))
    await rig.begin(window=8, retry={"schedule": ["1h", "1h"], "hold": 1})
    await until(lambda: len(rig.sink.answered) == 6)
    assert rows(rig) == []
    rig.sink.release(0)
    await until(lambda: parked_numbers(rig) == [0])


@pytest.mark.parametrize("key", ["a", None])
async def test_parked_keys_survive_a_kill_and_nothing_overtakes_them(rig, key):
    """Rule 5: the owner loads the set of parked keys before it delivers."""
    rig.sink.answer(0, BUSY)
    await rig.publish(an_event(0, key))
    await rig.begin(retry=AT_ONCE)
    await until(lambda: parked_numbers(rig) == [0])
    await rig.kill()
    await rig.publish(an_event(1, key), an_event(2, "b"))
    await rig.begin(retry=AT_ONCE)
    await finished(rig, 3)
    assert rig.sink.answered == (["0", "2"] if key else ["0", "1", "2"])
    await rig.clock.advance(1801)
    await until(lambda: rig.status.parked_keys == 0)
    assert rig.sink.answered.count("0") == 2
    assert (rig.sink.answered[-2:] == ["0", "1"]) is bool(key)


async def test_a_partition_whose_parked_keys_are_not_known_is_not_delivered_from(rig):
    """Rule 5: a store that is away holds everything, rather than let a key overtake itself."""

    async def away(*_):
        raise StoreUnavailable("away")

    known, rig.store.parked.lanes = rig.store.parked.lanes, away
    await rig.publish(an_event(0))
    await rig.begin()
    await rig.clock.advance(5)
    assert rig.sink.requests == []
    assert "parked keys cannot be loaded" in rig.status.cause
    rig.store.parked.lanes = known
    while not rig.sink.answered:
        await rig.clock.advance(1)
    assert rig.status.cause == ""


async def test_a_store_that_is_away_holds_what_is_to_park_and_nothing_is_lost(rig):
    """Rule 8: not settled before it is stored."""
    rig.sink.answer(0, BUSY)
    rig.store.failures.extend([StoreUnavailable("away"), StoreFull("no room")])
    await rig.publish(an_event(0, "a"), an_event(1, "a"), an_event(2, "b"))
    await rig.begin(retry=AT_ONCE)
    await until(lambda: "keys cannot be parked: away" in rig.status.cause)
    assert (rig.log.committed(GROUP, ORDERS), rows(rig)) == (0, [])
    assert (rig.status.parked_rows, rig.status.held) == (0, 2), "a kill would take them back"
    await rig.clock.advance(3)
    await until(lambda: parked_numbers(rig) == [0, 1])
    await finished(rig, 3)
    assert rig.status.cause == ""


async def test_at_the_bound_of_rows_nothing_more_is_taken_and_the_status_says_so(rig):
    """Rule 5: the partition pauses; a key that has no room holds its lane instead."""
    rig.log.batch = 1
    for number in range(3):
        rig.sink.answer(number, *[BUSY] * 2)
    await rig.publish(*(an_event(n, f"k{n}") for n in range(6)))
    await rig.begin(
        retry={"schedule": ["1h"] * 9, "hold": 0}, parked={"max_rows": 2}, concurrency=1
    )
    await until(lambda: rig.consumer.paused == {ORDERS})
    assert len(rows(rig)) == 2
    assert "2 events are parked" in rig.status.cause
    await rig.clock.advance(1801)
    await rig.clock.advance(1801)
    await until(lambda: rig.consumer.paused == set())
    await finished(rig, 6)
    assert sorted(map(int, set(rig.sink.answered))) == list(range(6))
    assert len(rows(rig)) <= 2


async def test_a_lease_in_doubt_writes_nothing(rig):
    """Rule 5: looked at before each store write too."""
    rig.sink.hold(0)
    rig.sink.answer(0, BUSY)
    await rig.publish(an_event(0, "a"))
    await rig.begin(retry=AT_ONCE)
    await until(lambda: rig.sink.flying == 1)
    rig.consumer.leases = False
    rig.sink.release(0)
    await rig.clock.advance(5)
    assert rows(rig) == []
    rig.consumer.leases = True
    await rig.clock.advance(0.3)
    await until(lambda: parked_numbers(rig) == [0])


async def test_what_could_not_be_parked_in_time_is_tried_again_when_it_is_due(rig):
    """A lease in doubt when it was to park, and a store that takes no rows: its verdict is carried out once."""
    park, reads = rig.store.parked.park, []

    async def refuse(*_, **__):
        raise StoreUnavailable("writes are refused")

    async def read(*place, real=rig.store.parked.rows, **choice):
        reads.append(place)
        return await real(*place, **choice)

    rig.store.parked.park, rig.store.parked.rows = refuse, read
    rig.sink.hold(0)
    rig.sink.answer(0, BUSY)
    await rig.publish(an_event(0, "a"))
    await rig.begin(retry={"schedule": ["1s", "1h"], "hold": 0})
    await until(lambda: rig.sink.flying == 1)
    rig.consumer.leases = False
    rig.sink.release(0)
    await rig.clock.advance(0.05)
    rig.consumer.leases = True
    for _ in range(60):
        await rig.clock.advance(0.1)
    assert rig.sink.ids == ["0", "0"]
    assert len(reads) < 10
    rig.store.parked.park = park


async def test_a_lost_partition_is_forgotten_but_its_rows_stay(rig):
    """Rule 5: the next owner drains them; under its own epoch."""
    rig.sink.begins = False  # the message of each request is looked at
    rig.sink.answer(0, BUSY)
    await rig.publish(an_event(0, "a"), an_event(1, "a"))
    await rig.begin(retry=AT_ONCE)
    await until(lambda: len(rows(rig)) == 2)
    rig.log.lose(GROUP, [ORDERS])
    await until(lambda: rig.status.parked_keys == 0)
    await rig.clock.advance(3600)
    assert rig.sink.answered == ["0"]
    assert parked_numbers(rig) == [0, 1]
    rig.log.give(GROUP, [ORDERS])
    await rig.answered(0, 0, 1)
    assert {request.message.epoch for request in rig.sink.requests[1:]} == {2}


async def test_a_page_that_is_lost_with_its_partition_lands_and_is_read_again(rig):
    rig.sink.answer(0, BUSY)
    await rig.publish(*(an_event(n, "a") for n in range(4)))
    await rig.begin(retry=AT_ONCE)
    await until(lambda: len(rows(rig)) == 4)
    rig.sink.hold(1)
    await rig.clock.advance(1801)
    await until(lambda: rig.sink.ids == ["0", "0", "1"])
    rig.log.lose(GROUP, [ORDERS])
    await until(lambda: rig.status.partitions == ())
    rig.log.give(GROUP, [ORDERS])
    rig.sink.release(1)
    await until(lambda: rig.sink.answered[-3:] == ["1", "2", "3"])
    await until(lambda: rig.status.parked_keys == 0 and rows(rig) == [])


async def test_nothing_parks_while_the_endpoint_is_at_fault(rig):
    """Rule 6: the log is the buffer, nothing is copied; the answers of one event take no step."""
    rig.sink.default = SinkAnswer(503, retry_after="30")
    await rig.publish(*(an_event(n, f"k{n}") for n in range(5)))
    await rig.begin(retry=AT_ONCE)
    for _ in range(10):
        await rig.clock.advance(30)
    assert rows(rig) == []
    assert rig.status.state == "paused"


async def test_what_could_not_park_while_the_endpoint_was_at_fault_parks_when_it_is_well(rig):
    """Rule 4: else a wait of hours would hold the lane, and the commits of its partition, to its end."""
    rig.sink.answer(0, BUSY)
    rig.sink.answer(2, SinkAnswer(503, retry_after="10"))
    rig.sink.hold(0)
    await rig.publish(an_event(0, "a"), an_event(1, "a"), an_event(2, "b"))
    await rig.begin(retry=AT_ONCE)
    await rig.state("paused")
    rig.sink.release(0)
    await until(lambda: "0" in rig.sink.answered)
    await rig.clock.rest()
    assert rows(rig) == []
    await rig.clock.advance(10)
    await until(lambda: parked_numbers(rig) == [0, 1])
    await finished(rig, 3)
    assert rig.sink.answered == ["2", "0", "2"]


async def test_a_parked_head_may_be_the_probe(rig):
    """Rule 6: the probe takes what was not tried for longest, a parked head included."""
    await park_and_refuse(rig)
    await rig.clock.advance(10)
    await rig.answered(0, 1, 0, 1)
    await until(lambda: rig.status.parked_keys == 0)


@pytest.mark.parametrize(
    ("answer", "wait"), [(SinkAnswer(503, retry_after="30"), 30), (SinkAnswer(410), 0)]
)
async def test_the_row_of_a_head_that_meets_an_endpoint_at_fault_tells_of_it(rig, answer, wait):
    """It is held on, and no step is taken; its row is what people see, and what a restart goes on from."""
    rig.sink.answer(0, BUSY, answer)
    await rig.publish(an_event(0, "a"))
    await rig.begin(retry=AT_ONCE)
    await until(lambda: parked_numbers(rig) == [0])
    await rig.clock.advance(1800)
    await until(lambda: rows(rig)[0].attempts == 2)
    (row,) = rows(rig)
    assert (row.steps, row.cause) == (1, f"status-{answer.status}")
    assert row.due_ms == pytest.approx((rig.clock.now() + wait) * 1000, abs=1000)
    await rig.kill()
    await rig.store.halts.allow("billing")
    await rig.begin(retry=AT_ONCE)
    await rig.clock.advance(wait)
    await rig.answered(0, 0, 0)
    assert [each.number for each in rig.attempts.recent(3)] == [3, 2, 1]


async def test_a_store_that_is_away_while_the_endpoint_is_holds_nothing_up(rig):
    """The row is an older one until the next failure is written."""
    rig.sink.answer(0, BUSY, SinkAnswer(503, retry_after="30"))
    await rig.publish(an_event(0, "a"))
    await rig.begin(retry=AT_ONCE)
    await until(lambda: parked_numbers(rig) == [0])
    await rig.clock.advance(1799)
    rig.store.failures.append(StoreUnavailable("busy"))
    await rig.clock.advance(1)
    await rig.state("paused")
    await rig.clock.advance(30)
    await rig.answered(0, 0, 0)
    await until(lambda: parked_numbers(rig) == [])


async def test_an_endpoint_that_came_back_is_met_slowly(rig):
    """Issue 6: not by all that waited for it at once."""
    rig.sink.default = SinkAnswer(503, retry_after="10")
    await rig.publish(*(an_event(n, f"k{n}") for n in range(60)))
    await rig.begin()
    await rig.state("paused")
    await rig.clock.rest()
    rig.sink.default = OK
    rig.sink.hold(*range(60))
    rig.sink.requests.clear()
    await rig.clock.advance(10)
    waves = []
    while rig.sink.flying:
        begun = [name for name in rig.sink._gates if name in rig.sink.ids]
        waves.append(len(begun))
        rig.sink.release(*begun)
        await rig.clock.advance(0.1)
    assert waves[:5] == [1, 1, 2, 4, 8]
    assert sum(waves) >= 60


async def test_rows_that_wait_too_long_become_dead_letters(rig):
    rig.sink.answer(0, *[BUSY] * 9)
    await rig.publish(an_event(0, "a"), an_event(1, "a"))
    await rig.begin(retry={"schedule": ["2h"] * 9, "hold": 0}, parked={"retention": "90m"})
    await until(lambda: len(rows(rig)) == 2)
    await rig.clock.advance(3 * 3600)
    causes = [(letter.cause, letter.detail) for letter in rig.store.letters.rows]
    assert causes == [("parked-too-long", "busy"), ("parked-too-long", "")]


async def test_events_older_than_max_age_become_dead_letters(rig):
    rig.log.now_ms = int(rig.clock.now() * 1000)
    rig.sink.answer(0, BUSY)
    await rig.publish(an_event(0, "a"))
    await rig.begin(retry=AT_ONCE, max_age="10m")
    await until(lambda: len(rows(rig)) == 1)
    await rig.clock.advance(1801)
    assert [letter.cause for letter in rig.store.letters.rows] == ["max-age"]


@pytest.mark.parametrize(("setting", "sent"), [("honour", []), ("ignore", ["0"])])
async def test_an_expired_event_is_finished_where_that_is_honoured(rig, setting, sent):
    """Rule 2: expired by its own rule."""
    await rig.publish(an_event(0, expirytime="2001-01-01T00:00:00Z"))
    await rig.begin(expirytime=setting)
    await finished(rig, 1)
    assert rig.sink.answered == sent
    outcome = "delivered" if sent else "expired"
    assert rig.counters.values()["deliveries"] == {("billing", outcome): 1}
    assert rig.store.letters.rows == []


async def redrive(rig, rate=0.0):
    now_ms = int(rig.clock.now() * 1000)
    await rig.store.letters.redrive(DeadLetterFilter(), rate=rate, now_ms=now_ms, limit=100)
    rig.dispatcher.look()


async def test_redriven_events_are_sent_again_under_their_key(rig):
    rig.sink.answer(0, SinkAnswer(415))
    rig.sink.answer(1, SinkAnswer(415))
    await rig.publish(an_event(0, "a"), an_event(1, "b"))
    await rig.begin()
    await finished(rig, 2)
    rig.sink.hold(0)
    await redrive(rig)
    await until(lambda: rig.sink.ids[2:] == ["0", "1"])
    await rig.publish(an_event(2, "a"))
    await rig.clock.advance(1)
    assert rig.sink.ids[2:] == ["0", "1"], "two of a key on the wire"
    rig.sink.release(0)
    await until(lambda: rig.sink.answered[-2:] == ["0", "2"])
    await until(lambda: rows(rig) == [])
    assert rig.store.letters.rows == []


async def test_later_events_do_not_wait_for_a_redriven_one_that_waits(rig):
    """Its order is past; it goes by the schedule from its beginning."""
    rig.sink.answer(0, SinkAnswer(415), BUSY)
    await rig.publish(an_event(0, "a"))
    await rig.begin(retry=ONE_HOLD)
    await finished(rig, 1)
    await redrive(rig)
    await rig.answered(0, 0)
    await until(lambda: [row.steps for row in rows(rig)] == [1])
    await rig.publish(an_event(1, "a"))
    await rig.answered(0, 0, 1)
    await rig.clock.advance(1)
    await rig.answered(0, 0, 1, 0)
    await until(lambda: rows(rig) == [])


async def test_redriven_events_come_at_their_rate_without_being_asked_for_each(rig):
    for number in range(4):
        rig.sink.answer(number, SinkAnswer(415))
    await rig.publish(*(an_event(n, f"k{n}") for n in range(4)))
    await rig.begin()
    await finished(rig, 4)
    await redrive(rig, rate=0.1)
    sent = []
    for _ in range(4):
        await rig.clock.advance(0.5)
        sent.append(len(rig.sink.answered) - 4)
        await rig.clock.advance(9.5)
    assert sent == [1, 2, 3, 4]


async def test_a_redriven_event_that_nobody_announced_is_found(rig):
    """Another process's API gave it back, and its word was lost."""
    rig.sink.answer(0, SinkAnswer(415))
    await rig.publish(an_event(0, "a"))
    await rig.begin()
    await finished(rig, 1)
    now_ms = int(rig.clock.now() * 1000)
    await rig.store.letters.redrive(DeadLetterFilter(), rate=0, now_ms=now_ms, limit=1)
    await rig.clock.advance(LOOK + 5)
    await rig.answered(0, 0)


async def test_many_redriven_events_are_loaded_a_few_at_a_time(rig):
    """Bounds (rule 8): a redrive of a million rows is not held in memory."""
    rig.sink.default = SinkAnswer(415)
    await rig.publish(*(an_event(n, None) for n in range(60)))
    await rig.begin(concurrency=2)
    await finished(rig, 60)
    rig.sink.default = OK
    rig.sink.hold(*range(60))
    await redrive(rig)
    await until(lambda: rig.sink.flying == 2)
    await rig.clock.rest()
    assert rig.status.held == 4
    rig.sink.release(*range(60))
    await until(lambda: rows(rig) == [])
    assert len(rig.sink.answered) == 120


async def test_order_by_an_attribute_parks_across_partitions(rig):
    """Rule 3: the lane is the attribute's, wherever its events lie."""
    await park_across(rig, 4)
    assert (rig.status.parked_keys, len(rig.sink.answered)) == (1, 1)
    assert len({row.message.partition for row in rows(rig)}) > 1
    rig.sink.script.clear()
    await rig.clock.advance(1801)
    await rig.clock.advance(1)
    await until(lambda: rig.status.parked_keys == 0)
    assert sorted(rig.sink.answered[1:]) == ["0", "1", "2", "3", "4", "5"]
    assert rows(rig) == []


async def test_rate_limit_spaces_attempts(rig):
    await rig.publish(*(an_event(n, f"k{n}") for n in range(40)))
    await rig.begin(rate_limit="10/s")
    await until(lambda: rig.sink.answered)
    for expected in (10, 20, 30):
        await rig.clock.advance(0.99)
        assert expected - 2 <= len(rig.sink.answered) <= expected
