"""One partition of one member: what has arrived, what is open, and what is finished.

A broker that has a new owner, or a member that is back, sends everything unfinished again, in order.
So whatever arrives is compared with what was taken under the same ownership, and a message is handed
out once in it. That stands on the order of arrival, which the library keeps for a listener only: a
message that arrives while a receive is asked for can stay behind and be overtaken by the next one.
"""

from __future__ import annotations

import contextlib
import time
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any

import pulsar

from app.brokers.pulsar.bridge import Bridge
from app.brokers.pulsar.messages import message_of
from app.brokers.pulsar.positions import Position, place_of
from app.delivery.offsets import FinishedRuns
from app.model.message import Message, Partition

STANDBY = 0  # the epoch of a member that owns nothing


class Counts:
    """One consumer of the library: messages that its listener was given, and those that the loop saw."""

    __slots__ = ("given", "seen")

    def __init__(self) -> None:
        self.given = 0
        self.seen = 0


class OwnedPartition:
    """A member's place at one partition; owned while ``epoch`` is not STANDBY.

    ``arrived``  called for each message that came; ``rewound`` when the broker went back before the
                 first one of this ownership: somebody else owned the partition in between.
    """

    def __init__(
        self,
        partition: Partition,
        wire: str,
        bridge: Bridge,
        *,
        ahead: int,
        arrived: Callable[[OwnedPartition], None],
        rewound: Callable[[OwnedPartition], None],
    ) -> None:
        self.partition = partition
        self.wire = wire
        self.epoch = STANDBY
        self.leaving = False  # told that it is revoked; settles still count
        self.paused = False
        self.sure_until = 0.0  # by the monotonic clock
        self.lost_since: float | None = None
        self.settled = False  # since the last commit
        self.handle: Any = None
        self._bridge = bridge
        self._ahead = ahead
        self._arrived = arrived
        self._rewound = rewound
        self._counts = Counts()
        self._early: list[tuple[float, Any]] = []  # when they came: nobody has said that we own it
        self._offset = -1  # of the newest one handed out
        self._forget()

    def new_listener(self) -> Callable[[Any, Any], None]:
        """The listener for the next consumer of the library; what the last one still brings is void."""
        self._counts = Counts()
        self._early.clear()
        self._forget()
        return partial(self._given, self._counts)

    def take_place(self, handle: Any) -> None:
        """The consumer with that listener stands for us."""
        self.handle = handle
        self.lost_since = None

    def own(self, epoch: int) -> None:
        """From now on ours; what came while nobody had told us is ours too."""
        early, self._early = self._early, []
        self._forget()
        self.epoch, self.leaving = epoch, False
        for _, raw in early:
            self._accept(raw)

    def belongs_to_another(self, asked: float) -> None:
        """As the answer to a question of then says. What came before it was sent to us as the owner
        that we were once; what came after it may be sent to the owner that we are by now."""
        self._early = [each for each in self._early if each[0] >= asked]
        self._go_on()

    def let_go(self) -> None:
        self.epoch, self.leaving = STANDBY, False
        self._forget()
        self._go_on()

    def connected(self) -> bool:
        return self.handle is not None and bool(self.handle.is_connected())

    def take(self, most: int) -> list[Message]:
        """The next messages, in order."""
        taken: list[Message] = []
        while self._waiting and len(taken) < most:
            place, raw = self._waiting.popleft()
            text = place.text
            self._held.discard(text)
            self._sequence += 1
            self._runs.take(self._sequence)
            self._open[text] = self._sequence, raw.message_id()
            offset = self._offset = max(place.offset, self._offset + 1)
            taken.append(message_of(raw, place, offset, self.partition, self.epoch))
        self._go_on()
        return taken

    def settle(self, message: Message) -> None:
        """Finished: acknowledged by itself. Twice is once, and an older ownership is void."""
        if message.epoch != self.epoch:
            return
        sequence, message_id = self._open.pop(message.position, (0, None))
        if message_id is not None:
            self._runs.finish(sequence)
            self._acknowledge(message_id)

    @property
    def busy(self) -> bool:
        """Whether it matters at once who owns the partition."""
        under_way = self._open or self._waiting or self._early
        return bool(under_way) or self.leaving or self.lost_since is not None

    @property
    def window(self) -> int:
        return self._runs.window

    def _forget(self) -> None:
        self._waiting: deque[tuple[Position, Any]] = deque()
        self._held: set[str] = set()  # positions of ``_waiting``
        self._open: dict[str, tuple[int, Any]] = {}  # handed out: sequence and message id
        self._runs = FinishedRuns(0)
        self._sequence = -1
        self._offset = -1
        self._first: Position | None = None
        self._newest: Position | None = None

    def _given(self, counts: Counts, handle: Any, raw: Any) -> None:
        """On a thread of the library. What is on its way to the loop counts for the bound of what is
        fetched ahead, also while the loop is busy with something else."""
        counts.given += 1
        self._bridge.post(self._came, counts, raw)
        if self._ahead_of_us(counts) >= self._ahead:
            handle.pause_message_listener()
            if (
                self._ahead_of_us(counts) <= self._ahead // 2
            ):  # taken before we paused: nobody else resumes
                handle.resume_message_listener()

    def _ahead_of_us(self, counts: Counts) -> int:
        return counts.given - counts.seen + len(self._waiting) + len(self._early)

    def _go_on(self) -> None:
        """There may be room again; it costs nothing where nobody has paused."""
        if self.handle is not None and self._ahead_of_us(self._counts) <= self._ahead // 2:
            self.handle.resume_message_listener()

    def _came(self, counts: Counts, raw: Any) -> None:
        counts.seen += 1
        if counts is self._counts:
            self._take_in(raw)

    def _take_in(self, raw: Any) -> None:
        if self.epoch == STANDBY or self.leaving:
            self._early.append((time.monotonic(), raw))
        else:
            self._accept(raw)
        self._arrived(self)

    def _accept(self, raw: Any) -> None:
        place = place_of(raw.message_id())
        if self._first is not None and place < self._first:
            self._rewound(self)
        if self._newest is None or place > self._newest:
            self._first, self._newest = self._first or place, place
            self._held.add(place.text)
            self._waiting.append((place, raw))
            return
        text = place.text
        if text not in self._held and text not in self._open:
            self._acknowledge(raw.message_id())  # finished, and the broker has not heard of it
        self._go_on()

    def _acknowledge(self, message_id: Any) -> None:
        self.settled = True
        with contextlib.suppress(
            pulsar.PulsarException
        ):  # a consumer that is closed: it comes again
            self.handle.acknowledge(message_id)
