"""Many questions of one kind: side by side, and not all at once."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import TypeVar

S = TypeVar("S")
T = TypeVar("T")

AT_ONCE = 8


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
