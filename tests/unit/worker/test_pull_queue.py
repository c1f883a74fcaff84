"""The way of a message from its log to those who wait to be pulled."""

from __future__ import annotations

import asyncio

import pytest
from msgspec.structs import replace

from app.bindings.record import ContentMode, Decoded, Record
from app.errors import BrokerUnavailable, StaleOwner, StoreFull, StoreUnavailable
from app.event.value import CloudEvent
from app.interfaces import DeadLetterFilter, DeliveryRequest, PullMessage, Replay
from app.model.message import Message, Partition
from app.sinks.pull_queue import (
    COUNT_EVERY,
    MAX_RECENT_BYTES,
    MAX_RECENT_EVENTS,
    STORED,
    PullQueueSink,
    RecentPullEvents,
    Wakeups,
)
from app.store import open_store
from pull_worker import GROUP, FailingTable, PullWorker, ids
from virtual_clock import VirtualClock
from worker_doubles import a_subscription, an_event

ALL = DeadLetterFilter()
FOREIGN = Record(b"k", (("ce_id", b"1"),), b"x")


@pytest.fixture
async def store(tmp_path):
    store = open_store(tmp_path / "store.db", timeout=60)
    await store.start()
    yield store
    await store.stop()


@pytest.fixture
async def pulling(store):
    pulling = PullWorker(store)
    await pulling.log.create_topic("orders", 1)
    await pulling.copies.create_topic("dead", 1)
    yield pulling
    await pulling.kill()


@pytest.fixture
def orders():
    return Partition("orders", 0)


async def committed(pulling, position):
    at = Partition("orders", 0)
    await pulling.until(lambda: pulling.log.committed(GROUP, at) == position)


async def begin_failing(pulling, fault):
    """With one event, and a store that has this to say until it is told otherwise."""
    pulling.store.pulled = FailingTable(pulling.store.pulled)
    pulling.store.pulled.failing = fault
    await pulling.publish(an_event(1))
    await pulling.begin()
    await pulling.until(lambda: str(fault) in pulling.status.cause)


async def test_what_is_a_row_is_settled(pulling):
    """Rule 2: finished for the log is what the store has."""
    await pulling.publish(*(an_event(n, f"k{n}") for n in range(20)))
    await pulling.begin()
    await committed(pulling, 20)
    assert ids(await pulling.receive()) == list(range(20))


async def test_nothing_is_settled_that_is_no_row(pulling):
    """Rule 2: while the store does not answer the log keeps it; nothing more is taken."""
    await begin_failing(pulling, StoreUnavailable("away"))
    assert pulling.log.committed(GROUP, Partition("orders", 0)) == 0
    consumer = pulling.log.members[GROUP][-1]
    await pulling.until(lambda: consumer.paused == {Partition("orders", 0)})
    pulling.store.pulled.failing = None
    await committed(pulling, 1)
    await pulling.until(lambda: not pulling.status.cause and not consumer.paused)


async def test_a_full_store_is_a_pause_and_no_loss(pulling):
    """Rule 8: a full bound pauses consumption."""
    await begin_failing(pulling, StoreFull("full"))
    pulling.store.pulled.failing = None
    await pulling.waiting(1)


async def test_a_store_that_was_away_holds_up_no_event_for_good(pulling):
    """Also those of keys that are more than one transaction takes."""
    pulling.store.pulled = FailingTable(pulling.store.pulled)
    pulling.store.pulled.failing = StoreUnavailable("away")
    await pulling.publish(*(an_event(n, f"k{n}") for n in range(1_200)))
    await pulling.begin(pull={"max_waiting": 5_000})
    await pulling.until(lambda: "away" in pulling.status.cause)
    pulling.store.pulled.failing = None
    await pulling.waiting(1_200)


async def test_large_events_of_a_replay_leave_room_for_live_ones(pulling, orders):
    """A range that is read again is never in a hurry."""
    await pulling.publish(*(an_event(n, f"k{n}", note="x" * 20_000) for n in range(600)))
    await pulling.begin(pull={"max_waiting": 5_000})
    await pulling.waiting(600)
    while rows := await pulling.receive(600):
        await pulling.acknowledge(rows)
    pulling.store.pulled = FailingTable(pulling.store.pulled)
    asked = Replay(subscription="billing", broker="log", partition=orders, next="0", until="600")
    await pulling.store.replays.ask([asked])
    pulling.dispatcher.look()
    await pulling.until(lambda: pulling.status.held > 0)
    assert pulling.status.held < 250  # of 43 kB each


