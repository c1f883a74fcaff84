"""How many calls the loop's thread makes between two turns of the loop: a count, which no machine makes longer."""

from __future__ import annotations

import asyncio
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


class LoopSteps:
    """``longest``: most calls of one step since ``begin``; ``where`` counts the functions of that step."""

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
    """Count the calls of each callback of asyncio's own loop. Calls of other threads do not count."""
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
