"""Which messages of one partition are finished, and therefore how far it may be committed (rule 2).

A log that knows only positions gets the lowest unfinished one as its commit, and the finished runs
above it as text in the commit's metadata, so that a restart repeats only what was really open.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator

METADATA_BOUND = 3_500  # bytes; Kafka's default offset.metadata.max.bytes is 4,096
_VERSION = "f1:"

Run = tuple[int, int]
"""First and last finished offset, both included."""


class FinishedRuns:
    """The open and the finished messages of one partition, from its commit position upwards.

    Offsets are taken in rising order, with gaps where the log has them, and finished in any order.
    """

    def __init__(self, committed: int, finished_above: Iterable[Run] = ()) -> None:
        self._taken: deque[int] = deque()
        self._finished: set[int] = set()
        self._restored = deque(sorted(finished_above))
        self._next = committed

    @classmethod
    def restore(cls, committed: int, metadata: str) -> FinishedRuns:
        """From a commit. Metadata that is not ours is no error: it only costs repeats."""
        return cls(committed, decode_runs(committed, metadata))

    def take(self, offset: int) -> bool:
        """Note that ``offset`` was read. False: it was finished before a restart, do not deliver it."""
        self._next = offset + 1
        self._taken.append(offset)
        if not self._was_finished(offset):
            return True
        self.finish(offset)
        return False

    def pass_over(self, position: int) -> None:
        """Whatever lies before ``position`` and was not taken concerns nobody: it was filtered out
        unseen. Read again after a restart, it is filtered out again."""
        self._next = max(self._next, position)
        while self._restored and self._restored[0][1] < self._next:
            self._restored.popleft()

    def finish(self, offset: int) -> None:
        """Idempotent. An offset below the commit position is nothing new; one that was not taken yet
        says nothing about the message that will be there."""
        if not self._taken or not self._taken[0] <= offset < self._next:
            return
        self._finished.add(offset)
        while self._taken and self._taken[0] in self._finished:
            self._finished.remove(self._taken.popleft())

    @property
    def commit(self) -> int:
        """The lowest unfinished position; the next one to read when all is finished."""
        return self._taken[0] if self._taken else self._next

    @property
    def window(self) -> int:
        """Distance from the commit position to the newest one taken (rule 4)."""
        return self._next - self.commit

    @property
    def open(self) -> bool:
        """Whether a message that was taken is not finished."""
        return bool(self._taken)

    @property
    def next(self) -> int:
        """The position after the newest one taken."""
        return self._next

    def metadata(self) -> str:
        """The finished runs above the commit position, as text for the commit."""
        return encode_runs(self.commit, self._runs())

    def _runs(self) -> Iterator[Run]:
        first: int | None = None
        last = 0
        left = len(self._finished)
        for offset in self._taken if left else ():
            if offset in self._finished:
                first, last = (offset if first is None else first), offset
                left -= 1
            elif first is not None:
                yield first, last
                first = None
                if not left:  # many may be open above
                    break
        if first is not None:
            yield first, last
        for start, end in self._restored:  # the newest one taken may lie within a run
            if end >= self._next:
                yield max(start, self._next), end

    def _was_finished(self, offset: int) -> bool:
        while self._restored and self._restored[0][1] < offset:
            self._restored.popleft()
        return bool(self._restored) and self._restored[0][0] <= offset


def encode_runs(committed: int, runs: Iterable[Run]) -> str:
    """``f1:2-4,7`` for offsets committed+2 to +4 and +7. What does not fit the bound is left out:
    the events beyond it are delivered again after a restart, none is lost."""
    parts: list[str] = []
    size = len(_VERSION)
    for first, last in runs:
        part = (
            f"{first - committed}" if first == last else f"{first - committed}-{last - committed}"
        )
        size += len(part) + 1
        if size > METADATA_BOUND:
            break
        parts.append(part)
    return _VERSION + ",".join(parts) if parts else ""


def decode_runs(committed: int, metadata: str) -> list[Run]:
    """The runs of ``encode_runs``; an empty list for text that is not ours."""
    if not metadata.startswith(_VERSION):
        return []
    runs: list[Run] = []
    for part in metadata.removeprefix(_VERSION).split(","):
        first, dash, last = part.partition("-")
        if not (first.isdecimal() and (last if dash else first).isdecimal()):
            return []
        runs.append((committed + int(first), committed + int(last or first)))
    return runs