async def test_filtered_events_are_finished_at_once(pulling):
    await pulling.publish(an_event(1, type="a"), an_event(2, type="b"), an_event(3, type="a"))
    await pulling.begin(filters=[{"exact": {"type": "b"}}])
    await committed(pulling, 3)
    assert ids(await pulling.receive()) == [2]
    assert pulling.counted("deliveries", "filtered") == 2


async def test_a_kill_between_row_and_commit_makes_no_second_row(pulling):
    """Rule 5: rows are unique by their place."""
    await pulling.publish(*(an_event(n, f"k{n}") for n in range(5)))
    await pulling.begin()
    await pulling.waiting(5)
    await pulling.kill()
    pulling.log.commits[GROUP][Partition("orders", 0)] = (0, "")
    await pulling.begin()
    await committed(pulling, 5)
    assert ids(await pulling.receive()) == list(range(5))


async def test_what_waits_is_told_from_the_start(pulling):
    """Also where nothing comes any more: those that wait are of another process, or of a run before."""
    await pulling.publish(*(an_event(n, f"k{n}") for n in range(5)))
    await pulling.begin()
    await committed(pulling, 5)
    await pulling.kill()
    await pulling.begin()
    await pulling.until(lambda: pulling.status.waiting == 5)
    await pulling.acknowledge(await pulling.receive())
    await pulling.until(lambda: pulling.status.waiting == 0)


async def test_at_the_bound_the_log_is_the_buffer(pulling, orders):
    """Rule 6: no more than max_waiting rows, and the rest stays unsettled in the log."""
    await pulling.publish(*(an_event(n, f"k{n}") for n in range(25)))
    await pulling.begin(pull={"max_waiting": 10})
    await pulling.waiting(10)
    await pulling.until(lambda: pulling.status.state == "paused")
    assert "max_waiting" in pulling.status.cause
    await committed(pulling, 10)
    consumer = pulling.log.members[GROUP][-1]
    await pulling.until(lambda: consumer.paused == {orders})
    taken = await pulling.receive(4)
    await pulling.acknowledge(taken)
    await committed(pulling, 14)
    await pulling.waiting(10)


async def test_a_full_queue_that_was_emptied_is_filled_in_one_transaction(pulling):
    """The probe is no event of its own: a transaction of one costs as much as one of many."""
    await pulling.publish(*(an_event(n, f"k{n}") for n in range(40)))
    await pulling.begin(pull={"max_waiting": 8})
    await pulling.waiting(8)
    await pulling.until(lambda: pulling.status.state == "paused")
    queue, sizes = pulling.store.pulled, []
    real = queue.offer

    async def offer(rows):
        sizes.append(len(rows))
        await real(rows)

    queue.offer = offer
    await pulling.acknowledge(await pulling.receive())
    await pulling.waiting(8)
    assert sizes == [8]


async def test_some_room_in_a_full_queue_is_filled_at_once(pulling):
    """A request that was too large is made again with what there is room for."""
    await pulling.publish(*(an_event(n, f"k{n}") for n in range(40)))
    await pulling.begin(pull={"max_waiting": 8})
    await pulling.waiting(8)
    await pulling.until(lambda: pulling.status.state == "paused")
    before = pulling.clock.monotonic()
    await pulling.acknowledge(await pulling.receive(3))
    await pulling.waiting(8)
    assert pulling.clock.monotonic() - before < COUNT_EVERY


async def test_a_queue_that_is_full_for_a_moment_lets_the_log_be_read_on(pulling):
    """A pause throws away what was read ahead: it would be read, and decoded, once more."""
    pulling.log.batch = 4
    await pulling.publish(*(an_event(n, f"k{n}", note="x" * 400_000) for n in range(60)))
    await pulling.begin(pull={"max_waiting": 4})
    await pulling.waiting(4)
    consumer, pauses = pulling.log.members[GROUP][-1], []
    real = consumer.pause

    def pause(partitions):
        pauses.append(partitions)
        real(partitions)

    consumer.pause = pause
    for _ in range(10):
        await pulling.acknowledge(await pulling.receive())
        async with asyncio.timeout(60):
            while await pulling.store.pulled.count("billing") != 4:
                await pulling.clock.advance(0.05)
                await asyncio.sleep(0.002)
        await pulling.clock.advance(0.1)
        await asyncio.sleep(0.002)
    assert len(pauses) <= 1  # before the first of them, perhaps


