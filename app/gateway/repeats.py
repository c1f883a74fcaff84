"""Recognise requests that are repeated within a window of time, so that each is published only once.

A repeat has the same identity as a stored request, and is answered as a duplicate. A repeat that arrives
while the first request is being published waits for the result of the first. If the first was stored, the
repeat is a duplicate. Otherwise the repeat is published, because the first has failed or its result is
unknown.

The requests of a group have the same signed content and differ only in unsigned parts. The number of
identities in a group is limited. Otherwise an attacker with one captured signed body could publish it again
and again, with other identities in its headers.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable
from typing import NamedTuple

import msgspec

from app.gateway.answers import ACCEPTED_BEFORE, HttpAnswer, busy
from app.intakes.compiled import MAX_IDENTITIES, RepeatedBody

Done = Callable[[HttpAnswer], None]
Begin = Callable[[Done], HttpAnswer | None]
"""A function that publishes a request. It returns the answer if the answer is known at once. Otherwise it
returns None, and later calls ``done`` once with the answer.
"""

DUPLICATE = ACCEPTED_BEFORE
MAX_IDENTITIES_KEPT = (
    100_000  # identities, about 400 bytes each; beyond, the oldest group is forgotten
)
MAX_WAITING = 1000  # repeats that wait for a result
MAX_WAITING_BYTES = 32 << 20  # bytes of these repeats
_REFUSED = 300


class _StoredIdentity(msgspec.Struct, gc=False):
    """The identity of a request that was stored. Its window begins at ``at``, in seconds of the monotonic
    clock.
    """

    identity: bytes
    at: float
    repeated: bool = False


class _WaitingRepeat(NamedTuple):
    begin: Begin
    done: Done
    size: int


class _OpenRequest(NamedTuple):
    """A request that is being published, and the repeats that wait for its result."""

    ahead: float
    waiting: deque[_WaitingRepeat]


class IdempotencyWindow:
    """The memory by which the repeated requests of one intake are recognised. Use it on the event loop only.

    ``window`` is in seconds of ``monotonic``. ``most`` limits the number of stored identities.
    ``most_waiting`` and ``most_bytes`` limit the repeats that wait.
    """

    def __init__(
        self,
        window: float,
        monotonic: Callable[[], float],
        *,
        most: int = MAX_IDENTITIES_KEPT,
        most_waiting: int = MAX_WAITING,
        most_bytes: int = MAX_WAITING_BYTES,
    ) -> None:
        self.window = window
        self._monotonic = monotonic
        self._most = most
        self._most_waiting = most_waiting
        self._most_bytes = most_bytes
        self._count = 0
        # By group. The group that was used last is at the end, and the oldest identity of a group is first.
        self._stored: OrderedDict[bytes, list[_StoredIdentity]] = OrderedDict()
        self._open: dict[bytes, dict[bytes, _OpenRequest]] = {}  # by group and identity
        self.waiting = 0
        self.waiting_bytes = 0

    def __len__(self) -> int:
        return self._count

    def change_window(self, window: float) -> None:
        """Apply a new window in seconds. It also applies to identities that are stored already."""
        self.window = window
        self._forget(self._monotonic())

    def has(self, group: bytes, identity: bytes | None = None) -> bool:
        """Return True if a request of this group was stored within the window, or is being published.

        With an identity, only a request with this identity counts.
        """
        opened = self._open.get(group, {})
        stored = self._current(group, self._monotonic())
        if identity is None:
            return bool(opened or stored)
        return identity in opened or identity in [each.identity for each in stored]

    def once(
        self,
        identity: bytes,
        begin: Begin,
        done: Done,
        *,
        group: bytes | None = None,
        size: Callable[[], int] = int,
        ahead: float = 0.0,
    ) -> HttpAnswer | None:
        """Publish a request unless it is a repeat. Return what ``begin`` returns, or DUPLICATE.

        Args:
            identity: digest of the event and its data.
            begin: a function that publishes the event. It is called now, or after an earlier request of this
                identity has failed.
            done: called with the answer if this method returns None.
            group: digest of the content that the signature covers; None for a request that is alone in its
                group.
            size: a function that returns the number of bytes of the request; called only if the request must
                wait.
            ahead: the seconds between storing the request and the begin of its window.

        Raises:
            RepeatedBody: the group has the most allowed identities already.
        """
        group = identity if group is None else group
        now = self._monotonic()
        self._forget(now)
        stored = self._current(group, now)
        if identity in [each.identity for each in stored]:
            return DUPLICATE
        opened = self._open.get(group)
        if opened is not None and identity in opened:
            return self._wait(opened[identity].waiting, _WaitingRepeat(begin, done, size()))
        if len(stored) + (len(opened) if opened else 0) >= MAX_IDENTITIES:
            end = stored[0].at + self.window if stored else now + self.window
            raise RepeatedBody(wait=end - now, window=self.window)
        self._open.setdefault(group, {})[identity] = _OpenRequest(ahead, deque())
        answer = self._begin(group, identity, begin, done)
        if answer is not None:
            self._conclude(group, identity, answer)
        return answer

    def is_first_repeat(self, identity: bytes, group: bytes) -> bool:
        """Return True at the first call for this stored identity, and False at later calls."""
        for each in self._stored.get(group, ()):
            if each.identity == identity and not each.repeated:
                each.repeated = True
                return True
        return False

    def _wait(self, waiting: deque[_WaitingRepeat], repeat: _WaitingRepeat) -> HttpAnswer | None:
        is_full = self.waiting >= self._most_waiting
        if is_full or self.waiting_bytes + repeat.size > self._most_bytes:
            return busy("Too many repeats wait for the first of them")
        waiting.append(repeat)
        self.waiting += 1
        self.waiting_bytes += repeat.size
        return None

    def _release(self, repeat: _WaitingRepeat) -> None:
        self.waiting -= 1
        self.waiting_bytes -= repeat.size

    def _begin(self, group: bytes, identity: bytes, begin: Begin, done: Done) -> HttpAnswer | None:
        def concluded(answer: HttpAnswer) -> None:
            done(answer)
            self._conclude(group, identity, answer)

        return begin(concluded)

    def _conclude(self, group: bytes, identity: bytes, answer: HttpAnswer) -> None:
        """Store the identity if the log has stored its request. Otherwise, publish the next waiting
        repeat.
        """
        ahead, waiting = self._open[group][identity]
        while answer.status >= _REFUSED and waiting:
            repeat = waiting.popleft()
            self._release(repeat)
            next_answer = self._begin(group, identity, repeat.begin, repeat.done)
            if next_answer is None:
                return
            answer = next_answer
            repeat.done(answer)
        self._close(group, identity)
        if answer.status >= _REFUSED:
            return
        self._remember(group, identity, ahead)
        for repeat in waiting:
            self._release(repeat)
            repeat.done(DUPLICATE)

    def _close(self, group: bytes, identity: bytes) -> None:
        opened = self._open[group]
        del opened[identity]
        if not opened:
            del self._open[group]

    def _remember(self, group: bytes, identity: bytes, ahead: float) -> None:
        now = self._monotonic()
        stored = [*self._current(group, now), _StoredIdentity(identity, now + ahead)]
        self._count += len(stored) - len(self._stored.get(group, ()))
        self._stored[group] = stored
        self._stored.move_to_end(group)
        while self._count > self._most and len(self._stored) > 1:
            self._drop_oldest()

    def _current(self, group: bytes, now: float) -> list[_StoredIdentity]:
        return [each for each in self._stored.get(group, ()) if now - each.at < self.window]

    def _forget(self, now: float) -> None:
        while self._stored:
            oldest = self._stored[next(iter(self._stored))]
            if now - oldest[-1].at < self.window:
                return
            self._drop_oldest()

    def _drop_oldest(self) -> None:
        _, dropped = self._stored.popitem(last=False)
        self._count -= len(dropped)
