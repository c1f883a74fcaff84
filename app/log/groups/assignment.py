"""The assignment of partitions: Kafka's range strategy and its wire form.

Because of the wire form, members in this process and clients of a Kafka listener can share a group."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from struct import pack, unpack_from

from app.model.message import Partition

STRATEGY = "range"
_VERSION = pack(">h", 0)
_NO_USER_DATA = pack(">i", -1)


def write_subscription(topics: Sequence[str]) -> bytes:
    """Encode the topics that a member wants, for the leader."""
    return _VERSION + pack(">i", len(topics)) + b"".join(map(_text, topics)) + _NO_USER_DATA


def read_subscription(data: bytes) -> list[str]:
    """Decode the topics that a member wants."""
    (count,) = unpack_from(">i", data, 2)
    topics, at = [], 6
    for _ in range(count):
        topic, at = _read_text(data, at)
        topics.append(topic)
    return topics


def write_assignment(partitions: Sequence[Partition]) -> bytes:
    """Encode the partitions that the leader assigns to a member."""
    by_topic: dict[str, list[int]] = {}
    for partition in partitions:
        by_topic.setdefault(partition.topic, []).append(partition.number)
    parts = [
        _text(topic) + pack(f">i{len(numbers)}i", len(numbers), *numbers)
        for topic, numbers in by_topic.items()
    ]
    return _VERSION + pack(">i", len(parts)) + b"".join(parts) + _NO_USER_DATA


def read_assignment(data: bytes) -> list[Partition]:
    """Decode the partitions of an assignment."""
    if not data:
        return []
    (count,) = unpack_from(">i", data, 2)
    partitions, at = [], 6
    for _ in range(count):
        topic, at = _read_text(data, at)
        (many,) = unpack_from(">i", data, at)
        partitions += [Partition(topic, n) for n in unpack_from(f">{many}i", data, at + 4)]
        at += 4 + 4 * many
    return partitions


def assign_ranges(
    wanted: Mapping[str, Sequence[str]], partitions: Mapping[str, int]
) -> dict[str, list[Partition]]:
    """Assign partitions to members by Kafka's range strategy.

    A member gets neighbouring partitions of each topic. If the partitions cannot be divided evenly, the first
    members get one more each.

    Args:
        wanted: the topics that each member wants.
        partitions: the number of partitions of each topic.
    """
    given: dict[str, list[Partition]] = {member: [] for member in wanted}
    for topic, count in sorted(partitions.items()):
        members = sorted(member for member, topics in wanted.items() if topic in topics)
        if not members:
            continue
        share, more = divmod(count, len(members))
        first = 0
        for at, member in enumerate(members):
            after = first + share + (at < more)
            given[member] += [Partition(topic, number) for number in range(first, after)]
            first = after
    return given


def _text(value: str) -> bytes:
    data = value.encode()
    return pack(">h", len(data)) + data


def _read_text(data: bytes, at: int) -> tuple[str, int]:
    (length,) = unpack_from(">h", data, at)
    return data[at + 2 : at + 2 + length].decode(), at + 2 + length
