"""One queue that this member owns: what came from it, what was handed out, what is settled."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable

from app.brokers.rabbitmq.connection import Wire
from app.brokers.rabbitmq.frames import ack
from app.brokers.rabbitmq.records import message_of
from app.brokers.rabbitmq.underlay import ConsumeChannel, DeliveredMessage
from app.delivery.offsets import FinishedRuns
from app.model.message import Message, Partition


class Holding:
    """Lives and dies with its channel, whose closing gives back all that is not settled, in order.

    Delivery tags are the offsets: they count from 1 in each channel. A position is unique in time, for
    it has the epoch before the tag; a redelivery has another.
    """

    def __init__(self, partition: Partition, wire: Wire, arrived: Callable[[], None]) -> None:
        self.partition = partition
        self.epoch = 0  # until it is ours
        self.revoking = False
        self.channel: ConsumeChannel | None = None
        self._wire = wire
        self._arrived = arrived
        self._buffer: deque[DeliveredMessage] = deque()
        self._open: dict[int, None] = {}  # handed out and not settled, in order
        self._runs = FinishedRuns(1)

    def delivered(self, message: DeliveredMessage) -> None:
        self._buffer.append(message)
        self._arrived()

    @property
    def unsettled(self) -> int:
        """Messages that the broker counts as with us."""
        return len(self._buffer) + len(self._open)

    @property
    def window(self) -> int:
        return self._runs.window

    def take(self, most: int) -> list[Message]:
        messages: list[Message] = []
        while self._buffer and len(messages) < most:
            delivered = self._buffer.popleft()
            tag = delivered.delivery_tag or 0
            self._open[tag] = None
            self._runs.take(tag)
            position = f"{self.epoch}-{tag}"
            messages.append(message_of(delivered, self.partition, tag, position, self.epoch))
        return messages

    def settle(self, offsets: Iterable[int]) -> None:
        """One frame for the finished ones at the head, one for each beyond a gap (rule 2)."""
        finished = {offset for offset in offsets if offset in self._open}
        if not finished or self.channel is None:
            return
        for offset in finished:
            self._runs.finish(offset)
        head: list[int] = []
        for tag in self._open:
            if tag not in finished:
                break
            head.append(tag)
        number = self.channel.number
        frames = [ack(number, head[-1], multiple=True)] if head else []
        frames += [ack(number, tag, multiple=False) for tag in sorted(finished.difference(head))]
        for tag in finished:
            del self._open[tag]
        self._wire.write(b"".join(frames))
