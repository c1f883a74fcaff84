"""The way of a message through one subscription, with the clock and the target in hand."""

from __future__ import annotations

import asyncio
import logging

import pytest
from msgspec.structs import replace

from app.bindings.record import Record
from app.brokers.kafka import KafkaSettings
from app.errors import BrokerRefused, BrokerUnavailable, PositionOutOfRange, StoreUnavailable
from app.interfaces import SinkAnswer
from app.log.groups.membership import GroupTimes
from app.model.message import Partition
from app.telemetry.slices import SLICE
from app.worker.components import HAND_OVER
from waiting import until
from worker_doubles import an_event

FAILS = SinkAnswer(500, body=b"no")
GROUP = "skybridge.test.billing"


async def test_what_is_delivered_is_settled(rig):
    await rig.publish(*(an_event(n, f"k{n}") for n in range(20)))
    await rig.begin()
    await rig.committed(20)
    assert sorted(map(int, rig.sink.answered)) == list(range(20))
    assert rig.delivered == 20


async def test_the_webhook_gets_the_event_as_it_was(rig):
    """H8 to H10 on the way out: attributes as headers, the data's own bytes."""
    posted = rig.webhook()
    await rig.publish(an_event(7, subject="été"))
    await rig.begin()
    await rig.committed(1)
    (request,) = posted
    assert (dict(request.headers)["ce-subject"], request.body) == ("%C3%A9t%C3%A9", b"7")
    assert rig.client.told == [("https://billing.example/hook", 15)]


async def test_structured_mode_sends_one_document(rig):
    await rig.publish(an_event(7))
    sent = rig.webhook()
    await rig.begin(content_mode="structured")
    await until(lambda: sent)
    assert dict(sent[0].headers)["Content-Type"].startswith("application/cloudevents+json")
    assert b'"id":"7"' in sent[0].body


async def test_nothing_is_settled_before_it_is_finished(rig):
    """Rule 2: the commit stays at the lowest open position, whatever is finished above it."""
    rig.sink.hold(0)
    await rig.publish(an_event(0, "a"), an_event(1, "b"), an_event(2, "c"))
    await rig.begin()
    await rig.answered(1, 2)
    await until(lambda: len(rig.consumer.settled) == 2)
    assert rig.log.commits[GROUP][Partition("orders", 0)] == (0, "f1:1-2")
    rig.sink.release(0)
    await rig.committed(3)


async def test_a_kill_repeats_only_what_was_open(rig):
    """Rule 2: duplicates after a kill are at most what was in flight and not committed."""
    rig.sink.hold(3)
    await rig.publish(*(an_event(n, f"k{n}") for n in range(6)))
    await rig.begin()
    await until(lambda: len(rig.consumer.settled) == 5)
    await rig.kill()
    rig.sink.release(3)
    rig.sink.requests.clear()
    await rig.begin()
    await rig.committed(6)
    assert rig.sink.ids == ["3"]


async def test_one_event_of_a_key_is_on_the_wire_and_many_keys_are(rig):
    """Rule 3."""
    rig.sink.hold(0, 1, 2, 3)
    await rig.publish(an_event(0, "a"), an_event(1, "b"), an_event(2, "a"), an_event(3, "b"))
    await rig.begin()
    await until(lambda: len(rig.sink.requests) == 2)
    await rig.clock.rest()
    assert rig.sink.ids == ["0", "1"]
    rig.sink.release(1)
    await until(lambda: rig.sink.ids == ["0", "1", "3"])
    rig.sink.release(0, 2, 3)
    await rig.committed(4)
    assert rig.sink.answered == ["1", "0", "3", "2"] or rig.sink.answered.index("0") < 3


async def test_events_without_a_key_have_no_order(rig):
    rig.sink.hold(0, 1, 2)
    await rig.publish(*(an_event(n, None) for n in range(3)))
    await rig.begin()
    await until(lambda: rig.sink.flying == 3)


