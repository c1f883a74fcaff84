"""Ranges of offsets: pieces cover a range without a gap, and no partition waits for another."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from app.pipeline import tables
from app.pipeline.archive import progress
from app.pipeline.archive.derive import Range, ranges

offsets = st.dictionaries(st.integers(0, 5), st.integers(0, 10_000), max_size=6)
progresses = st.dictionaries(
    st.sampled_from(["main", "log"]),
    st.dictionaries(st.sampled_from(["orders", "payments"]), offsets, max_size=2),
    max_size=2,
)


@given(start=progresses, more=progresses, most=st.integers(500, 5_000))
def test_pieces_cover_a_range_and_do_not_overlap(
    start: progress.Progress, more: progress.Progress, most: int
) -> None:
    end = progress.joined(start, more)
    at = start
    for piece in ranges(Range(start, end, {}), most):
        assert piece.start == at
        assert progress.covers(piece.end, piece.start)
        assert 0 < piece.size <= most + len(progress.places(end))
        at = piece.end
    assert progress.covers(at, end)
    assert progress.covers(end, at)


@given(found=progresses)
def test_a_progress_is_text_that_any_tool_reads(found: progress.Progress) -> None:
    read = json.loads(progress.as_text(found))
    assert {
        broker: {topic: {int(n): at for n, at in each.items()} for topic, each in topics.items()}
        for broker, topics in read.items()
    } == found


def test_the_names_of_columns_are_read_from_their_declaration() -> None:
    assert tables.names(tables.QUARANTINE) == [
        *("broker", "topic", "partition", "offset", "record_time", "key", "value", "headers"),
        *("verdict", "rule", "detail", "faults", "seen"),
    ]
    assert "extensions" in tables.names(tables.EVENTS)
