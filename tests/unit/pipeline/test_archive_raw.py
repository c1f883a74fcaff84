"""Files of ``events_raw`` as a task of the archive reads them: no Spark."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.bindings.record import Record
from app.pipeline.archive import raw, reading
from app.pipeline.archive.raw import ReadTask, read_files, within
from decode_records import raw_table

END = {"kafka": {"t": {0: 1_000}}}
NAMES = raw.COLUMNS


def known(schema: pa.Schema) -> pa.Schema:
    """With an id for each column, as Iceberg writes them."""
    return pa.schema(
        [field.with_metadata({reading.FIELD_ID: b"%d" % n}) for n, field in enumerate(schema, 1)]
    )


def records(count: int, size: int = 1) -> pa.Table:
    table = raw_table([Record(b"k", (("ce_id", b"%d" % n),), b"x" * size) for n in range(count)])
    table = table.select(NAMES).combine_chunks()
    return table.cast(known(table.schema))


def in_place(table: pa.Table, places: Sequence[tuple[str, str, int, int]]) -> pa.Table:
    for column, values in zip(
        ("broker", "topic", "partition", "offset"), zip(*places, strict=True), strict=True
    ):
        at = table.schema.get_field_index(column)
        field = table.schema.field(at)
        table = table.set_column(at, field, pa.array(values, field.type))
    return table


def found(table: pa.Table, path: Path, groups: int = 1_000, **how: Any) -> pa.Table:
    """What a task reads of a file of the table."""
    pq.write_table(table, path, row_group_size=groups, store_schema=False)
    wanted = ReadTask(
        **{"schema": known(records(1).schema), "start": {}, "end": END, "access": {}} | how
    )
    share = pa.RecordBatch.from_pylist([{"paths": [path.as_uri()]}])
    return pa.Table.from_batches(list(read_files([share], wanted)))


def test_a_range_has_its_records_and_no_others(tmp_path: Path) -> None:
    places = [("main", "t", 0, n) for n in range(40)]
    places += [("main", "t", -1, n) for n in range(40)]
    places += [("main", "u", 0, 5), ("other", "t", 0, 5)]
    table = in_place(records(len(places)), places)
    start = {"main": {"t": {0: 10}}}
    end = {"main": {"t": {0: 20, -1: 3}}, "other": {"t": {0: 6}}}
    rows = found(table, tmp_path / "a.parquet", groups=7, start=start, end=end)
    expected = [*range(10, 20), *range(40, 43), 81]
    assert rows.to_pylist() == table.take(expected).to_pylist(), "of a topic without partitions too"


place = st.tuples(
    st.sampled_from(["main", "other"]), st.sampled_from(["t", "u"]), st.integers(-1, 3),
    st.integers(0, 9),
)  # fmt: skip


@given(st.lists(place, min_size=1, max_size=30), st.lists(place), st.lists(place))
def test_a_row_is_of_the_range_if_a_plain_look_says_so(rows: Any, starts: Any, ends: Any) -> None:
    start, end = raw.progress.from_entries(starts), raw.progress.from_entries(ends)
    [batch] = in_place(records(len(rows)), rows).to_batches()
    plain = [
        raw.progress.offset_at(start, *row[:3]) <= row[3] < raw.progress.offset_at(end, *row[:3])
        for row in rows
    ]
    assert within(batch, start, end).tolist() == plain


def test_columns_are_known_by_their_ids(tmp_path: Path) -> None:
    """Somebody has renamed one since the file was written, and has added one to the table before it."""
    table = records(3).rename_columns(["wire" if name == "value" else name for name in NAMES])
    more = pa.field("more", pa.int32(), metadata={reading.FIELD_ID: b"99"})
    rows = found(table.add_column(0, more, pa.array([1, 2, 3], pa.int32())), tmp_path / "a.parquet")
    assert rows.column_names == list(NAMES)
    assert rows["value"].to_pylist() == records(3)["value"].to_pylist()


def test_a_file_without_a_column_is_told_and_not_passed_over(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"a\.parquet has no column with the id b'4'"):
        found(records(3).drop_columns("offset"), tmp_path / "a.parquet")


@pytest.mark.parametrize("repeated", [False, True])
def test_large_records_come_a_few_at_a_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, repeated: bool
) -> None:
    """A value that repeats takes the room of one in the file, and all of its room in memory."""
    monkeypatch.setattr(reading, "OCTETS", 1 << 16)
    path = tmp_path / "a.parquet"
    table = records(100, size=10_000)
    pq.write_table(table, path, store_schema=False, use_dictionary=repeated, compression="none")
    wanted = ReadTask(table.schema, {}, END, {})
    share = pa.RecordBatch.from_pylist([{"paths": [str(path)]}])
    batches = list(read_files([share], wanted))
    assert pa.Table.from_batches(batches).to_pylist() == table.to_pylist()
    assert batches[0].schema.field("value").type == pa.binary()
    assert max(map(len, batches)) <= 6


@pytest.mark.parametrize("values", [[None] * 9, [b"a", None, b"b"] * 3, [b""] * 9])
def test_values_that_repeat_are_what_they_are(tmp_path: Path, values: list[bytes | None]) -> None:
    table = records(9)
    at = table.schema.get_field_index("value")
    table = table.set_column(at, table.schema.field(at), pa.array(values, pa.binary()))
    assert found(table, tmp_path / "a.parquet", groups=4)["value"].to_pylist() == values


def test_row_groups_beyond_the_range_are_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked = []

    def noted(batch: pa.RecordBatch, *ends: Any) -> Any:
        looked.append(batch.column("offset").to_pylist())
        return within(batch, *ends)

    monkeypatch.setattr(raw, "within", noted)
    table = in_place(records(12), [("main", "t", n % 2, n // 2) for n in range(12)])
    ends = raw.progress.from_entries(
        [("main", "t", 0, 3), ("main", "t", 1, 3), ("main", "gone", 1, 9)]
    )
    starts = raw.progress.from_entries(
        [("main", "t", 0, 2), ("main", "t", 1, 2), ("main", "gone", 1, 8)]
    )
    idle = raw.progress.from_entries([("main", "idle", 0, 1)])
    starts, ends = (raw.progress.merged(each, idle) for each in (starts, ends))
    rows = found(table, tmp_path / "a.parquet", groups=4, start=starts, end=ends)
    assert rows.to_pylist() == table.slice(4, 2).to_pylist()
    assert looked == [[2, 2, 3, 3]]


def test_shares_have_about_as_many_octets() -> None:
    sizes = [9, 1, 8, 2, 7, 3]
    shares = raw.shares([(size, f"{size}") for size in sizes], 2)
    assert [sorted(map(int, share)) for share in shares] == [[2, 7, 9], [1, 3, 8]]
    assert raw.shares([(1, "a")], 8) == [["a"]]
    assert raw.shares([], 8) == []


def test_a_condition_of_many_partitions_is_shallow() -> None:
    depth = 0
    level: list[Any] = [
        raw._condition({}, raw.progress.from_entries(("b", "t", n, 5) for n in range(1_000)))
    ]
    while level:
        depth += 1
        level = [
            each[side]
            for each in level
            for side in ("left", "right")
            if isinstance(each, dict) and side in each
        ]
    assert depth < 20
    assert raw._condition(END, END) is None
