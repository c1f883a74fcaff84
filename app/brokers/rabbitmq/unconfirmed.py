"""The records of one channel that were sent and have no confirm yet, in the order of their delivery tags."""

from __future__ import annotations

from collections.abc import Callable

from app.bindings.record import Record
from app.brokers.portable import Submission
from app.brokers.rabbitmq.aiormq_adapter import DeliveredMessage
from app.brokers.rabbitmq.targets import TargetPartitions
from app.errors import BrokerError, BrokerRefused, BrokerUnavailable, PublishUnknown

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
    ) -> None:
        """Create the empty list of a channel.

        Args:
            broker: The name of the broker, for errors.
            certain: A function that returns True if a returned record of a target would be returned again.
            is_recreated: A function that returns True if Skybridge creates missing queues of a target again.
        """
        self.bytes = 0
        self.tag = 0
        self._broker = broker
        self._certain = certain
        self._is_recreated = is_recreated
        self._in_flight: dict[int, tuple[Entry, int]] = {}
        self._returned: dict[int, BrokerError] = {}

    def __len__(self) -> int:
        return len(self._in_flight)

    def add(self, entry: Entry, size: int) -> None:
        self.tag += 1
        self._in_flight[self.tag] = entry, size
        self.bytes += size

    def confirmed(self, tag: int, multiple: bool, stored: bool) -> None:
        """Handle a confirm of one delivery tag, or of all tags up to it. RabbitMQ also confirms records that
        it returned; they are not stored."""
        in_flight = self._in_flight
        if not multiple:
            if tag in in_flight:
                self._resolve(tag, stored)
            return
        due = []
        for each in in_flight:
            if each > tag:
                break
            due.append(each)
        for each in due:
            self._resolve(each, stored)

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
        return entries

    def _resolve(self, tag: int, stored: bool) -> None:
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


def _matches(entry: Entry, message: DeliveredMessage) -> bool:
    _, _, record, batchers, partition = entry
    target = batchers.target
    return (
        target.routing_keys[partition] == message.routing_key
        and target.exchange == message.exchange
        and (record.body or b"") == message.body
        and (record.message_id or None) == message.header.properties.message_id
    )
