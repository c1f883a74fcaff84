"""Deliveries of a broker that sends what is unfinished again, and again."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any

from _pulsar import MessageBuilder, MessageId, Result

from app.brokers.pulsar.bridge import Bridge
from app.brokers.pulsar.seat import STANDBY, Seat
from app.model.message import Message, Partition


class Raw:
    """A message of the client library, at an entry of ledger 1."""

    def __init__(self, entry: int) -> None:
        self._message = MessageBuilder().content(b"%d" % entry).build()
        self._id = MessageId(-1, 1, entry, -1)

    def message_id(self) -> MessageId:
        return self._id

    def __getattr__(self, name: str) -> Any:
        return getattr(self._message, name)


class Handle:
    """A consumer of the client library: receives wait until a message is pushed."""

    def __init__(self) -> None:
        self.receives: list[Callable[..., None]] = []
        self.acknowledged: list[int] = []

    def receive_async(self, callback: Callable[..., None]) -> None:
        self.receives.append(callback)

    def acknowledge_async(self, message_id: MessageId, _callback: object) -> None:
        self.acknowledged.append(message_id.entry_id())

    def is_connected(self) -> bool:
        return True


class Bench:
    """One seat, and what the broker sends it."""

    def __init__(self, ahead: int = 10) -> None:
        self.handle = Handle()
        self.rewinds = 0
        self.seat = Seat(
            Partition("t", 0), "t-partition-0", Bridge(asyncio.get_running_loop()), ahead=ahead,
            arrived=lambda _seat: None, rewound=self._rewound,
        )  # fmt: skip
        self.seat.take_place(self.handle)

    def _rewound(self, seat: Seat) -> None:
        self.rewinds += 1
        seat.let_go()
        seat.own(100 + self.rewinds)

    async def push(self, *entries: int) -> None:
        for entry in entries:
            self.handle.receives.pop(0)(Result.Ok, Raw(entry))
        await asyncio.sleep(0)
        await asyncio.sleep(0)

    def take(self) -> list[Message]:
        return self.seat.take(100)


def bodies(messages: list[Message]) -> list[bytes | None]:
    return [message.record.body for message in messages]


async def test_what_is_open_is_not_handed_out_twice_when_it_comes_again() -> None:
    """A connection that was lost and came back unseen: one delivery an ownership (rule 3)."""
    bench = Bench()
    bench.seat.own(1)
    await bench.push(0, 1, 2)
    taken = bench.take()
    await bench.push(0, 1, 2, 3)
    assert bodies(bench.take()) == [b"3"]
    assert bodies(taken) == [b"0", b"1", b"2"]


async def test_what_is_finished_and_comes_again_is_acknowledged_again() -> None:
    """The acknowledgement was lost with the connection; silence would let it come for ever."""
    bench = Bench()
    bench.seat.own(1)
    await bench.push(0, 1)
    first, _ = bench.take()
    bench.seat.settle(first)
    await bench.push(0, 1)
    assert bench.handle.acknowledged == [0, 0]
    assert bench.take() == []


async def test_a_broker_that_goes_back_before_the_first_starts_a_new_ownership() -> None:
    """Somebody else owned the partition in between: what is open here is void (rule 5)."""
    bench = Bench()
    bench.seat.own(1)
    await bench.push(5, 6)
    (five, _) = bench.take()
    await bench.push(3, 4, 5, 6)
    assert bench.rewinds == 1
    assert bodies(bench.take()) == [b"3", b"4", b"5", b"6"]
    bench.seat.settle(five)
    assert bench.handle.acknowledged == []


async def test_answers_that_overtake_each_other_are_put_in_the_order_of_asking() -> None:
    """The library answers a receive at once, on our thread, when it has a message at hand, past those
    that its own thread still waits to hand over. Taken as they come, the slow ones would be older than
    the newest, hence finished, hence acknowledged: lost."""
    bench = Bench()
    bench.seat.own(1)
    slow = [bench.handle.receives.pop(0) for _ in range(3)]
    await bench.push(3, 4)
    assert bench.take() == []
    for entry, answer in enumerate(slow):
        answer(Result.Ok, Raw(entry))
    await asyncio.sleep(0)
    assert bodies(bench.take()) == [b"0", b"1", b"2", b"3", b"4"]
    assert bench.handle.acknowledged == []


async def test_what_comes_before_ownership_is_told_waits_for_it() -> None:
    """The first delivery may be quicker than the news."""
    bench = Bench()
    await bench.push(0, 1)
    assert bench.seat.epoch == STANDBY
    bench.seat.own(1)
    assert bodies(bench.take()) == [b"0", b"1"]


async def test_what_came_to_a_former_owner_is_forgotten_and_what_came_since_is_not() -> None:
    """Leftovers of an ownership that is over are finished by others; what comes after the question
    may be the first of a new one, and nobody would send it again."""
    bench = Bench(ahead=3)
    await bench.push(0, 1)
    bench.seat.belongs_to_another(time.monotonic())
    assert len(bench.handle.receives) == 3
    asked = time.monotonic()
    await bench.push(7)
    bench.seat.belongs_to_another(asked)
    bench.seat.own(1)
    assert bodies(bench.take()) == [b"7"]


async def test_nothing_is_fetched_beyond_the_bound() -> None:
    """A paused partition must not fill the memory (rule 8)."""
    bench = Bench(ahead=3)
    bench.seat.own(1)
    await bench.push(0, 1, 2)
    assert bench.handle.receives == []
    assert len(bench.take()) == 3
    assert len(bench.handle.receives) == 3


async def test_a_settle_of_an_older_ownership_is_void() -> None:
    """The new owner has it again; ours must not take it from him."""
    bench = Bench()
    bench.seat.own(1)
    await bench.push(0)
    (old,) = bench.take()
    bench.seat.let_go()
    bench.seat.own(2)
    bench.seat.settle(old)
    assert bench.handle.acknowledged == []


async def test_the_window_counts_messages_whatever_their_ledgers() -> None:
    """Distance from the commit to the newest taken (rule 4)."""
    bench = Bench()
    bench.seat.own(1)
    await bench.push(0, 4, 9)
    _, middle, last = bench.take()
    bench.seat.settle(middle)
    bench.seat.settle(last)
    assert bench.seat.window == 3
