"""Word within a process: who waits looks again at each word, and seldom without one."""

from __future__ import annotations

import asyncio

from app.sinks.pull_queue import Wakeups

LONG, SHORT = 60.0, 0.01  # seconds


class Looking:
    def __init__(self) -> None:
        self.looks = 0
        self.found: str | None = None

    async def __call__(self) -> str | None:
        self.looks += 1
        return self.found


async def turns() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


async def test_a_look_is_repeated_at_each_word_and_not_in_between() -> None:
    wakeups, looking = Wakeups(), Looking()
    waiting = asyncio.ensure_future(wakeups.until("billing", looking, LONG, LONG))
    await turns()
    assert looking.looks == 1
    wakeups.tell("billing")
    wakeups.tell("other")
    await turns()
    assert looking.looks == 2
    looking.found = "running"
    wakeups.tell("billing")
    assert await waiting == "running"
    assert looking.looks == 3


async def test_what_is_there_at_once_waits_for_no_word() -> None:
    looking = Looking()
    looking.found = "running"
    assert await Wakeups().until("billing", looking, LONG, LONG) == "running"


async def test_without_a_word_it_looks_now_and_then_until_time_is_over() -> None:
    looking = Looking()
    assert await Wakeups().until("billing", looking, 20 * SHORT, SHORT) is None
    assert looking.looks > 2
