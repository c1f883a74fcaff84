"""The identities of ``events``, remembered by the driver from one range to the next.

Spark needs one to two seconds of CPU to look for some thousands of identities in a table, whatever its size. Here they are
numbers in memory: eight bytes an event. They hold for one snapshot; where somebody else has made another they are
read again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

import numpy as np

from app.pipeline.decode.buffers import Numbers
from app.pipeline.history import Snapshot

LARGER: Final = 4
"""Times as many identities as were asked for: of a table that has no more, all are remembered. To read them costs about as
much as the looks that it saves.
"""

MOST: Final = 32_000_000
"""Identities that are remembered, 256 MB, and up to three times as much while they are sorted. In a larger table Spark looks for
each range.
"""


class Known:
    """``asked`` counts the identities that were looked for, in all ranges of a run."""

    def __init__(self) -> None:
        self._snapshot: int | None = None
        self._sorted: list[Numbers] = []
        self._asked = 0

    def among(
        self, names: Numbers, newest: Snapshot, read: Callable[[], Numbers]
    ) -> Numbers | None:
        """Those of ``names`` that the snapshot has; None where it is not worth to remember it. ``read``: all of its
        identities.
        """
        self._asked += len(names)
        if newest.id != self._snapshot:
            self._forget()
            if newest.count("total-records") > min(MOST, LARGER * self._asked):
                return None
            self._sorted, self._snapshot = [np.sort(read())], newest.id
        chosen = np.zeros(len(names), bool)
        for each in self._sorted:
            chosen |= _holds(each, names)
        return names[chosen]

    def grew(self, newest: Snapshot, added: Iterable[Numbers]) -> None:
        """A commit of ours has added these. It counts where nobody has committed between what was remembered and ours."""
        if self._snapshot is None or newest.parent != self._snapshot:
            self._forget()
            return
        more = np.concatenate([np.zeros(0, np.int64), *added])
        if len(more) + sum(map(len, self._sorted)) > MOST:
            self._forget()
            return
        self._snapshot = newest.id
        more.sort()
        while (
            len(more) and self._sorted and len(self._sorted[-1]) <= 2 * len(more)
        ):  # so there are few, and each is moved seldom
            more = np.concatenate([self._sorted.pop(), more])
            more.sort(kind="stable")  # in place, and quick for what is in order by parts
        self._sorted += [more] if len(more) else []

    def _forget(self) -> None:
        self._snapshot, self._sorted = None, []


def _holds(ordered: Numbers, names: Numbers) -> Numbers:
    if not len(ordered):
        return np.zeros(len(names), bool)
    at = np.minimum(np.searchsorted(ordered, names), len(ordered) - 1)
    found: Numbers = ordered[at] == names
    return found
