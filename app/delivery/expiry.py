"""Whether a pause will outlast what the log keeps (rule 6), although no log says for how long it keeps.

The rule needs no setting: *since the pause began the log has dropped at least as much as it still keeps
before our place.* If it goes on like that, our events begin to expire after as long again as the pause
has lasted already; so there is as much time left to act as there was warning. A log that dropped
nothing, or whose positions are no numbers, gives no reason for alarm.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from app.model.message import Partition


class RetainedExtent(msgspec.Struct, frozen=True):
    """Of one partition: the earliest position that the log has, and the first that we have not finished."""

    earliest: int
    committed: int


def expiring(
    begun: Mapping[Partition, RetainedExtent], now: Mapping[Partition, RetainedExtent]
) -> list[tuple[Partition, int]]:
    """The partitions whose events expire soon, with how many are left before the first of ours; 0 or
    less: some did already. ``begun``: as it was when the pause began."""
    found = []
    for partition, extent in now.items():
        if partition not in begun:
            continue
        dropped = extent.earliest - begun[partition].earliest
        left = extent.committed - extent.earliest
        if dropped > 0 and dropped >= left:
            found.append((partition, left))
    return found
