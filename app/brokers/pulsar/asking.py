"""Many questions of one kind: side by side, and not all at once; and one that is asked again."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import TypeVar

from app.brokers.pulsar.errors import AdminError

S = TypeVar("S")
T = TypeVar("T")

AT_ONCE = 8
ASK_AGAIN = 0.1


async def ask_each(question: Callable[[S], Awaitable[T]], subjects: Iterable[S]) -> list[T]:
    """The answers, in the order of the subjects. The first error ends it, and is raised."""
    gate = asyncio.Semaphore(AT_ONCE)

    async def ask(subject: S) -> T:
        async with gate:
            return await question(subject)

    tasks = [asyncio.ensure_future(ask(subject)) for subject in subjects]
    try:
        return await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()


async def ask_until(question: Callable[[], Awaitable[T]], within: float) -> T:
    """The answer, however often the broker lacks something for it meanwhile; a question that changes something
    must bear to be asked again. Raises the last AdminError when ``within`` seconds are over."""
    deadline = asyncio.get_running_loop().time() + within
    while True:
        try:
            return await question()
        except AdminError as error:
            if not error.passing or asyncio.get_running_loop().time() > deadline:
                raise
        await asyncio.sleep(ASK_AGAIN)
