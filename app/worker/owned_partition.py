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

    ``lost``  it was revoked or lost: what is left of its deliveries concerns its next owner.
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
        """Whether its log says now, without asking anybody, that it is ours (rule 5)."""
        return self._consumer.holds(self._any)

    def replaced(self, error: StaleOwner) -> None:
        """The store knows a newer owner, and what is left of ours concerns it. Raises StaleOwner where the
        log says that it is ours all the same."""
        if not self.lost and self.holds():
            raise StaleOwner(
                f"{self.partition}: the store and the log differ on its owner"
            ) from error
        _log.warning("%s", error)

    def crowded(self) -> bool:
        """Whether half of its window is used (rule 4)."""
        return self._consumer.window(self.partition) >= self._half


def by_owner(
    items: Iterable[Item], owned: Callable[[Item], OwnedPartition]
) -> dict[OwnedPartition, list[Item]]:
    """A partition may have been taken from us and given back: then its old items stand apart."""
    found: dict[OwnedPartition, list[Item]] = {}
    for item in items:
        found.setdefault(owned(item), []).append(item)
    return found