async def test_ordering_none_lifts_the_order_of_keys(rig):
    rig.sink.hold(0, 1, 2)
    await rig.publish(*(an_event(n, "same") for n in range(3)))
    await rig.begin(ordering="none")
    await until(lambda: rig.sink.flying == 3)


async def test_order_by_an_attribute_wherever_the_event_lies(rig):
    """Rule 3: order follows the attribute, not the record's key nor its partition."""
    await rig.log.create_topic("orders", 4)
    rig.sink.hold(*range(6))
    await rig.publish(*(an_event(n, f"k{n}", subject=f"s{n % 2}") for n in range(5)))
    await rig.publish(an_event(5, "same"))
    await rig.begin(order_by="subject")
    await until(lambda: rig.sink.flying == 3)
    await rig.clock.rest()
    assert rig.sink.flying == 3  # s0, s1, and the one without a subject


async def test_order_by_a_value_in_the_data_of_records_without_a_key(rig):
    """Records of other producers: one at a time for each customer; without the value, and without JSON, no order."""
    bodies = [
        b'{"customer": {"id": "a"}}',
        b'{"customer": {"id": "a"}}',
        b'{"customer": {"id": 7}}',
    ]
    bodies += [b'{"customer": {"id": "7"}}', b"{}", b"no json", b'{"customer": {"id": {}}}']
    rig.sink.hold(*range(7))
    await rig.publish(
        *(
            replace(an_event(n, None, datacontenttype="application/json"), body=body)
            for n, body in enumerate(bodies)
        )
    )
    await rig.begin(order_by={"pointer": "/customer/id"})
    await until(lambda: rig.sink.flying == 5)
    await rig.clock.rest()
    assert rig.sink.flying == 5  # a, 7 (as a number and as a text), and three without a value


async def test_no_more_attempts_at_once_than_its_concurrency(rig):
    await rig.publish(*(an_event(n, f"k{n}") for n in range(50)))
    await rig.begin(concurrency=3)
    await rig.committed(50)
    assert rig.sink.most_flying == 3


async def test_a_failure_is_tried_again_on_its_schedule_before_its_followers(rig):
    """Rule 4: quick waits hold the lane; full jitter draws half of each wait here."""
    rig.sink.answer(0, FAILS, FAILS)
    await rig.publish(an_event(0, "a"), an_event(1, "a"), an_event(2, "b"))
    await rig.begin(retry={"schedule": ["10s", "60s"]})
    await rig.answered(0, 2)
    await rig.clock.advance(4.9)
    assert rig.sink.answered == ["0", "2"]
    await rig.clock.advance(0.1)
    await rig.answered(0, 2, 0)
    await rig.clock.advance(30)
    await rig.answered(0, 2, 0, 0, 1)
    await rig.committed(3)
    newest_first = [(a.event.id, a.number, a.outcome, a.status) for a in rig.attempts.recent(3)]
    assert newest_first == [
        ("1", 1, "delivered", 204),
        ("0", 3, "delivered", 204),
        ("0", 2, "retry", 500),
    ]


async def test_the_attempt_that_uses_up_the_schedule_says_dead_letter(rig):
    """What was decided, not what the answer alone means: it is not tried again."""
    rig.sink.default = SinkAnswer(503)
    await rig.publish(an_event(0))
    await rig.begin(retry={"schedule": ["1s"]})
    while not rig.store.letters.rows:
        await rig.clock.advance(1)
    newest_first = [(a.number, a.outcome, a.next_try_in) for a in rig.attempts.recent(3)]
    assert newest_first == [(2, "dead-letter", None), (1, "retry", 0.5)]


async def test_what_waits_for_its_next_attempt_is_not_settled(rig, orders):
    """Rule 2: a kill in between must bring it again."""
    rig.sink.answer(0, FAILS)
    await rig.publish(an_event(0, "a"), an_event(1, "b"))
    await rig.begin(retry={"schedule": ["10s"]})
    await until(lambda: rig.status.waiting == 1 and len(rig.consumer.settled) == 1)
    assert rig.log.committed(GROUP, orders) == 0
    await rig.kill()
    await rig.begin()
    await rig.committed(2)
    assert rig.sink.answered.count("0") == 2


