"""A queue that this member owns, with its messages: received, handed out, or settled."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable

from app.brokers.rabbitmq.aiormq_adapter import AbstractChannel
from app.brokers.rabbitmq.connection import RabbitConnection
from app.brokers.rabbitmq.frames import ack
from app.brokers.rabbitmq.read_frames import Delivered
from app.delivery.offsets import FinishedRuns
from app.model.message import Message, Partition


class OwnedQueue:
    """A queue that this member owns, for as long as its channel is open.

    Closing the channel requeues all unsettled messages in their order. Offsets are delivery tags, which begin
    at 1 in each channel. A position consists of the epoch and the tag, so a message that is delivered again
    has another position.
    """

    def __init__(
        self, partition: Partition, connection: RabbitConnection, arrived: Callable[[], None]
    ) -> None:
        self.partition = partition
        self.epoch = 0  # set when the ownership begins
        self.revoking = False
        self.channel: AbstractChannel | None = None
        self._connection = connection
        self._arrived = arrived
        self._buffer: deque[Delivered] = deque()
        self._open: dict[int, None] = {}  # tags of messages handed out and not settled, in order
        self._runs = FinishedRuns(1)

    def delivered(self, message: Delivered) -> None:
        self._buffer.append(message)
        self._arrived()

    @property
    def unsettled(self) -> int:
        """Return the number of messages that were received and not settled."""
        return len(self._buffer) + len(self._open)

    @property
    def window(self) -> int:
        return self._runs.window

    def take(self, most: int) -> list[Message]:
        messages: list[Message] = []
        while self._buffer and len(messages) < most:
            delivered = self._buffer.popleft()
            tag = delivered.tag
            self._open[tag] = None
            self._runs.take(tag)
            position = f"{self.epoch}-{tag}"
            messages.append(message_of(delivered, self.partition, tag, position, self.epoch))
        return messages

    def settle(self, offsets: Iterable[int]) -> None:
        """Acknowledge messages. One frame covers all settled messages at the head of the queue. Each message
        after an unsettled one needs its own frame."""
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
        self._connection.write(b"".join(frames))


def message_of(
    delivered: Delivered, partition: Partition, offset: int, position: str, epoch: int
) -> Message:
    """Return the message of a delivery. If the publisher set no time, the time is that of arrival in this
    process."""
    record = delivered.record
    time_ms = time.time_ns() // 1_000_000 if record.time_ms is None else record.time_ms
    return Message(record, partition, position, offset, time_ms, epoch)
