"""How far a range that is read again is: which of its messages are finished, and where to go on."""

from __future__ import annotations

from collections import deque


class ReplayRange:
    """``next``  the first position that is not known to be finished: where to go on after a crash.
    ``done``  how many are finished, or were not wanted.
    """

    def __init__(self, begin: str, done: int = 0) -> None:
        self._taken: deque[tuple[int, str]] = deque()
        self._finished: set[int] = set()
        self._behind = begin  # where to go on when all that was taken is finished
        self.done = done

    def restart(self) -> None:
        """It is read again from ``next``: what was open then is taken again."""
        self._behind = self.next
        self._taken.clear()
        self._finished.clear()

    def take(self, offset: int, position: str) -> None:
        """The next message that was read, in rising order."""
        self._taken.append((offset, position))

    def finish(self, offset: int) -> None:
        """In any order. One that is not open any more is nothing new."""
        if not self._taken or not self._taken[0][0] <= offset <= self._taken[-1][0]:
            return
        self._finished.add(offset)
        while self._taken and self._taken[0][0] in self._finished:
            first, position = self._taken.popleft()
            self._finished.remove(first)
            self._behind = _behind(position)
            self.done += 1

    @property
    def is_finished(self) -> bool:
        """Whether all that was taken is."""
        return not self._taken

    @property
    def next(self) -> str:
        return self._taken[0][1] if self._taken else self._behind


def _behind(position: str) -> str:
    """The position after it where positions are numbers; elsewhere itself, which is then read again."""
    return str(int(position) + 1) if position.isdecimal() else position