async def test_a_used_up_schedule_ends_in_the_dead_letters_and_frees_the_key(rig):
    """Rules 2 and 4: stored before it is finished; after it the next event of the key proceeds."""
    rig.sink.answer(0, FAILS, FAILS, FAILS)
    await rig.publish(an_event(0), an_event(1))
    await rig.begin(retry={"schedule": ["1s", "1s"]})
    await rig.answered(0)
    await rig.clock.advance(2)
    await rig.committed(2)
    (letter,) = rig.store.letters.rows
    assert (letter.cause, letter.attempts, letter.status) == ("schedule-exhausted", 3, 500)
    assert letter.detail == "no"
    assert letter.message.record == an_event(0)
    assert rig.sink.answered == ["0", "0", "0", "1"]
    assert rig.counters.values()["dead_letters"] == {("billing", "schedule-exhausted"): 1}


@pytest.mark.parametrize(
    ("answer", "cause"),
    [
        (SinkAnswer(415), "status-415"),
        (SinkAnswer(400), "status-400"),
        (SinkAnswer(302), "status-302"),
        (SinkAnswer(None, "bad-request"), "bad-request"),
    ],
)
async def test_what_will_never_be_taken_is_buried_at_once(rig, answer, cause):
    """Rule 7: W3, W7, and a request that cannot be sent."""
    rig.sink.answer(0, answer)
    await rig.publish(an_event(0), an_event(1))
    await rig.begin()
    await rig.committed(2)
    assert [(letter.cause, letter.attempts) for letter in rig.store.letters.rows] == [(cause, 1)]


async def test_a_dead_letter_is_stored_before_its_message_is_finished(rig):
    """Rule 2: a store that refuses is tried again, and nothing is settled meanwhile."""
    rig.sink.answer(0, SinkAnswer(415))
    rig.store.failures.extend([StoreUnavailable("disk full")] * 2)
    await rig.publish(an_event(0), an_event(1))
    await rig.begin()
    await until(lambda: "disk full" in rig.status.cause)
    assert rig.sink.answered == ["0"]
    await rig.clock.advance(30)
    await rig.committed(2)
    assert len(rig.store.letters.rows) == 1


async def test_a_dead_letter_is_also_copied_to_its_topic_before_it_is_finished(rig):
    """Rule 2: where a dead-letter topic is set, its acknowledgement is part of finished."""
    await rig.copies.create_topic("dead", 1)
    rig.copies.refusals.append(BrokerUnavailable("away"))
    rig.sink.answer(0, SinkAnswer(415))
    await rig.publish(an_event(0))
    await rig.begin(dead_letter={"broker": "copies", "topic": "dead"})
    await until(lambda: "a dead letter cannot be stored: away" in rig.status.cause)
    assert (rig.store.letters.rows, rig.log.committed(GROUP, Partition("orders", 0))) == ([], 0)
    await rig.clock.advance(1)
    await rig.committed(1)
    assert len(rig.store.letters.rows) == 1
    ((copy, _),) = rig.copies.partitions[Partition("dead", 0)]
    original = an_event(0)
    assert (copy.key, copy.body) == (original.key, original.body)
    assert copy.headers[: len(original.headers)] == original.headers
    assert dict(copy.headers)["skybridge-dead-letter-cause"] == b"status-415"


async def test_a_copy_that_can_never_be_made_does_not_hold_its_key_for_ever(rig, caplog):
    """The marks make the record larger: one just below the topic's bound has its letter in the store
    and nowhere else, and that is said."""
    await rig.copies.create_topic("dead", 1)
    rig.copies.refusals.append(BrokerRefused("1,000,090 bytes", kind="record-too-large"))
    rig.sink.answer(0, SinkAnswer(415))
    await rig.publish(an_event(0), an_event(1))
    await rig.begin(dead_letter={"broker": "copies", "topic": "dead"})
    await rig.committed(2)
    assert len(rig.store.letters.rows) == 1
    assert rig.copies.partitions[Partition("dead", 0)] == []
    assert "the dead-letter topic refused a copy" in caplog.text


