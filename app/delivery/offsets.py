"""The finished messages of one partition, and the position up to which it may be committed.

A log can commit only one position, so the lowest unfinished position is committed. The finished offsets above
this position are stored as text in the metadata of the commit. So a restart repeats only unfinished messages.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator

METADATA_BOUND = 3_500  # bytes; Kafka's default offset.metadata.max.bytes is 4,096
_VERSION = "f1:"

Run = tuple[int, int]
"""The first and the last offset of a run of finished messages, both included."""


class FinishedRuns:
    """The finished and unfinished messages of one partition, from its commit position on.

    Offsets are taken in rising order, perhaps with gaps. They are finished in any order."""

    def __init__(self, committed: int, finished_above: Iterable[Run] = ()) -> None:
        self._taken: deque[int] = deque()
        self._finished: set[int] = set()
        self._restored = deque(sorted(finished_above))
        self._next = committed

    @classmethod
    def restore(cls, committed: int, metadata: str) -> FinishedRuns:
        """Read the runs from a commit. Metadata in another format is ignored, which only causes repeated
        deliveries."""
        return cls(committed, decode_runs(committed, metadata))

    def take(self, offset: int) -> bool:
        """Note that the message at ``offset`` was read. Return False if it was finished before a restart, so
        that it must not be delivered."""
        self._next = offset + 1
        self._taken.append(offset)
        if not self._restored or not self._was_finished(offset):
            return True
        self.finish(offset)
        return False

    def pass_over(self, position: int) -> None:
        """Note that the log has filtered out the messages before ``position`` that were not taken.

        After a restart these messages are read and filtered again."""
        self._next = max(self._next, position)
        while self._restored and self._restored[0][1] < self._next:
            self._restored.popleft()

    def finish(self, offset: int) -> None:
        """Note that the message at ``offset`` is finished. The call is ignored if the offset was never taken,
        or is already finished or committed."""
        if not self._taken or not self._taken[0] <= offset < self._next:
            return
        self._finished.add(offset)
        while self._taken and self._taken[0] in self._finished:
            self._finished.remove(self._taken.popleft())

    @property
    def commit(self) -> int:
        """Return the lowest unfinished position. If all messages are finished, return the next position to
        read."""
        return self._taken[0] if self._taken else self._next

    @property
    def window(self) -> int:
        """Return the distance from the commit position to the position after the newest message that was
        taken."""
        return self._next - self.commit

    @property
    def open(self) -> bool:
        """Return True if a message that was taken is unfinished."""
        return bool(self._taken)

    @property
    def next(self) -> int:
        """Return the position after the newest message that was taken."""
        return self._next

    def metadata(self) -> str:
        """Return the finished runs above the commit position, as text for the metadata of the commit."""
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
        for start, end in self._restored:  # the newest taken offset may be within a run
            if end >= self._next:
                yield max(start, self._next), end

    def _was_finished(self, offset: int) -> bool:
        while self._restored and self._restored[0][1] < offset:
            self._restored.popleft()
        return bool(self._restored) and self._restored[0][0] <= offset


def encode_runs(committed: int, runs: Iterable[Run]) -> str:
    """Return the runs as text. For example, ``f1:2-4,7`` means the offsets committed+2 to committed+4, and
    committed+7.

    Runs beyond 3,500 bytes are left out. Their messages are delivered again after a restart."""
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
    """Return the runs that ``encode_runs`` wrote, or an empty list for any other text."""
    if not metadata.startswith(_VERSION):
        return []
    runs: list[Run] = []
    for part in metadata.removeprefix(_VERSION).split(","):
        first, dash, last = part.partition("-")
        if not (first.isdecimal() and (last if dash else first).isdecimal()):
            return []
        runs.append((committed + int(first), committed + int(last or first)))
    return runs
