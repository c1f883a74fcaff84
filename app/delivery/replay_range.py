"""The progress of a replay: which messages are finished, and where to continue."""

from __future__ import annotations

from collections import deque


class ReplayRange:
    """The progress of one replay. ``done`` counts the messages that are finished or not wanted."""

    def __init__(self, begin: str, done: int = 0) -> None:
        self._taken: deque[tuple[int, str]] = deque()
        self._finished: set[int] = set()
        self._resume_at = begin  # where to continue if all taken messages are finished
        self.done = done

    def restart(self) -> None:
        """Prepare to read again from the position ``next``. Unfinished messages are then taken again."""
        self._resume_at = self.next
        self._taken.clear()
        self._finished.clear()

    def take(self, offset: int, position: str) -> None:
        """Add the next message that was read, in rising order of offsets."""
        self._taken.append((offset, position))

    def finish(self, offset: int) -> None:
        """Note that the message at the offset is finished. Messages may finish in any order. An offset that
        is not unfinished is ignored."""
        if not self._taken or not self._taken[0][0] <= offset <= self._taken[-1][0]:
            return
        self._finished.add(offset)
        while self._taken and self._taken[0][0] in self._finished:
            first, position = self._taken.popleft()
            self._finished.remove(first)
            self._resume_at = _position_after(position)
            self.done += 1

    @property
    def is_finished(self) -> bool:
        """Return True if all taken messages are finished."""
        return not self._taken

    @property
    def next(self) -> str:
        """Return the position of the first unfinished message, where the replay continues after a crash."""
        return self._taken[0][1] if self._taken else self._resume_at


def _position_after(position: str) -> str:
    """Return the next position if positions are numbers. Otherwise return the same position, whose message is
    then read again."""
    return str(int(position) + 1) if position.isdecimal() else position