async def test_a_crash_between_storing_and_settling_buries_once(rig):
    """Rule 5: the row is unique by its place."""
    rig.sink.default = SinkAnswer(415)
    await rig.begin()
    rig.log.killed = True  # for the log; what the store has been told, it has
    await rig.publish(an_event(0))
    await until(lambda: len(rig.store.letters.rows) == 1)
    await rig.kill()
    assert rig.log.committed(GROUP, Partition("orders", 0)) == 0
    await rig.begin()
    await rig.committed(1)
    assert len(rig.store.letters.rows) == 1


async def test_a_record_that_is_no_event_is_buried(rig):
    await rig.publish(Record(b"k", (), b"hello"), an_event(1))
    await rig.begin()
    await rig.committed(2)
    assert [(letter.cause, letter.attempts) for letter in rig.store.letters.rows] == [
        ("foreign", 0)
    ]
    assert rig.sink.answered == ["1"]


async def test_a_record_that_is_no_event_is_skipped_where_so_asked(rig):
    await rig.publish(Record(b"k", (), b"hello"), an_event(1))
    await rig.begin(on_foreign="skip")
    await rig.committed(2)
    assert rig.store.letters.rows == []
    assert rig.counters.values()["deliveries"][("billing", "skipped")] == 1


async def test_what_is_not_wanted_is_finished(rig):
    await rig.publish(an_event(0, type="other"), an_event(1))
    await rig.begin(filters=[{"exact": {"type": "t"}}])
    await rig.committed(2)
    assert rig.sink.answered == ["1"]


async def test_the_window_bounds_what_is_taken_and_frees_itself(rig):
    """Rule 4: the partition pauses at the bound rather than lose order or patience."""
    rig.log.batch = 1
    rig.sink.hold(0)
    await rig.publish(*(an_event(n, f"k{n}") for n in range(30)))
    await rig.begin(window=8)
    await rig.answered(*range(1, 8))
    await rig.clock.advance(1)
    assert rig.sink.answered == [str(n) for n in range(1, 8)]
    assert rig.consumer.paused == {Partition("orders", 0)}
    rig.sink.release(0)
    while rig.log.committed(GROUP, Partition("orders", 0)) < 30:
        await rig.clock.advance(0.1)
    assert rig.consumer.paused == set()


async def test_one_partition_at_its_bound_does_not_stop_the_others(rig):
    await rig.log.create_topic("orders", 2)
    keys = {
        0: "21",
        1: next(k for k in map(str, range(99)) if _partition(k) == 1 - _partition("21")),
    }
    stuck = _partition("21")
    rig.log.batch = 1
    rig.sink.hold(0)
    await rig.publish(*(an_event(n, keys[0]) for n in range(10)))
    await rig.publish(*(an_event(n, keys[1]) for n in range(10, 40)))
    await rig.begin(window=4)
    await rig.committed(30, 1 - stuck)
    assert rig.log.committed(GROUP, Partition("orders", stuck)) == 0


async def test_a_message_whose_partition_is_in_doubt_is_not_sent(rig):
    """Rule 5: the lease is looked at before each attempt, by the monotonic clock."""
    await rig.begin()
    rig.consumer.leases = False
    await rig.publish(an_event(0))
    await until(lambda: rig.status.waiting == 1)
    await rig.clock.advance(1)
    assert rig.sink.requests == []
    rig.consumer.leases = True
    await rig.clock.advance(0.2)
    await rig.answered(0)
    await rig.committed(1)


