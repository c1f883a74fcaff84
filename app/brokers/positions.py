"""Positions as texts that come from outside, of every broker whose positions are numbers (offsets)."""

from __future__ import annotations

from app.errors import PositionOutOfRange
from app.model.message import Partition
from app.model.position import is_offset


def offset_of(position: str) -> int:
    """The number in a position of ours; any other text is out of range by itself."""
    if not is_offset(position):
        raise PositionOutOfRange(f"{position!r} is not a position: an offset is a number")
    return int(position)


def checked(partition: Partition, position: str, earliest: int, latest: int) -> int:
    """The offset, where the partition holds it. Raises PositionOutOfRange (rule 10)."""
    if not is_offset(position) or not earliest <= int(position) <= latest:
        raise out_of_range(partition, position, str(earliest), str(latest))
    return int(position)


def out_of_range(
    partition: Partition, position: str, earliest: str, latest: str
) -> PositionOutOfRange:
    return PositionOutOfRange(
        f"{partition} holds positions {earliest} to {latest}, not {position}",
        earliest=earliest,
        latest=latest,
    )
