"""Redriven rows are found in time, whatever happens while they are looked for."""

from __future__ import annotations

import asyncio

import pytest
from msgspec.structs import replace

from app.interfaces import DeadLetter, DeadLetterFilter, EventName, SinkAnswer
from app.model.message import Message, Partition
from scripted_batch_sink import ScriptedBatchSink
from waiting import until
from worker_doubles import OK, an_event

ORDERS = Partition("orders", 0)
MINUTE = 60.0


class Slow:
    """Stands before the rows of a store: the answer to a question is held back once it is known."""

    def __init__(self, rows):
        self._rows = rows
        self.asked = asyncio.Event()
        self.gate = asyncio.Event()
        self.gate.set()

    def __getattr__(self, name):
        return getattr(self._rows, name)

    async def redriven(self, *place, **choice):
        found = await self._rows.redriven(*place, **choice)
        self.asked.set()
        await self.gate.wait()
        return found


def a_letter(number, epoch):
    record = an_event(number, f"k{number}")
    message = Message(record, ORDERS, f"x{number}", number, 0, epoch)
    return DeadLetter(
        subscription="billing",
        broker="log",
        message=message,
        cause="status-415",
        detail="",
        attempts=1,
        status=415,
        at_ms=0,
        lane=f"k{number}".encode(),
        event=EventName(str(number)),
    )


async def redrive(rig, *numbers):
    epoch = rig.store.owners.epochs.get(ORDERS, 0)
    for number in numbers:
        await rig.store.letters.add(a_letter(number, epoch))
    now_ms = int(rig.clock.now() * 1000)
    await rig.store.letters.redrive(DeadLetterFilter(), rate=0, now_ms=now_ms, limit=100)


def slowly(rig):
    rig.store.parked = Slow(rig.store.parked)
    return rig.store.parked


async def test_rows_that_come_while_others_are_looked_for_are_found_at_once(rig):
    """Word of them must not be forgotten because a look that saw none of them ends later."""
    rows = slowly(rig)
    rows.gate.clear()
    await rig.begin()
    await rows.asked.wait()
    await redrive(rig, 100, 101)
    rig.dispatcher.look()
    rows.gate.set()
    await until(lambda: sorted(rig.sink.answered) == ["100", "101"])


async def test_a_row_that_fails_while_others_are_looked_for_is_tried_again_in_its_time(rig):
    """Its wait is of the schedule, not until somebody looks again by chance."""
    rows = slowly(rig)
    rig.sink.answer(100, SinkAnswer(409))
    rig.sink.hold(100)
    await redrive(rig, 100)
    await rig.begin(retry={"schedule": ["10s", "10s"]})
    await until(lambda: "100" in rig.sink.ids)
    rows.asked.clear()
    rows.gate.clear()
    rig.dispatcher.look()
    await rows.asked.wait()
    rig.sink.release(100)
    await until(lambda: rig.sink.answered == ["100"])
    await rig.clock.rest()
    rows.gate.set()
    await rig.clock.rest()
    await rig.clock.advance(MINUTE)
    await until(lambda: rig.sink.answered == ["100", "100"])


async def test_none_is_sent_of_a_partition_that_is_being_handed_over(rig):
    """Rule 11: what is on the wire has its time, and no more begins."""
    rig.sink.hold(0)
    await rig.publish(an_event(0), an_event(1))
    await rig.begin()
    await until(lambda: rig.sink.flying == 1 and rig.status.held == 2)
    rig.log.revoke("skybridge.test.billing", [ORDERS])
    await until(lambda: rig.status.held == 1)  # the revocation is known
    await redrive(rig, 100)
    for _ in range(20):
        rig.dispatcher.look()
        await rig.clock.advance(0.1)
        await asyncio.sleep(0.002)
    assert rig.status.partitions, "it is being handed over still"
    assert rig.sink.ids == ["0"]


BUSY = SinkAnswer(409)


def a_letter_of(number, key, epoch):
    return replace(a_letter(number, epoch), lane=key.encode())


async def given_up(rig, *letters):
    """Letters, each by its number and key."""
    epoch = rig.store.owners.epochs.get(ORDERS, 0)
    for number, key in letters:
        await rig.store.letters.add(a_letter_of(number, key, epoch))


async def give_back(rig, *ids, **choice):
    now_ms = int(rig.clock.now() * 1000)
    choice = DeadLetterFilter(ids=ids, **choice)
    given = await rig.store.letters.redrive(choice, rate=0, now_ms=now_ms, limit=1_000)
    if rig.dispatcher is not None:
        rig.dispatcher.look()
    return given


async def all_gone(rig):
    while rig.store.parked.rows_by_id:
        await rig.clock.advance(0.5)


async def test_letters_of_a_lane_go_in_their_order_also_when_one_is_retried(rig):
    """Issue 35, 5: today 0, 1, 2, 3, 0."""
    await given_up(rig, *((100 + n, "k") for n in range(4)))
    rig.sink.answer(100, SinkAnswer(503))
    await give_back(rig)
    await rig.begin(retry={"schedule": ["10s", "10s"]})
    await until(lambda: rig.sink.answered == ["100"])
    await rig.clock.advance(4)
    assert rig.sink.answered == ["100"]
    await all_gone(rig)
    assert rig.sink.answered == ["100", "100", "101", "102", "103"]


