"""Messages from a log, and the changes of ownership that a consumer receives."""

from __future__ import annotations

import msgspec

from app.bindings.record import Decoded, Record


class Partition(msgspec.Struct, frozen=True, cache_hash=True):
    """One partition of one topic: the unit of order and of ownership."""

    topic: str
    number: int

    def __str__(self) -> str:
        return f"{self.topic}/{self.number}"


class Message(msgspec.Struct, frozen=True, gc=False):  # an instance can be in no reference cycle
    """A record from a log, with its position.

    Attributes:
        record: The record.
        partition: The partition.
        position: Opaque text, which only the driver that made it can order, and only within the partition.
        offset: The position as a number that grows by at least one per message. The delivery window is
            measured in it.
        time_ms: The log's own time of the record, in ms since 1970.
        epoch: The ownership under which the message was read. No other owner of the partition has it, and a commit
            under another epoch has no effect.
        decoded: The event, if the log decoded it to evaluate filters, and the filters match.
    """

    record: Record
    partition: Partition
    position: str
    offset: int
    time_ms: int
    epoch: int
    decoded: Decoded | None = None


class Assigned(msgspec.Struct, frozen=True):
    """A change of ownership: this consumer owns the partitions from now on, under this epoch."""

    partitions: tuple[Partition, ...]
    epoch: int


class Revoked(msgspec.Struct, frozen=True):
    """A change of ownership in progress: the consumer must commit what is finished, and drop other messages.

    The hand-over waits, within the driver's time limit, until the consumer is asked for its next batch.
    """

    partitions: tuple[Partition, ...]
    epoch: int


class Lost(msgspec.Struct, frozen=True):
    """A change of ownership that has happened: other consumers own the partitions, and nothing can be committed."""

    partitions: tuple[Partition, ...]
    epoch: int


Batch = tuple[Message, ...]
ConsumerEvent = Batch | Assigned | Revoked | Lost


class MessagePage(msgspec.Struct, frozen=True):
    """Messages of a partition in order, as one page.

    Attributes:
        messages: The messages.
        next_offset: The offset where the next page begins, after any damaged records.
        bytes: The bytes of the messages.
    """

    messages: tuple[Message, ...]
    next_offset: int
    bytes: int = 0
