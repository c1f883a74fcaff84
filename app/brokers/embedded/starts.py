"""Where a group without a position begins (rule 10), as an offset."""

from __future__ import annotations

from app.errors import PositionOutOfRange
from app.log.catalogue import PartitionLog
from app.log.engine import Engine
from app.model.start import StartAt

_DIGITS = 19  # of the greatest offset


async def resolve(engine: Engine, log: PartitionLog, start: StartAt) -> int:
    """Raises PositionOutOfRange for a position that the log does not hold."""
    match start.kind:
        case "earliest":
            return log.earliest
        case "latest":
            return log.next_offset
        case "time":
            return await engine.offset_at(log.place, start.time_ms)
        case "position":
            if log.number not in start.positions:
                return log.earliest  # nothing may be passed over that nobody named
            offset = to_offset(start.positions[log.number], log)
            log.check(offset)
            return offset


def to_offset(position: str, log: PartitionLog) -> int:
    """A position is this log's offset as text."""
    if not position.isdecimal() or len(position) > _DIGITS:
        raise PositionOutOfRange(
            f"{position!r} is no position of {log.place}",
            earliest=str(log.earliest),
            latest=str(log.next_offset),
        )
    return int(position)