async def test_a_revoked_partition_settles_what_is_on_the_wire_and_forgets_the_rest(rig, orders):
    """Rule 5, and design: settle what is finished, forget the rest, before the hand-over."""
    rig.sink.hold(0)
    await rig.publish(an_event(0), an_event(1), an_event(2))
    await rig.begin()
    await until(lambda: rig.sink.flying == 1)
    rig.log.revoke(GROUP, [orders])
    await until(lambda: rig.status.held == 1)
    rig.sink.release(0)
    await until(lambda: rig.status.partitions == ())
    await until(lambda: rig.consumer.owned == {})
    assert rig.log.committed(GROUP, orders) == 1
    assert rig.sink.ids == ["0"]
    rig.log.give(GROUP, [orders])
    await rig.committed(3)
    assert rig.sink.ids == ["0", "1", "2"]


async def test_the_hand_over_waits_only_so_long(rig, orders):
    rig.sink.hold(0)
    await rig.publish(an_event(0), an_event(1))
    await rig.begin()
    await until(lambda: rig.sink.flying == 1)
    rig.log.revoke(GROUP, [orders])
    await until(lambda: rig.status.held == 1)
    await rig.clock.advance(4.9)
    assert rig.status.partitions
    await rig.clock.advance(0.2)
    await until(lambda: rig.status.partitions == ())
    rig.sink.release(0)
    await until(lambda: rig.status.held == 0)
    assert rig.log.committed(GROUP, orders) == 0, "landed too late: it is the next owner's now"


async def test_a_lost_partition_is_dropped_without_settling(rig, orders):
    rig.sink.hold(0)
    await rig.publish(an_event(0, "a"), an_event(1, "a"))
    await rig.begin()
    await until(lambda: rig.sink.flying == 1)
    rig.log.lose(GROUP, [orders])
    await until(lambda: rig.status.partitions == ())
    rig.sink.answer(0, SinkAnswer(415))
    rig.sink.release(0)
    await until(lambda: rig.status.held == 0)
    assert rig.log.committed(GROUP, orders) == 0
    assert rig.store.letters.rows == [], "the next owner decides"


async def test_a_partition_given_anew_without_a_word_begins_from_its_commit(rig, orders):
    """What is held under the epoch before can never be settled, and must not block its key."""
    rig.sink.answer(0, FAILS)
    await rig.publish(an_event(0), an_event(1))
    await rig.begin(retry={"schedule": ["1h"]})
    await until(lambda: rig.status.waiting == 1)
    rig.log.give(GROUP, [orders])
    await rig.committed(2)
    assert rig.sink.answered == ["0", "0", "1"]


async def test_ownership_is_noted_in_the_store(rig, orders):
    """Rule 5: so that an owner before us can bury nothing any more."""
    await rig.begin()
    await until(lambda: rig.store.owners.epochs == {orders: 1})


async def test_stop_finishes_what_is_on_the_wire_and_releases_the_rest(rig, orders):
    """Rule 11."""
    rig.sink.hold(0)
    await rig.publish(an_event(0), an_event(1))
    await rig.begin()
    await until(lambda: rig.sink.flying == 1)
    stopping = asyncio.create_task(rig.dispatcher.stop(5.0))
    await rig.clock.rest()
    assert not stopping.done()
    rig.sink.release(0)
    await stopping
    await rig.task
    assert rig.sink.ids == ["0"]
    assert rig.log.committed(GROUP, orders) == 1
    assert rig.consumer.closed
    assert rig.status.state == "stopped"


async def test_a_word_of_the_store_does_not_end_a_stop(rig, orders):
    """Rule 11: the store is followed until the subscriptions have ended, and may say that none is halted."""
    rig.sink.hold(0)
    await rig.publish(an_event(0), an_event(1))
    await rig.begin(concurrency=1)
    await until(lambda: rig.sink.flying == 1)
    stopping = asyncio.create_task(rig.dispatcher.stop(5.0))
    await rig.clock.rest()
    rig.dispatcher.enable()
    rig.sink.release(0)
    await stopping
    await rig.task
    assert rig.sink.ids == ["0"]


