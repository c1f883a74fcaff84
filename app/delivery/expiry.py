"""Detect that a pause of a subscription will last longer than the log keeps its events, although logs do not
report their retention.

The log still keeps some records before the subscription's position. The alarm is raised when the log has
deleted at least as many records since the pause began. At this rate, the first event of the subscription is
deleted after as long again as the pause has lasted. There is no alarm for a log that deleted nothing or whose
positions are not numbers."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from app.model.message import Partition


class RetainedExtent(msgspec.Struct, frozen=True):
    """The earliest position that a partition has, and the first position that the subscription has not finished."""

    earliest: int
    committed: int


def expiring(
    begun: Mapping[Partition, RetainedExtent], now: Mapping[Partition, RetainedExtent]
) -> list[tuple[Partition, int]]:
    """Return the partitions whose events expire soon. Each has the number of positions that the log still
    keeps before the first unfinished event.

    The number is 0 or less if events have expired already.

    Args:
        begun: the extents when the pause began.
        now: the extents now.
    """
    found = []
    for partition, extent in now.items():
        if partition not in begun:
            continue
        dropped = extent.earliest - begun[partition].earliest
        left = extent.committed - extent.earliest
        if dropped > 0 and dropped >= left:
            found.append((partition, left))
    return found
