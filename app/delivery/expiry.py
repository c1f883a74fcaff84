"""Detect that a pause will outlast the retention of a log, although logs do not report their retention.

There is no setting. The alarm is raised when the log has dropped, since the pause began, at least as much as it
still keeps before the subscription's position. At that rate, events of the subscription begin to expire after as
long again as the pause has lasted. A log that dropped nothing, or whose positions are not numbers, raises no alarm."""

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
    """Return the partitions whose events expire soon, with the number of positions before the first unfinished one.

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
