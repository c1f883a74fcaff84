"""Count the function calls between two turns of the event loop, which do not depend on the
machine's speed.
"""

from __future__ import annotations

import asyncio
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


class LoopSteps:
    """The longest step of the event loop since ``begin``.

    ``longest`` is its count of calls, and ``where`` counts the functions that it called.
    """

    def __init__(self) -> None:
        self.begin()

    def begin(self) -> None:
        self.longest = 0
        self.where: Counter[str] = Counter()

    def note(self, calls: int, where: Counter[str]) -> None:
        if calls > self.longest:
            self.longest, self.where = calls, where


@contextmanager
def counted_steps() -> Iterator[LoopSteps]:
    """Count the calls of each callback of asyncio's event loop during the block. Other threads do
    not count.
    """
    steps = LoopSteps()
    calls = 0
    where: Counter[str] = Counter()

    def note(frame: Any, event: str, argument: Any) -> None:
        nonlocal calls
        if event in ("call", "c_call"):
            calls += 1
            if calls % 64 == 0:
                code = frame.f_code
                where[f"{code.co_filename.rpartition('/')[2]}:{code.co_name}"] += 64

    run = asyncio.Handle._run

    def counted(handle: Any) -> None:
        nonlocal calls, where
        calls, where = 0, Counter()
        sys.setprofile(note)
        try:
            run(handle)
        finally:
            sys.setprofile(None)
        steps.note(calls, where)

    asyncio.Handle._run = counted  # type: ignore[method-assign]
    try:
        yield steps
    finally:
        asyncio.Handle._run = run  # type: ignore[method-assign]
