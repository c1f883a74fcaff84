"""Slices out, one after another, while the next one is fetched. At least once: what left after the last
note leaves again when a replay is resumed.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from typing import Final

import msgspec

from app.bindings.record import Record
from app.interfaces import Clock
from app.pipeline.archive.progress import Progress
from app.pipeline.replay.chosen import Chosen, Slice
from app.pipeline.replay.notes import Done, Notes
from app.pipeline.replay.plan import Plan
from app.pipeline.replay.topic import Outlet

RECORDS: Final = 500  # that leave together, at most
BYTES: Final = 1 << 20  # likewise; one that is larger leaves alone
NOTED_EVERY: Final = 1.0  # seconds

CATCH_UP: Final = 5.0
"""Seconds that a replay may be behind and make good: beyond, what was lost is not sent in a burst."""

TURN: Final = 0.05
"""Seconds of records that leave together."""


class Outcome(msgspec.Struct, frozen=True):
    """``read`` records, of earlier runs too; ``sent = read - sum(refused)``. ``refused``: by the code of why;
    records that are no event are among them, where only events are sent.
    """

    id: str
    read: int
    sent: int
    refused: Mapping[str, int]


async def run(
    plan: Plan,
    chosen: Chosen,
    outlet: Outlet,
    notes: Notes,
    pace: Pace,
    clock: Clock,
    *,
    progress: Callable[[int], None] = lambda _read: None,
) -> Outcome:
    """From where the notes say to the end. Raises BrokerError where the target takes nothing any more: what
    was sent is noted.
    """
    sending = _Sending(notes, outlet, pace, clock)
    progress(sending.done.read)
    try:
        async for number, piece in _slices(plan, chosen, sending.done.slices):
            async for read in sending.through(number, piece):
                progress(read)
    finally:  # also when it is broken off
        notes.note(sending.done)
    done = sending.done
    return Outcome(plan.id, done.read, done.read - sum(done.refused.values()), done.refused)


class Pace:
    """When records are due. ``rate``: events a second. ``speed``: how many times as fast as they came. None and None: at once."""

    def __init__(self, clock: Clock, rate: float | None = None, speed: float | None = None) -> None:
        self._clock = clock
        self._rate, self._speed = rate, speed
        self._begun: float | None = None
        self._first: int | None = None
        self._sent = 0

    @property
    def most(self) -> int | None:
        """Records that may leave at once; None: any number."""
        if self._speed is not None:
            return 1
        return None if self._rate is None else max(1, int(self._rate * TURN))

    async def wait(self, records: int, moment: int) -> None:
        """Until the next ``records`` may leave, of which the first came at ``moment`` (microseconds)."""
        now = self._clock.monotonic()
        if self._begun is None or self._first is None:
            self._begun, self._first = now, moment
        due = self._begun + self._after(moment, self._first)
        self._sent += records
        if due > now:
            await self._clock.sleep(due - now)
        elif now - due > CATCH_UP:
            self._begun += now - due - CATCH_UP

    def _after(self, moment: int, first: int) -> float:
        by_rate = self._sent / self._rate if self._rate else 0.0
        by_time = (moment - first) / 1e6 / self._speed if self._speed else 0.0
        return max(by_rate, by_time)


class _Sending:
    """How far it is."""

    def __init__(self, notes: Notes, outlet: Outlet, pace: Pace, clock: Clock) -> None:
        self._notes, self._outlet, self._pace, self._clock = notes, outlet, pace, clock
        self._noted = clock.monotonic()
        self.done = notes.done()

    async def through(self, number: int, piece: Slice) -> AsyncIterator[int]:
        """The rest of a slice. One that has another size than it had, since ``erase`` took rows, begins again at its start."""
        before, size = self.done, len(piece.records)
        first = before.records if before.size == size else 0
        read, refused = before.read - before.records + first, Counter(before.refused)
        for start, end in _chunks(piece, first, self._pace.most):
            await self._pace.wait(end - start, piece.moments[start])
            refused.update(await self._outlet.send(piece.records[start:end]))
            read += end - start
            self.done = Done(number, end, size, read, dict(refused))
            if self._clock.monotonic() - self._noted >= NOTED_EVERY:
                self._note()
            yield read
        self.done = Done(number + 1, read=read, refused=dict(refused))
        self._note()

    def _note(self) -> None:
        self._notes.note(self.done)
        self._noted = self._clock.monotonic()


async def _slices(plan: Plan, chosen: Chosen, first: int) -> AsyncIterator[tuple[int, Slice]]:
    """From the slice of that number on."""
    waiting = _fetching(plan, chosen, first)
    for number in range(first, len(plan.slices)):
        assert waiting is not None  # noqa: S101 - there is one for each number
        piece = await waiting
        waiting = _fetching(plan, chosen, number + 1)
        yield number, piece


def _fetching(plan: Plan, chosen: Chosen, number: int) -> asyncio.Future[Slice] | None:
    if number >= len(plan.slices):
        return None
    start: Progress = plan.slices[number - 1] if number else {}
    fetch = asyncio.to_thread(chosen.slice, start, plan.slices[number])
    return asyncio.ensure_future(fetch)


def _chunks(piece: Slice, first: int, most: int | None) -> Iterator[tuple[int, int]]:
    """Records that leave together: from, and up to but without."""
    start, size = first, 0
    bound = RECORDS if most is None else min(RECORDS, most)
    for at in range(first, len(piece.records)):
        length = _length(piece.records[at])
        if at > start and (at - start >= bound or size + length > BYTES):
            yield start, at
            start, size = at, 0
        size += length
    if start < len(piece.records):
        yield start, len(piece.records)


def _length(record: Record) -> int:
    return len(record.key or b"") + len(record.body or b"")
