"""The answers of the Metadata and Offset operations of the Kafka protocol guide, for every broker."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

import msgspec

ReadTopics = Mapping[str, Collection[str]]
"""The topics that each group reads, by group."""
NO_GROUPS: ReadTopics = {}


class PartitionMetadata(msgspec.Struct, frozen=True):
    """One partition of a topic with its replicas and positions.

    Attributes:
        number: The number of the partition.
        leader: The broker that leads it. None while an election runs (-1 in the guide).
        replicas: The brokers that have copies.
        isr: The brokers whose copies are in sync.
        earliest: The first position.
        latest: The position that the next record will get. It equals ``earliest`` if the partition is empty.
    """

    number: int
    leader: int | None
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    earliest: str
    latest: str


class TopicMetadata(msgspec.Struct, frozen=True):
    """One topic with its partitions."""

    name: str
    partitions: tuple[PartitionMetadata, ...]


class GroupLag(msgspec.Struct, frozen=True):
    """The committed position of one group in one partition, and its lag in records. ``lag`` is None if it is
    unknown.
    """

    group: str
    topic: str
    partition: int
    committed: str | None
    lag: int | None

    @property
    def has_begun(self) -> bool:
        """Return True if the group has a position in the partition."""
        return self.committed is not None or self.lag is not None


class Lags(NamedTuple):
    """The lag of the groups of all subscriptions.

    Attributes:
        partitions: The lag of each group in the partitions that it reads.
        silent: The groups of brokers that do not answer. They have no partitions here.
    """

    partitions: Sequence[GroupLag] = ()
    silent: Collection[str] = ()

    def totals(self) -> Mapping[str, int | None]:
        """Return the lag of each group in records. It is None if it is unknown in one partition, because a
        partial sum would mislead. A group that has not begun is missing: it has no position in any partition."""
        found: dict[str, int | None] = dict.fromkeys(self.silent)
        begun = {each.group for each in self.partitions if each.has_begun}
        for each in self.partitions:
            if each.group in begun:
                before = found.get(each.group, 0)
                found[each.group] = (
                    None if before is None or each.lag is None else before + each.lag
                )
        return found


class LogMetadata(msgspec.Struct, frozen=True):
    """The topics of one log, and the lag of its groups."""

    broker: str
    topics: tuple[TopicMetadata, ...]
    groups: tuple[GroupLag, ...] = ()


class LogHealth(msgspec.Struct, frozen=True):
    """The health of a log. ``cause`` names the reason and the cure if it is not healthy, and is empty otherwise."""

    healthy: bool
    cause: str = ""
