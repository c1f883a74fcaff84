"""The partitions of a topic as a publisher sees them: what waits for a producer, what is with it."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import Any

from app.bindings.record import Record
from app.brokers.driver import DROPPED, Submission
from app.errors import BrokerError, PublishUnknown
from app.model.receipt import Receipt
from app.routing.partitions import partition_of

UNKNOWN = PublishUnknown("the connection was lost before Pulsar answered")


class Entry:
    """A record, and where its fate goes. ``tried``: a client had it once, so that it may be stored.
    ``failed``: that client did not publish it. ``gone``: another entry stands for it now."""

    __slots__ = ("batcher", "failed", "gone", "index", "record", "submission", "tried")

    def __init__(
        self, batcher: Batcher, submission: Submission, index: int, record: Record
    ) -> None:
        self.batcher = batcher
        self.submission = submission
        self.index = index
        self.record = record
        self.tried = False
        self.failed = False
        self.gone = False

    def resolve(self, result: Receipt | BrokerError) -> None:
        self.submission.resolve(self.index, result)

    def give_up(self, error: BrokerError) -> None:
        """The same as ``error`` says, unless it may be stored."""
        self.resolve(UNKNOWN if self.tried else error)

    def again(self) -> Entry:
        """The same record for the next client; late news of the last one are for nobody."""
        self.gone = True
        entry = Entry(self.batcher, self.submission, self.index, self.record)
        entry.tried = True
        return entry


class Batcher:
    """One partition. ``aboard`` is in the order of sending, which is the order of answers."""

    __slots__ = ("aboard", "cause", "number", "opening", "producer", "queue", "topic", "wire")

    def __init__(self, topic: Topic, number: int, wire: str) -> None:
        self.topic = topic
        self.number = number
        self.wire = wire
        self.producer: Any = None
        self.opening = False
        self.cause = ""  # why there is no producer
        self.queue: deque[Entry] = deque()
        self.aboard: deque[Entry] = deque()

    def connected(self) -> bool:
        return self.producer is not None and bool(self.producer.is_connected())

    def answered_aboard(self) -> bool:
        """Whether the client holds a record whose caller has had his answer."""
        return bool(self.aboard) and self.aboard[0].submission.done()

    def landed(self, entry: Entry, receipt: Receipt) -> None:
        """Stored. An earlier one that failed may not follow it any more: that would turn their order
        round, and whether it is stored nobody knows."""
        aboard = self.aboard
        while (first := aboard.popleft()) is not entry:
            first.gone = True
            first.resolve(UNKNOWN)
        entry.resolve(receipt)

    def refused(self, entry: Entry, error: BrokerError) -> None:
        self.aboard.remove(entry)
        entry.resolve(error)

    def recall(self) -> None:
        """The client is given up: what it had and is still unanswered goes back to the head of the
        queue, in its order (rule 9: what was answered is dropped)."""
        aboard, self.aboard, self.producer = self.aboard, deque(), None
        waiting = [entry.again() for entry in _unanswered(aboard)]
        self.queue.extendleft(reversed(waiting))

    def give_up(self, error: BrokerError) -> None:
        """The same fate for all that is queued."""
        queue, self.queue = self.queue, deque()
        for entry in _unanswered(queue):
            entry.give_up(error)


def _unanswered(entries: Iterable[Entry]) -> list[Entry]:
    kept: list[Entry] = []
    for entry in entries:
        if entry.submission.done():
            entry.gone = True
            entry.resolve(DROPPED)
        else:
            kept.append(entry)
    return kept


class Topic:
    """Its batchers, and which of them a record joins."""

    def __init__(self, name: str, wires: Iterable[str]) -> None:
        self.name = name
        self.batchers: list[Batcher] = []
        self._turn = 0
        self.grow(wires)

    def grow(self, wires: Iterable[str]) -> None:
        """``wires``: all partitions, those known included."""
        for number, wire in enumerate(wires):
            if number >= len(self.batchers):
                self.batchers.append(Batcher(self, number, wire))

    def batcher(self, key: bytes | None) -> Batcher:
        """Where the key belongs; without one, each in turn."""
        batchers = self.batchers
        if key is None:
            self._turn = turn = (self._turn + 1) % len(batchers)
            return batchers[turn]
        return batchers[partition_of(key, len(batchers))]
