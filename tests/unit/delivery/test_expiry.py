"""Rule 6: a pause that outlasts the source's retention alarms before anything expires."""

from __future__ import annotations

import pytest

from app.delivery.expiry import Extent, expiring
from app.model.message import Partition

AT = Partition("orders", 0)


@pytest.mark.parametrize(
    ("begun", "now", "left"),
    [
        (Extent(0, 100), Extent(0, 100), None),  # nothing is dropped
        (Extent(0, 100), Extent(49, 100), None),  # more is kept than was dropped
        (Extent(0, 100), Extent(50, 100), 50),
        (Extent(0, 100), Extent(120, 100), -20),  # too late
        (Extent(500, 600), Extent(550, 600), 50),
    ],
)
def test_it_alarms_when_as_much_was_dropped_as_is_left(begun, now, left):
    """So there is as much time to act as the pause lasted until then."""
    assert expiring({AT: begun}, {AT: now}) == ([] if left is None else [(AT, left)])


def test_a_partition_that_was_not_there_when_it_began_is_no_alarm():
    assert expiring({}, {AT: Extent(10, 10)}) == []
