"""The records of one channel that were sent and have no confirm yet, in the order of their delivery tags."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from app.bindings.record import Record
from app.brokers.portable import Submission
from app.brokers.rabbitmq.aiormq_adapter import DeliveredMessage
from app.brokers.rabbitmq.targets import TargetPartitions
from app.errors import BrokerError, BrokerRefused, BrokerUnavailable, PublishUnknown

Line = tuple[TargetPartitions, int]
Entry = tuple[Submission, int, Record, TargetPartitions, int]
"""A submission, the index of a record in it, the record, its target and the number of the partition."""


class UnconfirmedRecords:
    """The unconfirmed records of one channel. Delivery tags begin at 1 in each channel, as the broker counts
    them."""

    def __init__(
        self,
        broker: str,
        certain: Callable[[TargetPartitions], bool] = lambda _: True,
        *,
        is_recreated: Callable[[TargetPartitions], bool] = lambda _: False,
        in_order: bool = False,
    ) -> None:
        """Create the empty list of a channel.

        Args:
            broker: The name of the broker, for errors.
            certain: A function that returns True if a returned record of a target would be returned again.
            is_recreated: A function that returns True if Skybridge creates missing queues of a target again.
            in_order: Whether the targets are streams, which confirm in order; see ``StreamOrder``.
        """
        self.bytes = 0
        self.tag = 0
        self._broker = broker
        self._certain = certain
        self._is_recreated = is_recreated
        self._in_flight: dict[int, tuple[Entry, int]] = {}
        self._returned: dict[int, BrokerError] = {}
        self._lines = StreamOrder() if in_order else None

    def __len__(self) -> int:
        return len(self._in_flight)

    def add(self, entry: Entry, size: int) -> None:
        self.tag += 1
        self._in_flight[self.tag] = entry, size
        self.bytes += size
        if self._lines is not None and entry[3].target.has_known_queues:
            self._lines.join(self.tag, entry)

    def confirmed(self, tag: int, multiple: bool, stored: bool) -> None:
        """Handle a confirm of one delivery tag, or of all tags up to it. RabbitMQ also confirms records that
        it returned; they are not stored."""
        in_flight = self._in_flight
        if not multiple:
            if tag in in_flight:
                self._confirm(tag, stored)
            return
        due = []
        for each in in_flight:
            if each > tag:
                break
            due.append(each)
        for each in due:
            if each in in_flight:  # otherwise an earlier one of these has resolved it
                self._confirm(each, stored)

    def overtaken(self) -> int:
        """Return the delivery tag of a record that is still unconfirmed although a later record of the same
        stream has a confirm. Return 0 if there is none."""
        return 0 if self._lines is None else self._lines.overtaken()

    def _confirm(self, tag: int, stored: bool) -> None:
        entry, _ = self._in_flight[tag]
        if self._lines is None or not entry[3].target.has_known_queues:
            self._resolve(tag, stored=stored)
            return
        for due, known in self._lines.confirmed(tag, entry, stored):
            self._resolve(due, stored=known)

    def returned(self, message: DeliveredMessage) -> None:
        """Mark a record as unroutable. The confirm that follows resolves the record.

        The broker does not return the delivery tag. So the first record in flight with the same target, id
        and body is taken.
        """
        for tag, (entry, _) in self._in_flight.items():
            if tag not in self._returned and _matches(entry, message):
                self._returned[tag] = self._unroutable(message, entry[3])
                return

    def _unroutable(self, message: DeliveredMessage, batchers: TargetPartitions) -> BrokerError:
        where = f"exchange {message.exchange!r} with routing key {message.routing_key!r}"
        text = f"{where} leads to no queue: {getattr(message.delivery, 'reply_text', '')}"
        if self._is_recreated(batchers):
            return BrokerUnavailable(f"{text} (the queue is created again)", broker=self._broker)
        if self._certain(batchers):
            return BrokerRefused(text, kind="unroutable", broker=self._broker)
        return PublishUnknown(
            f"{text} (the broker was away, and may still be starting)", broker=self._broker
        )

    def remove_all(self) -> list[Entry]:
        """Remove and return all records in their order, because the channel is closed."""
        entries = [entry for entry, _ in self._in_flight.values()]
        self._in_flight.clear()
        self._returned.clear()
        self.bytes = 0
        if self._lines is not None:
            self._lines = StreamOrder()
        return entries

    def _resolve(self, tag: int, *, stored: bool) -> None:
        (submission, index, _, batchers, partition), size = self._in_flight.pop(tag)
        self.bytes -= size
        if tag in self._returned:
            submission.resolve(index, self._returned.pop(tag))
        elif stored:
            submission.resolve(index, batchers.receipts[partition])
        else:
            submission.resolve(index, self._not_taken())

    def _not_taken(self) -> BrokerError:
        return BrokerUnavailable(
            f"RabbitMQ {self._broker} rejected the record: the queue is full, or has no majority",
            broker=self._broker,
        )


class StreamOrder:
    """The order of confirms in each stream, to detect records that RabbitMQ 3 confirms without storing.

    A stream confirms records in their order. When its leader changes, RabbitMQ 3 sends unconfirmed records to
    the new leader under numbers that are too high. It then takes the same number of later records for copies:
    it confirms them without storing them (fixed by its pull request 12236). The records that were sent again
    never get a confirm. So a confirm counts only when all earlier records of its stream are confirmed.
    """

    def __init__(self) -> None:
        self._open: dict[Line, deque[int]] = {}  # unresolved tags by stream, in order
        self._early: dict[
            int, tuple[bool, Line]
        ] = {}  # tags with a confirm that wait for an earlier one

    def join(self, tag: int, entry: Entry) -> None:
        self._open.setdefault((entry[3], entry[4]), deque()).append(tag)

    def confirmed(self, tag: int, entry: Entry, stored: bool) -> list[tuple[int, bool]]:
        """Return the delivery tags that are resolved now. Each has True if its record is stored."""
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
        """Return the delivery tag of a record that is still unconfirmed although a later record of the same
        stream has a confirm. Return 0 if there is none."""
        for _, place in self._early.values():
            return self._open[place][0]
        return 0


def _matches(entry: Entry, message: DeliveredMessage) -> bool:
    _, _, record, batchers, partition = entry
    target = batchers.target
    return (
        target.routing_keys[partition] == message.routing_key
        and target.exchange == message.exchange
        and (record.body or b"") == message.body
        and (record.message_id or None) == message.header.properties.message_id
    )
