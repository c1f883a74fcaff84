"""Requests that come again within a window: each is published once.

A repeat of what was published is answered as a duplicate. One that comes while the first is on its way
waits for its fate: a duplicate when the first was stored; otherwise it is published itself, for what became of
the first is failed or unknown.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable

from app.gateway.answers import Answer, busy

Done = Callable[[Answer], None]
Begin = Callable[[Done], Answer | None]
"""Publishes. The answer when it is known at once; otherwise None, and ``done`` is called once later."""

DUPLICATE = Answer(202, ((b"skybridge-duplicate", b"true"),))
MOST = 100_000  # digests that are remembered: beyond, the oldest is forgotten
MOST_WAITING = 1000  # repeats that wait for a fate
_REFUSED = 300


class Repeats:
    """``window`` in seconds of ``monotonic``. On the event loop only."""

    def __init__(
        self,
        window: float,
        monotonic: Callable[[], float],
        *,
        most: int = MOST,
        most_waiting: int = MOST_WAITING,
    ) -> None:
        self.window = window
        self._monotonic = monotonic
        self._most = most
        self._most_waiting = most_waiting
        self._known: OrderedDict[bytes, float] = (
            OrderedDict()
        )  # digest to the end of its window, the oldest first
        self._open: dict[bytes, deque[tuple[Begin, Done]]] = {}
        self.waiting = 0

    def __len__(self) -> int:
        return len(self._known)

    def once(self, digest: bytes, begin: Begin, done: Done) -> Answer | None:
        """As ``begin`` answers, or DUPLICATE."""
        self._forget()
        if digest in self._known:
            return DUPLICATE
        waiting = self._open.get(digest)
        if waiting is None:
            self._open[digest] = deque()
            answer = self._begun(digest, begin, done)
            if answer is not None:
                self._conclude(digest, answer)
            return answer
        if self.waiting >= self._most_waiting:
            return busy("Too many repeats wait for the first of them")
        waiting.append((begin, done))
        self.waiting += 1
        return None

    def _begun(self, digest: bytes, begin: Begin, done: Done) -> Answer | None:
        def concluded(answer: Answer) -> None:
            done(answer)
            self._conclude(digest, answer)

        return begin(concluded)

    def _conclude(self, digest: bytes, answer: Answer) -> None:
        """The newest to be begun has its answer."""
        waiting = self._open[digest]
        while answer.status >= _REFUSED and waiting:
            begin, done = waiting.popleft()
            self.waiting -= 1
            next_answer = self._begun(digest, begin, done)
            if next_answer is None:
                return
            answer = next_answer
            done(answer)
        del self._open[digest]
        if answer.status >= _REFUSED:
            return
        self._known[digest] = self._monotonic() + self.window
        self.waiting -= len(waiting)
        for _, done in waiting:
            done(DUPLICATE)

    def _forget(self) -> None:
        now, known = self._monotonic(), self._known
        while known:
            oldest = next(iter(known))
            if len(known) <= self._most and known[oldest] > now:
                return
            known.popitem(last=False)