def remembered(number, size=10):
    record = Record(b"k", (), b"x" * size)
    event = Decoded(CloudEvent({"id": str(number)}, record.body), ContentMode.BINARY)
    message = Message(record, Partition("orders", 0), str(number), number, number, 1, event)
    return PullMessage(subscription="billing", broker="log", message=message, lane=b"k")


def test_an_event_is_remembered_until_it_is_handed_out():
    recent, row = RecentPullEvents(), remembered(1)
    recent.add([row])
    assert recent.take(row) is row.message.decoded
    assert recent.take(row) is None


@pytest.mark.parametrize(
    "other",
    [
        {"record": Record(b"k", (), b"another")},
        {"time_ms": 77},
        {"partition": Partition("orders", 1)},
        {"position": "2"},
    ],
)
def test_what_is_remembered_is_of_that_very_message(other):
    """A topic that was created again has other messages at the same positions."""
    recent, row = RecentPullEvents(), remembered(1)
    recent.add([row])
    assert recent.take(replace(row, message=replace(row.message, **other))) is None


def test_the_oldest_events_are_forgotten_first():
    """Rule 8: by their number, and by their bytes; headers count."""
    recent, rows = RecentPullEvents(), [remembered(n) for n in range(MAX_RECENT_EVENTS + 1)]
    recent.add(rows)
    assert (recent.take(rows[0]), len(recent)) == (None, MAX_RECENT_EVENTS)
    recent.add([remembered(n, MAX_RECENT_BYTES // 4) for n in range(5)])
    assert len(recent) <= 4


async def test_room_that_another_process_made_is_found(pulling):
    """No word comes from there: it is looked for."""
    await pulling.publish(*(an_event(n, f"k{n}") for n in range(8)))
    await pulling.begin(pull={"max_waiting": 4})
    await pulling.waiting(4)
    tokens = [row.token for row in await pulling.receive()]
    await pulling.store.pulled.acknowledge("billing", tokens, pulling.now_ms)
    await pulling.until(lambda: pulling.status.held == 0)
    await pulling.waiting(4)
    assert sorted(ids(await pulling.receive())) == [4, 5, 6, 7]


async def test_a_subscription_at_its_bound_does_not_ask_the_store_all_the_time(pulling):
    """A thousand of them would."""
    pulling.store.pulled = FailingTable(pulling.store.pulled)
    await pulling.publish(*(an_event(n, f"k{n}") for n in range(8)))
    await pulling.begin(pull={"max_waiting": 4})
    await pulling.waiting(4)
    await pulling.until(lambda: pulling.status.state == "paused")
    before = pulling.store.pulled.calls
    await pulling.clock.advance(3)
    assert pulling.store.pulled.calls <= before + 5


async def test_an_empty_queue_is_counted_and_not_looked_through(pulling):
    """A thousand that nobody uses are looked at every five seconds."""
    pulling.store.pulled = FailingTable(pulling.store.pulled)
    await pulling.begin()
    queue = pulling.store.pulled
    await pulling.until(lambda: queue.calls >= 4)
    assert queue.asked == {"count"}


async def test_a_count_forgets_nothing_that_was_stored_meanwhile(store):
    """What the store counted before a transaction does not know of it."""
    subscription = a_subscription(sink={"pull": {"max_waiting": 3}})
    queue = FailingTable(store.pulled)
    sink = PullQueueSink(subscription, queue, VirtualClock(), Wakeups(), 3, lambda: 0.5)
    await sink.count()
    asked, counted = asyncio.Event(), asyncio.Event()

    async def count(_: str) -> int:
        asked.set()
        await counted.wait()
        return 0

    queue.count = count
    counting = asyncio.create_task(sink.count())
    await asked.wait()
    orders = Partition("orders", 0)
    messages = [Message(an_event(n), orders, str(n), n, 0, 1) for n in range(3)]
    offer = [sink.piece(DeliveryRequest(each, None, 1.0)) for each in messages]
    assert await sink.send_together(offer, 1.0) == STORED
    counted.set()
    await counting
    assert sink.queued() == 3


async def test_what_a_full_queue_refuses_was_not_tried(pulling):
    """It is found among what waits, as what is behind it."""
    await pulling.publish(*(an_event(n, f"k{n}") for n in range(8)))
    await pulling.begin(pull={"max_waiting": 4})
    await pulling.waiting(4)
    await pulling.until(lambda: pulling.status.state == "paused")
    await pulling.clock.advance(3)
    waiting = pulling.dispatcher.waiting
    await pulling.until(lambda: all(waiting(str(n)) for n in range(4, 8)))


async def test_a_foreign_record_is_buried_before_it_is_settled(pulling):
    """on_foreign: dead_letter; the copy on its topic comes first (rule 2)."""
    pulling.copies.refusals.append(BrokerUnavailable("away"))
    await pulling.publish(FOREIGN, an_event(2))
    await pulling.begin(dead_letter={"broker": "copies", "topic": "dead"})
    await pulling.until(lambda: "away" in pulling.status.cause)
    assert pulling.log.committed(GROUP, Partition("orders", 0)) == 0
    assert await pulling.store.letters.find(ALL) == []
    await committed(pulling, 2)
    (letter,) = await pulling.store.letters.find(ALL)
    assert (letter.cause, letter.message.record) == ("foreign", FOREIGN)
    assert len(pulling.copies.partitions[Partition("dead", 0)]) == 1
    assert pulling.told == [("dead-lettered", "billing")]


@pytest.mark.parametrize("on_foreign", ["skip", "wrap"])
async def test_a_foreign_record_may_be_skipped_or_wrapped(pulling, on_foreign):
    await pulling.publish(FOREIGN, an_event(2, "other"))
    await pulling.begin(on_foreign=on_foreign)
    await committed(pulling, 2)
    assert len(await pulling.receive()) == (2 if on_foreign == "wrap" else 1)
    assert await pulling.store.letters.find(ALL) == []


async def test_what_was_handed_out_too_often_becomes_a_dead_letter(pulling):
    """max_deliveries; its topic has the copy, and the next of the key follows."""
    await pulling.publish(an_event(1), an_event(2))
    letters = {"broker": "copies", "topic": "dead"}
    await pulling.begin(pull={"max_deliveries": 2}, dead_letter=letters)
    await pulling.waiting(2)
    for _ in range(2):
        assert ids(await pulling.receive()) == [1]
        await pulling.clock.advance(61)
    await pulling.until(lambda: pulling.counted("dead_letters", "max-deliveries") == 1)
    (letter,) = await pulling.store.letters.find(ALL)
    assert (letter.cause, letter.attempts, letter.event.id) == ("max-deliveries", 2, "1")
    assert len(pulling.copies.partitions[Partition("dead", 0)]) == 1
    assert ids(await pulling.receive()) == [2]


async def test_what_is_redriven_waits_to_be_pulled_again(pulling):
    """Redrive gives dead letters back to the worker; where events are pulled they are rows again."""
    await pulling.publish(an_event(1))
    await pulling.begin(pull={"max_deliveries": 1})
    await pulling.waiting(1)
    await pulling.receive()
    await pulling.clock.advance(70)
    await pulling.until(lambda: pulling.counted("dead_letters", "max-deliveries") == 1)
    assert await pulling.store.letters.redrive(ALL, rate=0, now_ms=pulling.now_ms, limit=10) == 1
    pulling.dispatcher.look()  # as the API has it look: else it does once a minute
    await pulling.waiting(1)
    (row,) = await pulling.receive()
    assert (ids([row]), row.deliveries) == ([1], 1)
    assert await pulling.store.parked.find() == []


async def test_nothing_is_offered_while_the_lease_is_in_doubt(pulling):
    """Rule 5, by the monotonic clock and without asking anybody."""
    await pulling.begin()
    consumer = pulling.log.members[GROUP][-1]
    consumer.leases = False
    await pulling.publish(an_event(1))
    await pulling.until(lambda: pulling.status.held == 1)
    await pulling.clock.advance(10)
    assert await pulling.store.pulled.count("billing") == 0
    consumer.leases = True
    await pulling.waiting(1)


async def test_an_owner_that_was_replaced_writes_nothing(pulling, orders):
    """Rule 5: the store refuses what comes under its epoch. Where the log disagrees, it begins anew."""
    await pulling.begin()
    await pulling.store.owners.own("billing", "log", [orders], 99)
    await pulling.publish(an_event(1))
    await pulling.until(pulling.task.done)
    assert pulling.task.exception().split(StaleOwner)[1] is None
    assert await pulling.store.pulled.count("billing") == 0


async def test_a_lost_partition_is_forgotten(pulling, orders):
    """What was taken and is no row concerns others now."""
    await pulling.publish(*(an_event(n, f"k{n}") for n in range(8)))
    await pulling.begin(pull={"max_waiting": 4})
    await pulling.until(lambda: pulling.status.held == 4)
    pulling.log.lose(GROUP, [orders])
    await pulling.until(lambda: not pulling.status.partitions)
    await pulling.until(lambda: pulling.status.held == 0)


async def test_a_stop_leaves_in_the_log_what_is_no_row(pulling, orders):
    """Rule 11; the place is committed."""
    await pulling.publish(*(an_event(n, f"k{n}") for n in range(8)))
    await pulling.begin(pull={"max_waiting": 4})
    await pulling.until(lambda: pulling.status.held == 4)
    await pulling.stop()
    assert pulling.status.state == "stopped"
    assert pulling.log.committed(GROUP, orders) == 4


async def test_a_paused_one_takes_nothing(pulling):
    await pulling.store.halts.halt("billing", "paused", "holiday", 1)
    await pulling.publish(an_event(1))
    await pulling.begin()
    await pulling.until(lambda: pulling.status.state == "paused")
    assert "holiday" in pulling.status.cause
    await pulling.clock.advance(5)
    assert await pulling.store.pulled.count("billing") == 0
    pulling.dispatcher.enable()
    await pulling.waiting(1)


async def test_a_replay_is_offered_once_more(pulling, orders):
    """A range again, filters and order kept; how far it is stands in the store until it is through."""
    await pulling.publish(*(an_event(n, "k") for n in range(6)))
    await pulling.begin()
    await pulling.waiting(6)
    while rows := await pulling.receive():
        await pulling.acknowledge(rows)
    asked = Replay(subscription="billing", broker="log", partition=orders, next="1", until="4")
    await pulling.store.replays.ask([asked])
    pulling.dispatcher.look()
    await pulling.waiting(3)
    found = []
    while rows := await pulling.receive():
        found += ids(rows)
        await pulling.acknowledge(rows)
    assert found == [1, 2, 3]
    await pulling.until_none(pulling.store.replays.all)
    await committed(pulling, 6)


async def test_a_replay_keeps_its_rate_and_the_bound(pulling, orders):
    await pulling.publish(*(an_event(n, f"k{n}") for n in range(40)))
    await pulling.begin(pull={"max_waiting": 8})
    found = []
    while len(found) < 40:
        rows = await pulling.receive()
        found += rows
        await pulling.acknowledge(rows)
        await pulling.clock.advance(0.5)
    asked = Replay(
        subscription="billing", broker="log", partition=orders, next="0", until="40", rate=4.0
    )
    await pulling.store.replays.ask([asked])
    began = pulling.clock.monotonic()
    pulling.dispatcher.look()
    again = []
    while len(again) < 40:
        rows = await pulling.receive()
        assert len(rows) <= 8
        again += rows
        await pulling.acknowledge(rows)
        await pulling.clock.advance(0.1)
    assert pulling.clock.monotonic() - began >= 36 / 4


async def test_one_without_partitions_waits_for_them_in_peace(pulling, orders):
    """Nothing to do is no reason to ask the log all the time."""
    await pulling.begin()
    pulling.log.lose(GROUP, [orders])
    await pulling.until(lambda: not pulling.status.partitions)
    pulling.dispatcher.look()
    consumer, polls = pulling.log.members[GROUP][-1], 0
    real = consumer.poll

    async def counted(wait):
        nonlocal polls
        polls += 1
        return await real(wait)

    consumer.poll = counted
    await asyncio.sleep(0.3)
    assert polls <= 3


async def test_an_empty_queue_is_counted_once_a_minute(pulling):
    """A thousand pull subscriptions asked the store two hundred times a second, for queues without an event."""
    pulling.store.pulled = table = FailingTable(pulling.store.pulled)
    await pulling.begin()
    await pulling.until(lambda: table.calls)
    table.calls = 0
    await pulling.clock.advance(59)
    assert table.calls == 0
    await pulling.until(lambda: table.calls)
    await pulling.publish(an_event(1))
    await committed(pulling, 1)
    table.asked.clear()
    await pulling.until(lambda: "worn_out" in table.asked)
