"""Rule 6: a pause that outlasts the source's retention alarms before anything expires."""

from __future__ import annotations

import pytest

from app.delivery.expiry import RetainedExtent, expiring
from app.model.message import Partition

AT = Partition("orders", 0)


@pytest.mark.parametrize(
    ("begun", "now", "left"),
    [
        (RetainedExtent(0, 100), RetainedExtent(0, 100), None),  # nothing is dropped
        (RetainedExtent(0, 100), RetainedExtent(49, 100), None),  # more is kept than was dropped
        (RetainedExtent(0, 100), RetainedExtent(50, 100), 50),
        (RetainedExtent(0, 100), RetainedExtent(120, 100), -20),  # too late
        (RetainedExtent(500, 600), RetainedExtent(550, 600), 50),
    ],
)
def test_it_alarms_when_as_much_was_dropped_as_is_left(begun, now, left):
    """So there is as much time to act as the pause lasted until then."""
    assert expiring({AT: begun}, {AT: now}) == ([] if left is None else [(AT, left)])


def test_a_partition_that_was_not_there_when_it_began_is_no_alarm():
    assert expiring({}, {AT: RetainedExtent(10, 10)}) == []