async def test_what_was_read_at_the_start_is_older_than_what_was_told_meanwhile(rig, monkeypatch):
    """It was resumed while it began: it stayed paused, and the store said that it was not."""
    await rig.store.halts.halt("billing", "paused", "by Alice", 0)
    found, asked, answer = await rig.store.halts.all(), asyncio.Event(), asyncio.Event()

    async def slowly():
        asked.set()
        await answer.wait()
        return found

    monkeypatch.setattr(rig.store.halts, "all", slowly)
    await rig.publish(an_event(0))
    beginning = asyncio.create_task(rig.begin())
    await asked.wait()
    rig.dispatcher.enable()
    answer.set()
    await beginning
    await until(lambda: rig.sink.answered == ["0"])


async def test_stop_waits_no_longer_than_the_drain(rig, orders):
    rig.sink.hold(0)
    await rig.publish(an_event(0))
    await rig.begin()
    await until(lambda: rig.sink.flying == 1)
    await rig.stop(5.0)
    assert rig.log.committed(GROUP, orders) == 0
    assert rig.consumer.closed


async def test_a_waiting_event_does_not_hold_up_the_stop(rig):
    rig.sink.answer(0, FAILS)
    await rig.publish(an_event(0))
    await rig.begin(retry={"schedule": ["24h"]})
    await until(lambda: rig.status.waiting == 1)
    await rig.dispatcher.stop(25.0)
    await rig.task


async def test_a_position_outside_the_log_stops_the_subscription_and_says_so(rig):
    """Rule 10: it asks, rather than skip."""
    await rig.begin()
    rig.log.trouble.append(PositionOutOfRange("5 is before the earliest, 10"))
    rig.log.wake()
    await rig.task
    assert rig.status.state == "stopped"
    assert "position out of range" in rig.status.cause


@pytest.mark.parametrize("trouble", [BrokerUnavailable("away"), BrokerRefused("not authorised")])
async def test_a_member_that_its_broker_failed_is_closed_and_the_run_ends(rig, trouble):
    """It may own nothing from now on without a word: the supervisor begins anew, and says so."""
    await rig.begin()
    rig.log.trouble.append(trouble)
    rig.log.wake()
    with pytest.raises(ExceptionGroup) as error:
        await rig.task
    assert error.group_contains(type(trouble))
    assert rig.consumer.closed


async def test_an_ended_run_that_is_enabled_sends_nothing(rig):
    """Somebody may enable a subscription at any moment, also while it waits to begin anew."""
    rig.sink.hold(0)
    await rig.publish(an_event(0), an_event(1), an_event(2, "other"))
    await rig.begin(concurrency=1)
    await until(lambda: rig.sink.ids == ["0"])
    rig.log.trouble.append(PositionOutOfRange("5 is before the earliest, 10"))
    rig.log.wake()
    await rig.clock.advance(5)
    await rig.task
    rig.dispatcher.enable()
    assert rig.status.state == "stopped"
    assert rig.sink.ids == ["0"]


async def test_the_loop_has_its_turn_while_the_filters_of_a_batch_fail(rig):
    """A batch of events with many expressions each is no single step of the loop."""
    expressions = [{"sql": f"missing > {n}"} for n in range(SLICE)]
    rig.log.batch = 100
    await rig.publish(*(an_event(n) for n in range(100)))
    longest = before = 0

    def failed():
        return sum(rig.counters.values().get("filter_errors", {}).values())

    async def watch():
        nonlocal longest, before
        while True:
            longest, before = max(longest, failed() - before), failed()
            await asyncio.sleep(0)

    watching = asyncio.create_task(watch())
    await rig.begin(filters=[{"any": expressions}])
    await rig.committed(100)
    watching.cancel()
    assert failed() == 100 * SLICE
    assert longest <= SLICE


async def test_settled_messages_go_in_batches(rig):
    """Cost: one settle a turn, not one a message."""
    await rig.publish(*(an_event(n, f"k{n}") for n in range(1000)))
    await rig.begin()
    await rig.committed(1000)
    assert rig.consumer.settle_calls < 100


