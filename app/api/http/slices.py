"""Run long computations of the API in slices, between which the event loop serves other requests, or in a
thread.

A thread does not help with a long call into C code, which holds the interpreter lock. Rows are therefore
created and encoded one by one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator, Iterable
from typing import Generic, TypeVar

import msgspec
from pydantic import BaseModel

from app.telemetry.slices import Turns, in_thread

T = TypeVar("T")
Item = TypeVar("Item")

ROW = 8  # units of one row of an answer, plus one for each KiB
_KIB = 10  # bits to shift for KiB


class Slices(Turns):
    """The slices of time in which one request does its work."""

    async def run(self, steps: Generator[int | Callable[[], None], None, T]) -> T:
        """Run the steps and return their result. Each step yields the number of units of work that it did, or
        a function to run in a thread."""
        while True:
            try:
                step = next(steps)
            except StopIteration as end:
                found: T = end.value
                return found
            if isinstance(step, int):
                await self.spend(step)
            else:
                await in_thread(step)

    async def each(self, items: Iterable[Item], units: int = 1) -> list[Item]:
        """Return the items of an iterable as a list. The items are computed in slices, and each counts as
        ``units`` of work."""
        found = []
        for item in items:
            found.append(item)
            await self.spend(units)
        return found

    async def rows(
        self, items: Iterable[Item], view: Callable[[Item], object], most_bytes: int | None = None
    ) -> list[msgspec.Raw]:
        """Return the views of the items as JSON. With ``most_bytes``, the list ends after the row that
        exceeds this number of bytes."""
        found: list[msgspec.Raw] = []
        size = 0
        for item in items:
            row = encoded(view(item))
            found.append(msgspec.Raw(row))
            await self.spend(ROW + (len(row) >> _KIB))
            size += len(row)
            if most_bytes is not None and size > most_bytes:
                break
        return found

    async def array(self, items: Iterable[Item]) -> msgspec.Raw:
        """Return the items as one JSON array. Thousands of rows in one buffer leave no gaps in the memory."""
        text = bytearray(b"[")
        for item in items:
            row = encoded(item)
            text += row
            text += b","
            await self.spend(ROW + (len(row) >> _KIB))
        text[-1:] = b"]" if len(text) > 1 else b"[]"
        return msgspec.Raw(text)


def encoded(view: object) -> bytes:
    """Return a pydantic model, or a value that ``msgspec`` supports, as JSON."""
    if isinstance(view, BaseModel):
        return view.model_dump_json(by_alias=True).encode()
    return msgspec.json.encode(view)


class OnceInThread(Generic[T]):
    """A value that is created once, in a thread, when it is first needed. After a failure, the next call
    tries again."""

    def __init__(self, make: Callable[[], T]) -> None:
        self._make = make
        self._made: asyncio.Future[T] | None = None

    async def value(self) -> T:
        """Return the value. Concurrent callers wait for the same computation."""
        if self._made is None or _has_failed(self._made):
            self._made = asyncio.ensure_future(asyncio.to_thread(self._make))
        return await asyncio.shield(self._made)


def _has_failed(made: asyncio.Future[T]) -> bool:
    return made.done() and (made.cancelled() or made.exception() is not None)
