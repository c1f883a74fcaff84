"""A cache of the identities in ``events``, which the driver keeps from one range to the next.

With a window of duplicates, the cache has the identities of the records from a time on.

Spark needs one to two seconds of CPU to search a table of any size for some thousands of
identities. The cache holds numbers in memory, eight bytes for each event. It is valid for one
snapshot. If another process has committed a snapshot, the identities are read again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

import numpy as np

from app.pipeline.decode.buffers import Numbers
from app.pipeline.history import Snapshot

LARGER: Final = 4
"""The table is cached if it has at most this many times the identities that the run has looked up
so far.

Reading all identities of such a table costs about as much as the searches that the cache saves.
"""

MOST: Final = 32_000_000
"""The largest number of cached identities: 256 MB, and up to three times as much during sorting.

In a larger table Spark searches for each range.
"""


class IdentityCache:
    """A cache of the identities in one snapshot of ``events``."""

    def __init__(self) -> None:
        self._snapshot: int | None = None
        self._sorted: list[Numbers] = []
        self._since: int | None = None
        self._asked = 0

    def present(
        self,
        names: Numbers,
        newest: Snapshot,
        read: Callable[[], Numbers],
        size: Callable[[], int] | None = None,
        since: int | None = None,
    ) -> Numbers | None:
        """Return those of ``names`` that the snapshot has; None if the table is too large to be
        cached now.

        Args:
            names: The identities that are looked up.
            newest: The current snapshot of the table.
            read: Returns all identities of that snapshot that may be looked up.
            size: Returns their number; None if they are those of all rows.
            since: The earliest time of a record whose identity may be looked up, in microseconds since
                1970; None for all records. Records may come with earlier times than those before.
        """
        self._asked += len(names)
        if newest.id != self._snapshot or _is_earlier(since, self._since):
            self._forget()
            rows = newest.count("total-records") if size is None else size()
            if rows > min(MOST, LARGER * self._asked):
                return None
            self._sorted, self._snapshot, self._since = [np.sort(read())], newest.id, since
        chosen = np.zeros(len(names), bool)
        for each in self._sorted:
            chosen |= _holds(each, names)
        return names[chosen]

    def extend(self, newest: Snapshot, added: Iterable[Numbers]) -> None:
        """Add the identities of a commit of this archive. The cache is emptied if another process
        committed in between.
        """
        if self._snapshot is None or newest.parent != self._snapshot:
            self._forget()
            return
        more = np.concatenate([np.zeros(0, np.int64), *added])
        if len(more) + sum(map(len, self._sorted)) > MOST:
            self._forget()
            return
        self._snapshot = newest.id
        more.sort()
        # Merging arrays of similar size keeps the list short and moves each number seldom.
        while len(more) and self._sorted and len(self._sorted[-1]) <= 2 * len(more):
            more = np.concatenate([self._sorted.pop(), more])
            more.sort(kind="stable")  # in place, and fast for concatenated sorted parts
        self._sorted += [more] if len(more) else []

    def _forget(self) -> None:
        self._snapshot, self._sorted = None, []


def _is_earlier(since: int | None, other: int | None) -> bool:
    """Return True if records from ``since`` on are more than those from ``other`` on."""
    return other is not None and (since is None or since < other)


def _holds(ordered: Numbers, names: Numbers) -> Numbers:
    if not len(ordered):
        return np.zeros(len(names), bool)
    at = np.minimum(np.searchsorted(ordered, names), len(ordered) - 1)
    found: Numbers = ordered[at] == names
    return found
