"""Deliveries of a broker that sends what is unfinished again, and again."""

from __future__ import annotations

import asyncio
import math
import time
from collections import deque
from collections.abc import Callable
from typing import Any

from _pulsar import MessageBuilder, MessageId

from app.brokers.pulsar.bridge import Bridge
from app.brokers.pulsar.owned_partition import STANDBY, PulsarPartition
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
    """A consumer of the client library: its listener gets what is pushed, unless it is paused."""

    def __init__(self) -> None:
        self.listener: Callable[[Any, Any], None]
        self.paused = False
        self.at_hand: deque[Raw] = deque()
        self.acknowledged: list[int] = []

    def push(self, *entries: int) -> None:
        self.at_hand += map(Raw, entries)
        self._listen()

    def pause_message_listener(self) -> None:
        self.paused = True

    def resume_message_listener(self) -> None:
        self.paused = False
        asyncio.get_running_loop().call_soon(self._listen)  # on another thread, really

    def _listen(self) -> None:
        while self.at_hand and not self.paused:
            self.listener(self, self.at_hand.popleft())

    def acknowledge(self, message_id: MessageId) -> None:
        self.acknowledged.append(message_id.entry_id())

    def is_connected(self) -> bool:
        return True


class Bench:
    """One owned, and what the broker sends it."""

    def __init__(self, ahead: int = 10) -> None:
        self.handle = Handle()
        self.rewinds = 0
        self.owned = PulsarPartition(
            Partition("t", 0), "t-partition-0", Bridge(asyncio.get_running_loop()), ahead=ahead,
            arrived=lambda _owned: None, rewound=self._rewound,
        )  # fmt: skip
        self.sit(self.handle)

    def sit(self, handle: Handle) -> None:
        handle.listener = self.owned.new_listener()
        self.owned.attach(handle)
        self.handle = handle

    def _rewound(self, owned: PulsarPartition) -> None:
        self.rewinds += 1
        owned.release()
        owned.own(100 + self.rewinds)

    async def push(self, *entries: int) -> None:
        self.handle.push(*entries)
        await settled()

    def take(self) -> list[Message]:
        return self.owned.take(100)


async def settled() -> None:
    """What was posted to the loop has been done, and what follows from it."""
    for _ in range(4):
        await asyncio.sleep(0)


def bodies(messages: list[Message]) -> list[bytes | None]:
    return [message.record.body for message in messages]


async def test_what_is_open_is_not_handed_out_twice_when_it_comes_again() -> None:
    """A connection that was lost and came back unseen: one delivery an ownership (rule 3)."""
    bench = Bench()
    bench.owned.own(1)
    await bench.push(0, 1, 2)
    taken = bench.take()
    await bench.push(0, 1, 2, 3)
    assert bodies(bench.take()) == [b"3"]
    assert bodies(taken) == [b"0", b"1", b"2"]


async def test_what_is_finished_and_comes_again_is_acknowledged_again() -> None:
    """The acknowledgement was lost with the connection; silence would let it come for ever."""
    bench = Bench()
    bench.owned.own(1)
    await bench.push(0, 1)
    first, _ = bench.take()
    bench.owned.settle(first)
    await bench.push(0, 1)
    assert bench.handle.acknowledged == [0, 0]
    assert bench.take() == []


async def test_a_broker_that_goes_back_before_the_first_starts_a_new_ownership() -> None:
    """Somebody else owned the partition in between: what is open here is void (rule 5)."""
    bench = Bench()
    bench.owned.own(1)
    await bench.push(5, 6)
    (five, _) = bench.take()
    await bench.push(3, 4, 5, 6)
    assert bench.rewinds == 1
    assert bodies(bench.take()) == [b"3", b"4", b"5", b"6"]
    bench.owned.settle(five)
    assert bench.handle.acknowledged == []


async def test_what_the_last_consumer_still_brings_is_void() -> None:
    """Its messages come again by the next one, in order; taken twice they would be sent twice."""
    bench = Bench()
    old = bench.handle
    old.push(0, 1)
    bench.sit(Handle())
    await settled()
    bench.owned.own(1)
    await bench.push(0, 1, 2)
    assert bodies(bench.take()) == [b"0", b"1", b"2"]
    assert (old.acknowledged, bench.handle.acknowledged) == ([], [])


