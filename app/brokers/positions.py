"""Check positions given as text by callers, for brokers whose positions are numbers (offsets)."""

from __future__ import annotations

from app.errors import PositionOutOfRange
from app.model.message import Partition
from app.model.position import is_offset


def offset_of(position: str) -> int:
    """Return the offset that a position names. Raise PositionOutOfRange if the text is not a number."""
    if not is_offset(position):
        raise PositionOutOfRange(f"{position!r} is not a position: an offset is a number")
    return int(position)


def checked_offset(partition: Partition, position: str, earliest: int, latest: int) -> int:
    """Return the offset if the partition holds it. Raise PositionOutOfRange if the partition does not.

    Args:
        partition: The partition to which the position belongs.
        position: The position as text.
        earliest: The first offset that the partition holds.
        latest: The offset after the last record. This offset is valid too.
    """
    if not is_offset(position) or not earliest <= int(position) <= latest:
        raise out_of_range(partition, position, str(earliest), str(latest))
    return int(position)


def out_of_range(
    partition: Partition, position: str, earliest: str, latest: str
) -> PositionOutOfRange:
    """Return the error for a position that the partition does not hold, with the positions that are valid."""
    return PositionOutOfRange(
        f"{partition} holds positions {earliest} to {latest}, not {position}",
        earliest=earliest,
        latest=latest,
    )
