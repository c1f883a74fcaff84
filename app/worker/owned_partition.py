"""A partition while this process owns it: its epoch, its lease and its window of unfinished offsets."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from typing import TypeVar

from app.bindings.record import Record
from app.errors import StaleOwner
from app.interfaces import Consumer
from app.model.message import Message, Partition

Item = TypeVar("Item")

_NOTHING = Record(None, (), None)
_log = logging.getLogger("skybridge.worker")


class OwnedPartition:
    """A partition while this process owns it, under one epoch.

    ``lost`` is True after it was revoked or lost. Its unfinished deliveries then belong to its next owner."""

    __slots__ = ("_any", "_consumer", "_half", "epoch", "lost", "partition")

    def __init__(self, partition: Partition, epoch: int, consumer: Consumer, window: int) -> None:
        self.partition = partition
        self.epoch = epoch
        self.lost = False
        self._consumer = consumer
        self._half = window / 2
        self._any = Message(
            _NOTHING, partition, "", 0, 0, epoch
        )  # ``holds`` of a log takes a message

    def holds(self) -> bool:
        """Return True if the lease of this process on the partition is still valid."""
        return self._consumer.holds(self._any)

    def replaced(self, error: StaleOwner) -> None:
        """Log that the store knows a newer owner. Raise StaleOwner if the log still names this process as the
        owner."""
        if not self.lost and self.holds():
            raise StaleOwner(
                f"{self.partition}: the store and the log differ on its owner"
            ) from error
        _log.warning("%s", error)

    def crowded(self) -> bool:
        """Return True if half of the partition's window is used."""
        return self._consumer.window(self.partition) >= self._half


def group_by_ownership(
    items: Iterable[Item], owned: Callable[[Item], OwnedPartition]
) -> dict[OwnedPartition, list[Item]]:
    """Group items by the ownership of their partition. A partition that was revoked and assigned again has two
    ownerships."""
    found: dict[OwnedPartition, list[Item]] = {}
    for item in items:
        found.setdefault(owned(item), []).append(item)
    return found
