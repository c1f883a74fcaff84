"""A partition while this process owns it: what a delivery asks about its ownership."""

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

    ``lost``  whether it was revoked or lost: its unfinished deliveries then belong to its next owner.
    """

    __slots__ = ("_any", "_consumer", "_half", "epoch", "lost", "partition")

    def __init__(self, partition: Partition, epoch: int, consumer: Consumer, window: int) -> None:
        self.partition = partition
        self.epoch = epoch
        self.lost = False
        self._consumer = consumer
        self._half = window / 2
        self._any = Message(_NOTHING, partition, "", 0, 0, epoch)  # logs are asked about messages

    def holds(self) -> bool:
        """Return True if the log says, by the lease that it has, that this process still owns the partition (rule 5)."""
        return self._consumer.holds(self._any)

    def replaced(self, error: StaleOwner) -> None:
        """Note that the store knows a newer owner. Raise StaleOwner if the log says that this process owns the partition
        all the same."""
        if not self.lost and self.holds():
            raise StaleOwner(
                f"{self.partition}: the store and the log differ on its owner"
            ) from error
        _log.warning("%s", error)

    def crowded(self) -> bool:
        """Return True if half of its window is used (rule 4)."""
        return self._consumer.window(self.partition) >= self._half


def by_owner(
    items: Iterable[Item], owned: Callable[[Item], OwnedPartition]
) -> dict[OwnedPartition, list[Item]]:
    """Return items by the ownership of their partition: one that was revoked and assigned again has two."""
    found: dict[OwnedPartition, list[Item]] = {}
    for item in items:
        found.setdefault(owned(item), []).append(item)
    return found