@pytest.mark.parametrize("failing", [(101,), (100, 102), (103,), (100, 101, 102, 103)])
async def test_each_waits_for_the_one_before_it_and_nobody_else_does(rig, failing):
    """Letters without a key, of other keys, and live events of the key go on meanwhile."""
    lanes = [(100 + n, "k") for n in range(4)]
    await given_up(rig, *lanes, (200, "o1"), (201, "o2"))
    for number in failing:
        rig.sink.answer(number, BUSY, BUSY)
    await give_back(rig)
    await rig.begin(retry={"schedule": ["10s", "10s", "10s"]})
    await until(lambda: {"200", "201"} <= set(rig.sink.answered))
    await until(lambda: str(failing[0]) in rig.sink.answered)
    await rig.publish(an_event(0, "k"), an_event(1, "k"))
    await until(lambda: {"0", "1"} <= set(rig.sink.answered))
    assert rig.status.waiting == 0
    await all_gone(rig)
    done = [each for each in rig.sink.answered if each.startswith("10")]
    expected = [str(n) for n, _ in lanes for _ in range(3 if n in failing else 1)]
    assert done == expected


async def test_one_that_dies_again_lets_the_next_go(rig):
    await given_up(rig, *((100 + n, "k") for n in range(3)))
    rig.sink.answer(100, BUSY, BUSY)
    rig.sink.answer(101, SinkAnswer(415))
    await give_back(rig)
    await rig.begin(retry={"schedule": ["10s"]})
    await all_gone(rig)
    assert rig.sink.answered == ["100", "100", "101", "102"]
    assert [(each.cause, each.event.id) for each in rig.store.letters.rows] == [
        ("schedule-exhausted", "100"),
        ("status-415", "101"),
    ]


async def test_a_second_redrive_does_not_overtake_the_first(rig):
    await given_up(rig, *((100 + n, "k") for n in range(4)))
    rig.sink.answer(100, BUSY)
    await give_back(rig, 1, 2)
    await rig.begin(retry={"schedule": ["10s", "10s"]})
    await until(lambda: rig.sink.answered == ["100"])
    await give_back(rig, 3, 4)
    await rig.clock.advance(4)
    assert rig.sink.answered == ["100"]
    await all_gone(rig)
    assert rig.sink.answered == ["100", "100", "101", "102", "103"]


async def test_earlier_letters_of_a_second_redrive_go_first(rig):
    """What is on the wire cannot be called back; what waits behind it, or for its next attempt, lets them go."""
    await given_up(rig, *((100 + n, "k") for n in range(4)))
    rig.sink.answer(102, BUSY)
    rig.sink.hold(102)
    await give_back(rig, 3, 4)
    await rig.begin(retry={"schedule": ["10s", "10s"]})
    await until(lambda: rig.sink.flying == 1)
    await give_back(rig, 1, 2)
    await rig.clock.advance(0.5)
    rig.sink.release(102)
    await all_gone(rig)
    assert rig.sink.answered == ["102", "100", "101", "102", "103"]


async def test_the_order_holds_where_more_wait_than_are_held_and_through_a_kill(rig):
    numbers = range(100, 130)
    await given_up(rig, *((n, "k") for n in numbers))
    rig.sink.answer(100, BUSY)
    rig.sink.answer(115, BUSY)
    await give_back(rig)
    await rig.begin(concurrency=2, retry={"schedule": ["10s", "10s"]})
    await until(lambda: rig.sink.answered == ["100"])
    await rig.clock.advance(0.5)
    await rig.kill()
    await rig.begin(concurrency=2, retry={"schedule": ["10s", "10s"]})
    await rig.clock.advance(3)
    assert rig.sink.answered == ["100"], "a new owner knows who waits"
    await all_gone(rig)
    expected = [str(n) for n in numbers for _ in range(2 if n in (100, 115) else 1)]
    assert rig.sink.answered == expected


async def test_no_letter_that_is_found_as_an_earlier_one_fails_overtakes_it(rig):
    """The answer of the store was made before the failure."""
    rows = slowly(rig)
    await given_up(rig, *((100 + n, "k") for n in range(12)))
    rig.sink.answer(100, BUSY)
    rig.sink.hold(100)
    await give_back(rig)
    await rig.begin(concurrency=1, retry={"schedule": ["10s", "10s"]})
    await until(lambda: rig.sink.flying == 1)
    rows.asked.clear()
    rows.gate.clear()
    rig.dispatcher.look()
    await rows.asked.wait()
    rig.sink.release(100)
    await until(lambda: rig.sink.answered == ["100"])
    await rig.clock.rest()
    rows.gate.set()
    await rig.clock.advance(3)
    assert rig.sink.answered == ["100"]
    await all_gone(rig)
    assert rig.sink.answered == ["100", *(str(100 + n) for n in range(12))]


async def test_a_target_that_cannot_be_reached_keeps_the_letters_and_their_order(rig):
    down = SinkAnswer(None, "connect", "refused")
    await given_up(rig, *((100 + n, "k") for n in range(3)))
    rig.sink.answer(100, *[down] * 4)
    await give_back(rig)
    await rig.begin(retry={"schedule": ["1s"]})
    await rig.state("paused")
    await rig.publish(an_event(0, "other"))
    await all_gone(rig)
    assert [each for each in rig.sink.answered if each != "0"] == ["100"] * 5 + ["101", "102"]
    assert rig.store.letters.rows == []


async def test_letters_of_a_request_of_several_keep_their_order(rig):
    """The head of the lane waits, and those that were in its request wait behind it."""
    await given_up(rig, *((100 + n, "k") for n in range(4)))
    rig.sink = ScriptedBatchSink(lambda ids: OK if len(rig.sink.sent) > 1 else SinkAnswer(503))
    await give_back(rig)
    await rig.begin(batch={"max_events": 10}, retry={"schedule": ["10s", "10s"]})
    await until(lambda: len(rig.sink.sent) == 1)
    await rig.clock.advance(3)
    assert len(rig.sink.sent) == 1
    await all_gone(rig)
    assert [each for ids in rig.sink.sent[1:] for each in ids] == ["100", "101", "102", "103"]
