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
from app.pipeline.archive import progress, ranges, topics
from app.pipeline.archive.ranges import (
    DeriveRange,
    pending,
    split_by_offsets,
)
from app.pipeline.archive.topics import ArchivedTopics
from app.pipeline.settings import Lake
from app.spark.columns import column_names
from app.spark.settings import LakeCatalog

LAKE = Lake(LakeCatalog("jdbc", "jdbc:sqlite:catalog.db", "file:///lake"))
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
    """So a piece that was left half-way is never decoded into events again. The table may not know a
    partition that was added since, whose first offset is not 0."""
    reached = progress.merged(start, half)
    before = progress.from_entries(
        each for each in progress.places(reached) if each[3] > progress.offset_at(start, *each[:3])
    )
    end = progress.merged(reached, more)
    at = start
    for piece in split_by_offsets(DeriveRange(start, end, before), most):
        assert piece.start == at
        assert piece.is_in(before) or progress.covers(piece.start, before)
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


def test_a_partition_without_derived_records_is_not_missing_in_events(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """An archive was killed after ``quarantine`` stated the first offset of a topic that is new."""
    first = {"new": {0: 100}}
    done = {"main": {"t": {0: 5}, **first}}
    monkeypatch.setattr(progress, "read", lambda *_: done)
    monkeypatch.setattr(progress, "stored", lambda *_: {"main": {"t": {0: 5}}})
    raw = SimpleNamespace(currentSnapshot=lambda: 1)
    monkeypatch.setattr(history, "iceberg_table", lambda *_: raw)
    monkeypatch.setattr(ranges, "_older", lambda *_: ())
    monkeypatch.setattr(topics, "copied", lambda *_: {"main": {"t": {0: 5}, "new": {0: 120}}})
    monkeypatch.setattr(topics, "states", lambda _: {"main": ArchivedTopics(first=first)})
    session: Any = None
    assert pending(session, LAKE).size == 20


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
    session: Any = None
    if not lacks:
        assert pending(session, LAKE).end == done
        return
    with pytest.raises(SetupError, match="lacks events that it had") as refused:
        pending(session, LAKE)
    assert "DROP TABLE lake.skybridge.events and lake.skybridge.quarantine" in refused.value.cure
