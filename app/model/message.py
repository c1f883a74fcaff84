"""What comes out of a log: a record with its place, and what a consumer is told about ownership."""

from __future__ import annotations

import msgspec

from app.bindings.record import Decoded, Record


class Partition(msgspec.Struct, frozen=True):
    """One partition of one topic: the unit of order and of ownership."""

    topic: str
    number: int

    def __str__(self) -> str:
        return f"{self.topic}/{self.number}"


class Message(msgspec.Struct, frozen=True, gc=False):  # it can be in no cycle
    """A record from a log, with its place.

    ``position``  opaque text, ordered only within its partition, only by the driver that made it.
    ``offset``    the same place as a number that grows by at least one a message: the window is
                  measured with it.
    ``time_ms``   the log's own time of the record, milliseconds since the epoch.
    ``epoch``     the ownership under which it was handed out, which no other owner of the partition
                  shares; a settle under another one is void.
    ``decoded``   the event in it, where the log had to look whether it is wanted, and it is.
    """

    record: Record
    partition: Partition
    position: str
    offset: int
    time_ms: int
    epoch: int
    decoded: Decoded | None = None


class Assigned(msgspec.Struct, frozen=True):
    """These partitions are ours from now on, under this epoch."""

    partitions: tuple[Partition, ...]
    epoch: int


class Revoked(msgspec.Struct, frozen=True):
    """These partitions are being taken from us: settle what is finished, forget the rest.

    The hand-over waits, within the driver's bound, until the consumer is asked for the next batch.
    """

    partitions: tuple[Partition, ...]
    epoch: int


class Lost(msgspec.Struct, frozen=True):
    """These partitions are already somebody else's: nothing can be settled any more."""

    partitions: tuple[Partition, ...]
    epoch: int


Batch = tuple[Message, ...]
ConsumerEvent = Batch | Assigned | Revoked | Lost


class MessagePage(msgspec.Struct, frozen=True):
    """``messages`` in order, ``bytes`` of them; ``next_offset`` is where the next page begins, also past
    damage."""

    messages: tuple[Message, ...]
    next_offset: int
    bytes: int = 0
