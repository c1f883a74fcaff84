"""Answers of the Metadata and Offset operations of the Kafka protocol guide, for every broker."""

from __future__ import annotations

import msgspec


class PartitionMetadata(msgspec.Struct, frozen=True):
    """``leader`` is None while an election is under way (the guide's -1). ``latest`` is the position
    that the next record will get; ``earliest == latest`` means empty.
    """

    number: int
    leader: int | None
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    earliest: str
    latest: str


class TopicMetadata(msgspec.Struct, frozen=True):
    name: str
    partitions: tuple[PartitionMetadata, ...]


class GroupLag(msgspec.Struct, frozen=True):
    """One group's place in one partition. ``lag`` counts records, None where nobody can say."""

    group: str
    topic: str
    partition: int
    committed: str | None
    lag: int | None


class LogMetadata(msgspec.Struct, frozen=True):
    broker: str
    topics: tuple[TopicMetadata, ...]
    groups: tuple[GroupLag, ...] = ()


class Health(msgspec.Struct, frozen=True):
    """``cause`` is for a person and names the cure; empty when healthy."""

    healthy: bool
    cause: str = ""
