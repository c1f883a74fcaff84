"""Ranges of offsets: pieces cover a range without a gap, and no partition waits for another."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.errors import SetupError
from app.pipeline import history, tables
from app.pipeline.archive import progress
from app.pipeline.archive.ranges import (
    DeriveRange,
    pending,
    split_by_offsets,
)
from app.pipeline.settings import Lake
from app.spark.columns import column_names
from app.spark.settings import LakeCatalog

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
    end = progress.merged(start, more)
    at = start
    for piece in split_by_offsets(DeriveRange(start, end, {}), most):
        assert piece.start == at
        assert progress.covers(piece.end, piece.start)
        assert 0 < piece.size <= most + len(progress.places(end))
        at = piece.end
    assert progress.covers(at, end)
    assert progress.covers(end, at)


@given(start=progresses, half=progresses, more=progresses, most=st.integers(500, 5_000))
def test_what_events_has_of_a_range_is_in_pieces_of_its_own(
    start: progress.Progress, half: progress.Progress, more: progress.Progress, most: int
) -> None:
    """So a piece that was left half-way is never decoded into events again."""
    before = progress.merged(start, half)
    end = progress.merged(before, more)
    at = start
    for piece in split_by_offsets(DeriveRange(start, end, before), most):
        assert piece.start == at
        known = progress.covers(before, piece.end)
        assert known or progress.covers(piece.start, before)
        at = piece.end
    assert progress.covers(at, end)


@given(found=progresses)
def test_a_progress_is_text_that_any_tool_reads(found: progress.Progress) -> None:
    read = json.loads(progress.as_text(found))
    assert {
        broker: {topic: {int(n): at for n, at in each.items()} for topic, each in topics.items()}
        for broker, topics in read.items()
    } == found


def test_the_names_of_columns_are_read_from_their_declaration() -> None:
    assert column_names(tables.QUARANTINE) == [
        *("broker", "topic", "partition", "offset", "record_time", "key", "value", "headers"),
        *("verdict", "rule", "detail", "faults", "seen"),
    ]
    assert "extensions" in column_names(tables.EVENTS)


@pytest.mark.parametrize(
    ("stated", "lacks"),
    [
        ({}, True),  # no snapshot: the table was created again
        ({"main": {"t": {0: 4}}}, True),  # rolled back
        ({"main": {"t": {0: 5}}}, False),
        (None, False),  # another program expired the snapshot that states it
    ],
)
def test_events_that_were_dropped_or_rolled_back_are_told(
    stated: progress.Progress | None, lacks: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise the archive would go on after ``quarantine``, and the lake would lack them."""
    done = {"main": {"t": {0: 5}}}
    monkeypatch.setattr(progress, "read", lambda *_: done)
    monkeypatch.setattr(progress, "stored", lambda *_: stated)
    empty = SimpleNamespace(currentSnapshot=lambda: None)
    monkeypatch.setattr(history, "iceberg_table", lambda *_: empty)
    lake = Lake(LakeCatalog("jdbc", "jdbc:sqlite:catalog.db", "file:///lake"))
    session: Any = None
    if not lacks:
        assert pending(session, lake).end == done
        return
    with pytest.raises(SetupError, match="lacks events that it had") as refused:
        pending(session, lake)
    assert "DROP TABLE lake.skybridge.events and lake.skybridge.quarantine" in refused.value.cure
