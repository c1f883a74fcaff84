"""What is on the wire of one channel and not yet confirmed, in the order of its delivery tags."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from app.bindings.record import Record
from app.brokers.portable import Submission
from app.brokers.rabbitmq.aiormq_adapter import DeliveredMessage
from app.brokers.rabbitmq.targets import Batchers
from app.errors import BrokerError, BrokerRefused, BrokerUnavailable, PublishUnknown

Line = tuple[Batchers, int]
Entry = tuple[Submission, int, Record, Batchers, int]
"""A record, where its fate goes (the submission and the index in it), and its target's partition."""


class Unconfirmed:
    """Tags count from 1 in each channel, as the broker counts them."""

    def __init__(
        self,
        broker: str,
        certain: Callable[[Batchers], bool] = lambda _: True,
        *,
        made: Callable[[Batchers], bool] = lambda _: False,
        in_turn: bool = False,
    ) -> None:
        """``certain``: whether what comes back from there will come back again. ``made``: whether queues
        that are missing there are made again. ``in_turn``: see ``Lines``."""
        self.bytes = 0
        self.tag = 0
        self._broker = broker
        self._certain = certain
        self._made = made
        self._aboard: dict[int, tuple[Entry, int]] = {}
        self._returned: dict[int, BrokerError] = {}
        self._lines = Lines() if in_turn else None

    def __len__(self) -> int:
        return len(self._aboard)

    def board(self, entry: Entry, size: int) -> None:
        self.tag += 1
        self._aboard[self.tag] = entry, size
        self.bytes += size
        if self._lines is not None and entry[3].target.is_seen_whole:
            self._lines.join(self.tag, entry)

    def confirmed(self, tag: int, multiple: bool, stored: bool) -> None:
        """One confirm, or all up to it. What came back unroutable is confirmed as well: it is not
        stored (reliability 5.2)."""
        aboard = self._aboard
        if not multiple:
            if tag in aboard:
                self._confirm(tag, stored)
            return
        due = []
        for each in aboard:
            if each > tag:
                break
            due.append(each)
        for each in due:
            if each in aboard:  # else it was confirmed before, and has landed with one of these
                self._confirm(each, stored)

    def overtaken(self) -> int:
        """The tag of a record without a confirm that one behind it in its partition has; 0: none is."""
        return 0 if self._lines is None else self._lines.overtaken()

    def _confirm(self, tag: int, stored: bool) -> None:
        entry, _ = self._aboard[tag]
        if self._lines is None or not entry[3].target.is_seen_whole:
            self._land(tag, stored=stored)
            return
        for due, known in self._lines.confirmed(tag, entry, stored):
            self._land(due, stored=known)

    def returned(self, message: DeliveredMessage) -> None:
        """Nothing takes it. The broker tells before it confirms, and without our tag: it is the first
        aboard that went there with this id and this body."""
        for tag, (entry, _) in self._aboard.items():
            if tag not in self._returned and _is(entry, message):
                self._returned[tag] = self._came_back(message, entry[3])
                return

    def _came_back(self, message: DeliveredMessage, batchers: Batchers) -> BrokerError:
        where = f"exchange {message.exchange!r} with routing key {message.routing_key!r}"
        text = f"{where} leads to no queue: {getattr(message.delivery, 'reply_text', '')}"
        if self._made(batchers):
            return BrokerUnavailable(f"{text} (its queue is made again)", broker=self._broker)
        if self._certain(batchers):
            return BrokerRefused(text, kind="unroutable", broker=self._broker)
        return PublishUnknown(
            f"{text} (the broker was away, and may still be starting)", broker=self._broker
        )

    def unload(self) -> list[Entry]:
        """Everything, in its order: the channel is gone."""
        entries = [entry for entry, _ in self._aboard.values()]
        self._aboard.clear()
        self._returned.clear()
        self.bytes = 0
        if self._lines is not None:
            self._lines = Lines()
        return entries

    def _land(self, tag: int, *, stored: bool) -> None:
        (submission, index, _, batchers, partition), size = self._aboard.pop(tag)
        self.bytes -= size
        if tag in self._returned:
            submission.resolve(index, self._returned.pop(tag))
        elif stored:
            submission.resolve(index, batchers.receipts[partition])
        else:
            submission.resolve(index, self._not_taken())

    def _not_taken(self) -> BrokerError:
        return BrokerUnavailable(
            f"RabbitMQ {self._broker} refused it: its queue is full, or has no majority",
            broker=self._broker,
        )


class Lines:
    """A stream confirms what was sent to it in its order. Where its leader changes meanwhile, RabbitMQ
    3 sends what is open again to the new one under numbers that are too high, and takes as many records
    behind for copies: confirms them, and stores none (its pull request 12236 mends it). What was sent
    again never has its confirm. So one counts when all before it in its stream have theirs.
    """

    def __init__(self) -> None:
        self._open: dict[Line, deque[int]] = {}  # tags that have not landed
        self._early: dict[int, tuple[bool, Line]] = {}  # confirmed before one that came before it

    def join(self, tag: int, entry: Entry) -> None:
        self._open.setdefault((entry[3], entry[4]), deque()).append(tag)

    def confirmed(self, tag: int, entry: Entry, stored: bool) -> list[tuple[int, bool]]:
        """Which tags land now, and whether they are stored."""
        place = entry[3], entry[4]
        line, early = self._open[place], self._early
        early[tag] = stored, place
        due = []
        while line and line[0] in early:
            first = line.popleft()
            due.append((first, early.pop(first)[0]))
        if not line:
            del self._open[place]
        return due

    def overtaken(self) -> int:
        """As ``Unconfirmed.overtaken``."""
        for _, place in self._early.values():
            return self._open[place][0]
        return 0


def _is(entry: Entry, message: DeliveredMessage) -> bool:
    _, _, record, batchers, partition = entry
    target = batchers.target
    return (
        target.routing_keys[partition] == message.routing_key
        and target.exchange == message.exchange
        and (record.body or b"") == message.body
        and (record.message_id or None) == message.header.properties.message_id
    )