async def test_what_comes_before_the_consumer_itself_is_kept() -> None:
    """Its listener may run before the call that makes it has returned."""
    bench = Bench()
    handle = Handle()
    handle.listener = bench.owned.new_listener()
    handle.push(0, 1)
    await settled()
    bench.owned.attach(handle)
    bench.owned.own(1)
    assert bodies(bench.take()) == [b"0", b"1"]


async def test_what_comes_before_ownership_is_told_waits_for_it() -> None:
    """The first delivery may be quicker than the news."""
    bench = Bench()
    await bench.push(0, 1)
    assert bench.owned.epoch == STANDBY
    bench.owned.own(1)
    assert bodies(bench.take()) == [b"0", b"1"]


async def test_what_came_to_a_former_owner_is_forgotten_and_what_came_since_is_not() -> None:
    """Leftovers of an ownership that is over are finished by others; what comes after the question
    may be the first of a new one, and nobody would send it again."""
    bench = Bench(ahead=3)
    await bench.push(0, 1, 2)
    assert bench.handle.paused
    bench.owned.belongs_to_another(time.monotonic())
    assert not bench.handle.paused, "there is room again"
    asked = time.monotonic()
    await bench.push(7)
    bench.owned.belongs_to_another(asked)
    bench.owned.own(1)
    assert bodies(bench.take()) == [b"7"]


async def test_what_was_forgotten_is_known_until_the_broker_starts_over() -> None:
    """It stayed with a consumer that became the owner again, to which the broker sent nothing again."""
    bench = Bench()
    await bench.push(1)
    bench.owned.belongs_to_another(asked=0.0)
    assert not bench.owned.forgot, "it came after the broker was asked"
    bench.owned.belongs_to_another(asked=math.inf)
    assert bench.owned.forgot
    bench.sit(Handle())
    assert not bench.owned.forgot
    bench.owned.own(1)
    await bench.push(1)
    (taken,) = bench.take()
    bench.owned.settle(taken)
    bench.owned.release()
    assert not bench.owned.forgot, "all was finished"
    bench.owned.own(2)
    await bench.push(2)
    bench.owned.release()
    assert bench.owned.forgot
    bench.owned.starts_over()
    assert not bench.owned.forgot


async def test_nothing_is_fetched_beyond_the_bound() -> None:
    """A paused partition must not fill the memory (rule 8); and what is beyond it comes when there is room."""
    bench = Bench(ahead=3)
    bench.owned.own(1)
    await bench.push(*range(10))
    assert len(bench.handle.at_hand) == 7
    assert bodies(bench.take()) == [b"0", b"1", b"2"]
    await settled()
    assert bodies(bench.take()) == [b"3", b"4", b"5"]


async def test_the_bound_holds_while_the_loop_is_busy() -> None:
    """What the listener was given and the loop has not seen counts too."""
    bench = Bench(ahead=3)
    bench.owned.own(1)
    bench.handle.push(*range(10))
    assert len(bench.handle.at_hand) == 7
    await settled()
    assert bodies(bench.take()) == [b"0", b"1", b"2"]


async def test_a_listener_that_pauses_when_all_was_taken_meanwhile_goes_on_by_itself() -> None:
    """Whoever takes resumes; had he done so just before the pause, nobody would ever again."""
    bench = Bench(ahead=2)
    bench.owned.own(1)
    pause = bench.handle.pause_message_listener

    def late() -> None:
        bench.owned._bridge._run()  # the loop, just before us
        bench.take()
        pause()

    bench.handle.pause_message_listener = late  # type: ignore[method-assign]
    bench.handle.push(0, 1)
    assert not bench.handle.paused


async def test_a_settle_of_an_older_ownership_is_void() -> None:
    """The new owner has it again; ours must not take it from him."""
    bench = Bench()
    bench.owned.own(1)
    await bench.push(0)
    (old,) = bench.take()
    bench.owned.release()
    bench.owned.own(2)
    bench.owned.settle(old)
    assert bench.handle.acknowledged == []


async def test_the_window_counts_messages_whatever_their_ledgers() -> None:
    """Distance from the commit to the newest taken (rule 4)."""
    bench = Bench()
    bench.owned.own(1)
    await bench.push(0, 4, 9)
    _, middle, last = bench.take()
    bench.owned.settle(middle)
    bench.owned.settle(last)
    assert bench.owned.window == 3
