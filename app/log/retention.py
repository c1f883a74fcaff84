"""Which segments may go: whole ones, oldest first, never past what a declared group still needs."""

from __future__ import annotations

from collections.abc import Sequence

from app.log.catalogue import Segment
from app.log.settings import Retention


def droppable(
    segments: Sequence[Segment],
    next_offset: int,
    retention: Retention,
    now_ms: int,
    needed: int | None,
) -> int:
    """How many of the oldest segments may go. ``needed``: the lowest offset that must stay."""
    count = 0
    total = sum(segment.bytes for segment in segments)
    for at, segment in enumerate(segments):
        end = segments[at + 1].base if at + 1 < len(segments) else next_offset
        empty = end == segment.base
        newest = at + 1 == len(segments)
        too_much = retention.max_bytes is not None and total > retention.max_bytes and not newest
        if empty or not (too_much or _too_old(segment, retention, now_ms)):
            break
        if needed is not None and needed < end:
            break
        total -= segment.bytes
        count += 1
    return count


def _too_old(segment: Segment, retention: Retention, now_ms: int) -> bool:
    return retention.max_age is not None and segment.last_ms < now_ms - retention.max_age * 1000
