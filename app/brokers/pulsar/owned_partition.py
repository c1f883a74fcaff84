"""One partition of one member: messages that have arrived, are open, or are finished.

A broker sends all unfinished messages again, in order, to a new owner and to a member that reconnects. So
each arriving message is compared with the messages that this member took under the same ownership. Each
message is then handed out once. The comparison needs the order of arrival, which the library keeps for
listeners only.

There is one exception. The broker may make another consumer the owner and this one again, while it reads from
its disks. Then it sends nothing again, because this consumer has got those messages before. So a consumer of
the library whose messages were forgotten is replaced before its member owns the partition again.
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

STANDBY = 0  # the epoch of a partition that the member does not own


class ListenerCounts:
    """Counts of messages for one consumer of the library. They count messages that the listener got, and
    messages that the event loop has seen."""

    __slots__ = ("given", "seen")

    def __init__(self) -> None:
        self.given = 0
        self.seen = 0


class PulsarPartition:
    """A partition in which this member takes part. The member owns the partition while ``epoch`` is not
    STANDBY.

    Args:
        partition: The partition.
        wire: The full name of the partition.
        bridge: The bridge between the library's threads and the event loop.
        ahead: Most messages that are prefetched.
        arrived: Called for each message that has arrived.
        rewound: Called when the broker sends messages again from before the first message of this ownership.
            Another member has then owned the partition in between.
    """

    def __init__(
        self,
        partition: Partition,
        wire: str,
        bridge: Bridge,
        *,
        ahead: int,
        arrived: Callable[[PulsarPartition], None],
        rewound: Callable[[PulsarPartition], None],
    ) -> None:
        self.partition = partition
        self.wire = wire
        self.epoch = STANDBY
        self.leaving = False  # revoked; messages can still be settled
        self.paused = False
        self.lease_until = 0.0  # end of the lease, by the monotonic clock
        self.lost_since: float | None = None
        self.forgot = False  # whether unfinished messages of ``handle`` were forgotten
        self.settled = False  # whether messages were settled since the last commit
        self.handle: Any = None
        self._bridge = bridge
        self._ahead = ahead
        self._arrived = arrived
        self._rewound = rewound
        self._counts = ListenerCounts()
        self._early: list[
            tuple[float, Any]
        ] = []  # arrival times and messages, while the owner is not known
        self._offset = -1  # of the newest message handed out
        self._forget()

    def new_listener(self) -> Callable[[Any, Any], None]:
        """Return the listener for the next consumer of the library. Messages for an earlier listener are
        ignored from now on."""
        self._counts = ListenerCounts()
        self._early.clear()
        self._forget()
        self.forgot = False
        return partial(self._on_listener, self._counts)

    def attach(self, handle: Any) -> None:
        """Use the library's consumer ``handle``, which was opened with the newest listener."""
        self.handle = handle
        self.lost_since = None

    def own(self, epoch: int) -> None:
        """Begin an ownership. Messages that arrived before the ownership was known belong to it too."""
        early, self._early = self._early, []
        self._forget()
        self.epoch, self.leaving = epoch, False
        for _, raw in early:
            self._accept(raw)

    def belongs_to_another(self, asked: float) -> None:
        """Note that another member owns the partition. The broker reported this in the answer to a request at
        the time ``asked``.

        Messages that arrived before this time are dropped, because they belong to a past ownership. Later
        messages are kept, because this member may own the partition by now.
        """
        since = [each for each in self._early if each[0] >= asked]
        self.forgot = self.forgot or len(since) < len(self._early)
        self._early = since
        self._resume_if_room()

    def release(self) -> None:
        self.forgot = self.forgot or bool(self._waiting or self._open)
        self.epoch, self.leaving = STANDBY, False
        self._forget()
        self._resume_if_room()

    def starts_over(self) -> None:
        """Note that the broker sends all unfinished messages again, because the connection was lost or because
        it has begun to."""
        self.forgot = False

    def connected(self) -> bool:
        return self.handle is not None and bool(self.handle.is_connected())

    def take(self, most: int) -> list[Message]:
        """Return and remove the next messages, in order, at most ``most``."""
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
        self._resume_if_room()
        return taken

    def settle(self, message: Message) -> None:
        """Acknowledge one finished message. A repetition, or a message of an older ownership, is ignored."""
        if message.epoch != self.epoch:
            return
        sequence, message_id = self._open.pop(message.position, (0, None))
        if message_id is not None:
            self._runs.finish(sequence)
            self._acknowledge(message_id)

    @property
    def busy(self) -> bool:
        """Return True if the owner of the partition should be checked soon, because messages or changes of
        ownership are pending."""
        under_way = self._open or self._waiting or self._early
        return bool(under_way) or self.leaving or self.lost_since is not None

    @property
    def window(self) -> int:
        return self._runs.window

    def _forget(self) -> None:
        self._waiting: deque[tuple[Position, Any]] = deque()
        self._held: set[str] = set()  # positions of ``_waiting``
        self._open: dict[str, tuple[int, Any]] = {}  # messages handed out: sequence and message id
        self._runs = FinishedRuns(0)
        self._sequence = -1
        self._offset = -1
        self._first: Position | None = None
        self._newest: Position | None = None

    def _on_listener(self, counts: ListenerCounts, handle: Any, raw: Any) -> None:
        """Pass a message to the event loop. Called on a thread of the library.

        A message counts as prefetched before it reaches the loop, even while the loop is busy.
        """
        counts.given += 1
        self._bridge.post(self._on_loop, counts, raw)
        if self._prefetched(counts) >= self._ahead:
            handle.pause_message_listener()
            # The messages may have been taken just before the pause, and then no other call resumes.
            if self._prefetched(counts) <= self._ahead // 2:
                handle.resume_message_listener()

    def _prefetched(self, counts: ListenerCounts) -> int:
        return counts.given - counts.seen + len(self._waiting) + len(self._early)

    def _resume_if_room(self) -> None:
        """Resume the listener if at most half of the prefetch limit is used. Do nothing if the listener is
        not paused."""
        if self.handle is not None and self._prefetched(self._counts) <= self._ahead // 2:
            self.handle.resume_message_listener()

    def _on_loop(self, counts: ListenerCounts, raw: Any) -> None:
        counts.seen += 1
        if counts is self._counts:
            self._receive(raw)

    def _receive(self, raw: Any) -> None:
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
            self._acknowledge(
                raw.message_id()
            )  # finished, but the broker has not received the acknowledgement
        self._resume_if_room()

    def _acknowledge(self, message_id: Any) -> None:
        self.settled = True
        # A closed consumer raises; the broker then sends the message again.
        with contextlib.suppress(pulsar.PulsarException):
            self.handle.acknowledge(message_id)
