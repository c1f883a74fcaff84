"""Positions that were removed or replaced while a reader still had them."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from app.brokers.kafka.shared_positions import SharedPartition
from app.interfaces import Progress
from app.model.message import Partition

OLD, NEW = Progress(3, "", True), Progress(9, "", True)


@pytest.mark.parametrize("returns", [True, False])
def test_a_reader_that_ends_late_writes_no_row(returns: bool) -> None:
    """The row may belong to another process by then, or to a later reader, whose position would be replaced by an
    older one."""
    tail = SimpleNamespace(positions=lambda _: [])
    held = SharedPartition(Partition("t", 0), 1, 0, {"a": OLD}, tail)  # type: ignore[arg-type]
    old = held.positions["a"]
    old.take(3)
    if returns:
        held.replace("a", NEW)
    else:
        held.remove("a")
    old.finish(3)
    old.detach()
    assert [row.offset for row in held.batch(0.0).values()] == ([9] if returns else [])
