"""Redriven rows are found in time, whatever happens while they are looked for."""

from __future__ import annotations

import asyncio

from app.interfaces import DeadLetter, LetterChoice, SinkAnswer
from app.model.message import Message, Partition
from worker_doubles import an_event, until

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
    )


async def redrive(rig, *numbers):
    epoch = rig.store.owners.epochs.get(ORDERS, 0)
    for number in numbers:
        await rig.store.letters.add(a_letter(number, epoch))
    now_ms = int(rig.clock.now() * 1000)
    await rig.store.letters.redrive(LetterChoice(), rate=0, now_ms=now_ms, limit=100)


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