async def test_failures_are_told_in_one_wide_line_and_successes_are_counted(rig, caplog):
    """Reliability: an operator asks why something did not arrive. Data is never logged."""
    rig.sink.answer(0, SinkAnswer(415, body=b"what is this?"))
    await rig.publish(an_event(0), an_event(1))
    with caplog.at_level(logging.INFO, "skybridge.attempts"):
        await rig.begin()
        await rig.committed(2)
    (line,) = [one for one in caplog.records if one.name == "skybridge.attempts"]
    fields = vars(line)
    assert (line.getMessage(), fields["event_id"]) == ("attempt", "0")
    assert (fields["status"], fields["number"]) == (415, 1)
    assert "what is this?" not in str(fields), "a target may echo the event"
    assert "what is this?" in rig.store.letters.rows[0].detail
    counted = rig.counters.values()
    assert counted["attempts"] == {("billing", "4xx"): 1, ("billing", "2xx"): 1}
    assert sum(counted["answers"].values()) == 2
    assert counted["answers"]["billing", "415"] == 1


@pytest.mark.parametrize("way", ["send", "begin", "answer"])
async def test_a_bug_ends_the_run_rather_than_go_unseen(rig, way):
    """Also a bug beyond the callback of an attempt without a task, where no task fails by itself."""

    async def broken(request):
        raise ZeroDivisionError

    def begin(*_):
        raise ZeroDivisionError

    rig.sink.begins = way != "send"
    if way == "send":
        rig.sink.send = broken
    else:
        part, name = (rig.sink, "begin") if way == "begin" else (rig.attempts, "note")
        setattr(part, name, begin)
    await rig.publish(an_event(0))
    await rig.begin()
    with pytest.raises(ExceptionGroup) as error:
        await rig.task
    assert error.group_contains(ZeroDivisionError)
    assert rig.log.committed(GROUP, Partition("orders", 0)) == 0


async def test_a_stop_ends_attempts_without_a_task_after_the_drain(rig):
    rig.sink.hold(0)
    await rig.publish(an_event(0))
    await rig.begin()
    await until(lambda: rig.sink.flying == 1)
    await rig.stop(drain=0.2)
    await until(lambda: rig.sink.flying == 0)
    assert rig.sink.answered == []
    assert rig.log.committed(GROUP, Partition("orders", 0)) == 0


def _partition(key):
    from app.routing.partitions import partition_of

    return partition_of(key.encode(), 2)


async def test_an_event_that_is_all_headers_counts_as_held(rig):
    """Rule 8: 64 KiB of headers an event, times the window, is memory as much as bodies are."""
    await rig.publish(*(an_event(n, f"k{n}", note="x" * 60_000) for n in range(1_000)))
    rig.log.batch = 50
    rig.sink.hold(*range(1_000))
    await rig.begin()
    await until(lambda: rig.status.held >= 50)
    while not rig.consumer.paused:  # not for a moment's fullness
        await rig.clock.advance(0.1)
    assert 50 <= rig.status.held < 700


def test_a_hand_over_ends_before_the_log_stops_waiting_for_it():
    """What is settled after the log has let go is void, and comes again (reliability 5.1)."""
    handover = KafkaSettings(name="kafka", bootstrap_servers="broker.example:9092").handover
    assert handover > HAND_OVER
    assert GroupTimes().rebalance_timeout > HAND_OVER


async def test_the_dead_letter_of_an_almost_valid_event_bears_its_name(rig):
    """An operator finds it by the id, source and type that it had; also once it was given back."""
    from app.interfaces import DeadLetterFilter

    await rig.publish(an_event(1, time="yesterday"))
    await rig.begin()
    await rig.committed(1)
    (letter,) = rig.store.letters.rows
    assert (letter.cause, letter.event.id, letter.event.source, letter.event.type) == (
        "foreign",
        "1",
        "/t",
        "t",
    )
    await rig.store.letters.redrive(DeadLetterFilter(event_id="1"), rate=0, now_ms=0, limit=9)
    rig.dispatcher.look()
    await until(lambda: [each.event.id for each in rig.store.letters.rows] == ["1"])
