"""Send the slices of a replay one after another, while the next one is fetched.

Delivery is at least once: records sent after the last stored progress are sent again when a replay
is resumed.
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
from app.pipeline.replay.chosen import ChosenRecords, Slice
from app.pipeline.replay.notes import ReplayNotes, ReplayProgress
from app.pipeline.replay.plan import LakeReplayPlan
from app.pipeline.replay.topic import ReplayWriter
from app.spark.cleanup import cleaning_up

RECORDS: Final = 500  # largest number of records sent together
BYTES: Final = 1 << 20  # size limit of records sent together; a larger record is sent alone
NOTED_EVERY: Final = 1.0  # seconds between two writes of the progress

CATCH_UP: Final = 5.0
"""The largest delay in seconds that a replay makes up by sending faster. A longer delay does not
lead to a longer burst.
"""

TURN: Final = 0.05
"""The time span in seconds: records that become due within it are sent together."""


class ReplayResult(msgspec.Struct, frozen=True):
    """The result of a replay. ``sent`` is ``read`` less all refused records.

    Attributes:
        id: The id of the replay.
        read: The number of records read, including earlier runs.
        sent: The number of records sent.
        refused: The number of refused records by error code, including records that are not events
            where only events are sent.
    """

    id: str
    read: int
    sent: int
    refused: Mapping[str, int]


async def run(
    plan: LakeReplayPlan,
    chosen: ChosenRecords,
    outlet: ReplayWriter,
    notes: ReplayNotes,
    pace: ReplayPace,
    clock: Clock,
    *,
    progress: Callable[[int], None] = lambda _read: None,
) -> ReplayResult:
    """Send all records of a plan from its stored progress on, and return the result.

    Args:
        plan: The plan.
        chosen: The records.
        outlet: The target.
        notes: The stored progress.
        pace: When records are due.
        clock: The clock for storing the progress.
        progress: Called with the number of records read so far.

    Raises:
        BrokerError: The target accepts no more records. The progress is stored.
    """
    sending = _Sending(notes, outlet, pace, clock, progress)
    progress(sending.done.read)
    with cleaning_up(lambda: notes.note(sending.done)):  # also after an error or a stop
        async for number, piece in _slices(plan, chosen, sending.done.slices):
            await sending.send_slice(number, piece)
    done = sending.done
    return ReplayResult(plan.id, done.read, done.read - sum(done.refused.values()), done.refused)


class ReplayPace:
    """The speed of a replay: when records are due."""

    def __init__(self, clock: Clock, rate: float | None = None, speed: float | None = None) -> None:
        """Set the speed; without ``rate`` and ``speed`` records are sent at once.

        Args:
            clock: The clock for waits.
            rate: Events a second.
            speed: A factor on the speed at which the records were stored.
        """
        self._clock = clock
        self._rate, self._speed = rate, speed
        self._begun: float | None = None
        self._first: int | None = None
        self._sent = 0

    @property
    def most(self) -> int | None:
        """Return the largest number of records to send at once; None for no limit."""
        if self._speed is not None:
            return 1
        return None if self._rate is None else max(1, int(self._rate * TURN))

    async def wait(self, records: int, moment: int) -> None:
        """Wait until the next ``records`` are due. ``moment`` is the time of the first one in
        microseconds since 1970.
        """
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
    """The running replay. ``done`` is its progress."""

    def __init__(
        self,
        notes: ReplayNotes,
        outlet: ReplayWriter,
        pace: ReplayPace,
        clock: Clock,
        progress: Callable[[int], None],
    ) -> None:
        self._notes, self._outlet, self._pace, self._clock = notes, outlet, pace, clock
        self._progress = progress
        self._noted = clock.monotonic()
        self.done = notes.done()

    async def send_slice(self, number: int, piece: Slice) -> None:
        """Send the remaining records of a slice.

        A slice whose size has changed, because ``erase`` removed rows, is sent from its start.
        """
        before, size = self.done, len(piece.records)
        first = before.records if before.size == size else 0
        read, refused = before.read - before.records + first, Counter(before.refused)
        for start, end in _chunks(piece, first, self._pace.most):
            await self._pace.wait(end - start, piece.moments[start])
            refused.update(await self._outlet.send(piece.records[start:end]))
            read += end - start
            self.done = ReplayProgress(number, end, size, read, dict(refused))
            if self._clock.monotonic() - self._noted >= NOTED_EVERY:
                self._note()
            self._progress(read)
        self.done = ReplayProgress(number + 1, read=read, refused=dict(refused))
        self._note()

    def _note(self) -> None:
        self._notes.note(self.done)
        self._noted = self._clock.monotonic()


async def _slices(
    plan: LakeReplayPlan, chosen: ChosenRecords, first: int
) -> AsyncIterator[tuple[int, Slice]]:
    """Yield the slices from number ``first`` on, while the next one is being fetched."""
    ends: list[Progress] = [{}, *plan.slices]

    def fetch(number: int) -> asyncio.Future[Slice]:
        return asyncio.ensure_future(asyncio.to_thread(chosen.slice, *ends[number : number + 2]))

    numbers = range(first, len(plan.slices))
    waiting = [fetch(number) for number in numbers[:1]]
    for number in numbers:
        piece = await waiting.pop()
        waiting += [fetch(number + 1)] if number + 1 in numbers else []
        yield number, piece


def _chunks(piece: Slice, first: int, most: int | None) -> Iterator[tuple[int, int]]:
    """Yield the start and end of records that are sent together."""
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
