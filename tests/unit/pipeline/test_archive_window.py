"""The window of duplicates gives the same events, however the records are divided into ranges."""

from __future__ import annotations

import itertools
from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.pipeline.archive.unique import _repeated
from app.pipeline.decode.times import INSTANT
from app.pipeline.maintain import LakeRetention, _aged

WINDOW = 30

records = st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 200)), max_size=30)


def table(rows: list[tuple[str, int]]) -> pa.Table:
    return pa.table(
        {
            "identity": pa.array([ord(name) for name, _ in rows], pa.int64()),
            "source": pa.array(["/s"] * len(rows), pa.string()),
            "id": pa.array([name for name, _ in rows], pa.string()),
            "record_time": pa.array([at for _, at in rows], INSTANT),
        }
    )


def kept(rows: list[tuple[str, int]], there: list[tuple[str, int]]) -> list[tuple[str, int]]:
    ordered = sorted(rows)
    again = _repeated(table(ordered), table(there), WINDOW).to_pylist()
    return [row for row, repeats in zip(ordered, again, strict=True) if not repeats]


@given(records, st.integers(0, 200))
def test_ranges_change_nothing(rows: list[tuple[str, int]], cut: int) -> None:
    """The log grows with time, so a range ends at a time."""
    whole = kept(rows, [])
    first = kept([row for row in rows if row[1] < cut], [])
    second = kept([row for row in rows if row[1] >= cut], first)
    assert sorted(first + second) == whole
    by_name: dict[str, list[int]] = {}
    for name, at in whole:
        by_name.setdefault(name, []).append(at)
    for times in by_name.values():
        assert all(later - at >= WINDOW for at, later in itertools.pairwise(times))


def test_a_row_of_the_table_that_is_later_counts_too() -> None:
    assert kept([("a", 10)], [("a", 15)]) == []
    assert kept([("a", 10), ("a", 39), ("a", 40)], []) == [("a", 10), ("a", 40)]


@pytest.mark.parametrize(
    ("table_name", "conditions"),
    [
        ("events_raw", ["record_time < {}"]),
        ("quarantine", ["record_time < {}"]),
        ("events", ["time IS NOT NULL AND time < {}", "time IS NULL AND record_time < {}"]),
        (
            "orders",
            ["ce_time IS NOT NULL AND ce_time < {}", "ce_time IS NULL AND ce_record_time < {}"],
        ),
    ],
)
def test_retention_ends_at_midnight_of_utc(table_name: str, conditions: list[str]) -> None:
    now = datetime(2026, 3, 4, 23, 59, tzinfo=UTC)
    found = _aged(table_name, LakeRetention(age=timedelta(days=3)), now)
    edge = "TIMESTAMP '2026-03-01 00:00:00+00:00'"
    assert found == [each.format(edge) for each in conditions]
    assert _aged(table_name, LakeRetention(), now) == []
