"""The files that a task of the archive writes, read by PyArrow: no Spark."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from app.bindings.record import Record
from app.errors import SetupError
from app.pipeline.archive import files, storage
from app.pipeline.archive import layouts as of_tables
from app.pipeline.archive.files import DOOMED, DataFile, TableLayout, rewrite_without_doomed
from app.pipeline.archive.identity import buckets, identities
from app.pipeline.archive.partitions import Part
from app.pipeline.archive.writing import DecodeTask, write_files
from app.pipeline.settings import Lake
from app.spark.settings import LakeCatalog
from decode_records import raw_table
from replay_records import binary_record

BROKEN = Record(b"k", (("ce_specversion", b"1.0"), ("ce_id", b"x")), b"{}")
INSTANT = pa.timestamp("us", "UTC")


def known(number: int) -> dict[bytes, bytes]:
    return {b"PARQUET:field_id": b"%d" % number}


TEXTS = pa.map_(
    pa.field("key", pa.string(), nullable=False, metadata=known(8)),
    pa.field("value", pa.string(), metadata=known(9)),
)
EVENTS = pa.schema(
    [
        pa.field("identity", pa.int64(), metadata=known(1)),
        pa.field("offset", pa.int64(), metadata=known(2)),
        pa.field("record_time", INSTANT, metadata=known(3)),
        pa.field("source", pa.string(), metadata=known(4)),
        pa.field("id", pa.string(), metadata=known(5)),
        pa.field("data", pa.string(), metadata=known(6)),
        pa.field("extensions", TEXTS, metadata=known(7)),
    ]
)
REFUSED = pa.schema(
    [
        pa.field("offset", pa.int64(), metadata=known(1)),
        pa.field("record_time", INSTANT, metadata=known(2)),
        pa.field("value", pa.binary(), metadata=known(3)),
        pa.field("rule", pa.string(), metadata=known(4)),
        pa.field("seen", INSTANT, metadata=known(5)),
    ]
)


HASHED = (Part("identity_bucket", "identity", 4),)
DAILY = (Part("record_time_day", "record_time"),)


@pytest.fixture
def layouts(tmp_path: Path) -> tuple[TableLayout, TableLayout]:
    """In a folder whose name Hadoop takes as it stands."""
    folder = f"file://{tmp_path}/a%20b c"
    return (
        TableLayout("events", f"{folder}/e", EVENTS, 0, HASHED, "zstd", 1, {}),
        TableLayout("quarantine", f"{folder}/q", REFUSED, 3, DAILY, "zstd", 1, {}),
    )


def arrived(records: Sequence[Record], *at: int, size: int = 7) -> Iterator[pa.RecordBatch]:
    """Batches of the columns RAW. ``at``: days since 1970 of the last records; the others are of the first day."""
    [whole] = raw_table(records).combine_chunks().to_batches()
    days = np.zeros(len(records), np.int64)
    days[len(days) - len(at) :] = at
    place = whole.schema.get_field_index("record_time")
    times = pa.array(days * 86_400_000_000, INSTANT)
    whole = whole.set_column(place, whole.schema.field(place), times)
    return (whole.slice(n, size) for n in range(0, len(records), size))


def told(batches: Iterator[pa.RecordBatch]) -> list[DataFile]:
    return [DataFile(**row) for batch in batches for row in batch.to_pylist()]


def read(file: DataFile) -> list[dict[str, Any]]:
    with storage.open_file(file.path, {}) as source:
        rows: list[dict[str, Any]] = pq.ParquetFile(source).read().to_pylist()
    return rows


def test_events_and_refused_records_go_to_files_of_their_partitions(
    layouts: tuple[TableLayout, TableLayout], tmp_path: Path
) -> None:
    records = [binary_record(f"e{n}", comexampleage=str(n)) for n in range(60)] + [BROKEN] * 3
    found = told(write_files(arrived(records, -1, 4_000_000), DecodeTask(*layouts)))
    events = [each for each in found if each.name == "events"]
    rows = [row for each in events for row in read(each)]
    assert sorted(row["id"] for row in rows) == sorted(f"e{n}" for n in range(60))
    assert {row["id"]: dict(row["extensions"]) for row in rows}["e7"] == {"comexampleage": "7"}
    for each in events:
        assert each.rows == len(read(each)) == len(each.known)
        assert [row["identity"] for row in read(each)] == each.known.tolist()
        assert set(buckets(each.known, 4).tolist()) == set(each.partition)
        assert each.path.startswith(f"{layouts[0].folder}/identity_bucket={each.partition[0]}/")
        assert Path(each.path.removeprefix("file://")).stat().st_size == each.size
    refused = {each.partition[0]: each for each in found if each.name == "quarantine"}
    assert {day: each.rows for day, each in refused.items()} == {0: 1, -1: 1, 4_000_000: 1}
    assert "record_time_day=1969-12-31" in refused[-1].path
    assert read(refused[-1])[0]["rule"] == "missing-attribute"
    assert read(refused[-1])[0]["value"] == BROKEN.body
    assert [path.name for path in tmp_path.iterdir()] == ["a%20b c"]


def test_columns_carry_the_ids_of_iceberg_and_bounds_but_for_data(
    layouts: tuple[TableLayout, TableLayout],
) -> None:
    [first, *_] = told(write_files(arrived([binary_record("a")]), DecodeTask(*layouts)))
    with storage.open_file(first.path, {}) as source:
        file = pq.ParquetFile(source)
        schema, group = file.schema_arrow, file.metadata.row_group(0)
    assert [field.metadata[b"PARQUET:field_id"] for field in schema] == [
        b"%d" % n for n in range(1, 8)
    ]
    columns = {group.column(n).path_in_schema: group.column(n) for n in range(group.num_columns)}
    assert {name for name, each in columns.items() if each.statistics is None} == {"data"}
    coded = {name for name, each in columns.items() if "RLE_DICTIONARY" in each.encodings}
    assert coded == {
        "record_time",
        "source",
        "extensions.key_value.key",
        "extensions.key_value.value",
    }
    assert {each.compression for each in columns.values()} == {"ZSTD"}


def test_rows_that_a_task_holds_are_bounded(
    layouts: tuple[TableLayout, TableLayout], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A group of rows is written when they are many, to the same file; identities stay in its order."""
    monkeypatch.setattr(files, "GROUP", 1)
    records = [binary_record(str(n)) for n in range(30)]
    found = told(write_files(arrived(records, size=10), DecodeTask(*layouts)))
    assert len(found) == len({tuple(each.partition) for each in found})
    assert sum(each.rows for each in found) == 30
    for each in found:
        assert [row["identity"] for row in read(each)] == each.known.tolist()


def test_files_that_are_open_are_bounded(
    layouts: tuple[TableLayout, TableLayout], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Producers choose times, and so days."""
    monkeypatch.setattr(files, "OPEN", 3)
    monkeypatch.setattr(files, "GROUP", 1)
    found = told(write_files(arrived([BROKEN] * 20, *range(20), size=10), DecodeTask(*layouts)))
    assert sorted(each.partition for each in found) == [[n] for n in range(20)]
    assert {each.rows for each in found} == {1}
    assert {each.spec for each in found} == {3}


def test_a_task_that_fails_removes_what_it_has_written(
    layouts: tuple[TableLayout, TableLayout], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(files, "GROUP", 1)

    def failing() -> Iterator[pa.RecordBatch]:
        yield from arrived([*(binary_record(str(n)) for n in range(9)), BROKEN])
        assert list(tmp_path.rglob("*.parquet"))
        raise OSError("no space left on device")

    with pytest.raises(OSError, match="no space"):
        told(write_files(failing(), DecodeTask(*layouts)))
    assert not list(tmp_path.rglob("*.parquet"))


def test_a_record_without_a_time_is_of_no_day(
    layouts: tuple[TableLayout, TableLayout],
) -> None:
    [batch] = arrived([BROKEN])
    place = batch.schema.get_field_index("record_time")
    timeless = batch.set_column(place, batch.schema.field(place), pa.nulls(1, INSTANT))
    [file] = told(write_files(iter([timeless]), DecodeTask(*layouts)))
    assert (file.partition, read(file)[0]["record_time"]) == ([None], None)
    assert "record_time_day=null/" in file.path


def test_events_that_are_in_the_lake_are_counted_and_not_written(
    layouts: tuple[TableLayout, TableLayout],
) -> None:
    records = [*(binary_record(str(n)) for n in range(9)), BROKEN]
    counted, refused = told(write_files(arrived(records), DecodeTask(*layouts, only_count=True)))
    assert counted == DataFile("events", rows=9, partition=[])
    assert (refused.name, refused.rows) == ("quarantine", 1)


@pytest.mark.parametrize(
    ("count", "group"), [(40, files.GROUP), (40, 1), (70_000, files.GROUP)], ids=str
)
def test_a_file_is_written_again_without_its_doomed_rows(
    layouts: tuple[TableLayout, TableLayout],
    monkeypatch: pytest.MonkeyPatch,
    count: int,
    group: int,
) -> None:
    """One row group, several, and more rows than PyArrow reads at once."""
    monkeypatch.setattr(files, "GROUP", group)
    events = msgspec.structs.replace(layouts[0], parts=(Part("identity_bucket", "identity", 1),))
    batches = arrived([binary_record(str(n)) for n in range(count)], size=max(7, count // 7))
    [old] = told(write_files(batches, DecodeTask(events, layouts[1])))
    doomed = np.array([0, 3, *range(10, 17), old.rows - 1], np.int64)
    row = {name: getattr(old, name) for name in DataFile.__struct_fields__} | {
        DOOMED: doomed.tobytes()
    }
    [new] = told(rewrite_without_doomed(iter([pa.RecordBatch.from_pylist([row])]), events))
    left = [each for n, each in enumerate(read(old)) if n not in set(doomed.tolist())]
    assert read(new) == left
    assert new.known.tolist() == [each["identity"] for each in left]
    assert (new.partition, new.rows, new.path != old.path) == (
        old.partition,
        old.rows - len(doomed),
        True,
    )


def test_only_the_newest_layout_of_a_table_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """A catalog that gives other credentials for each load does not fill the memory of an archive that never ends."""
    lake, session = Lake(LakeCatalog("hadoop", "", "file:///l")), MagicMock()
    monkeypatch.setattr(of_tables, "_LAYOUTS", {})
    monkeypatch.setattr(of_tables, "_layout", lambda table, *_: object())
    monkeypatch.setattr(of_tables, "demand_known", lambda _: None)
    monkeypatch.setattr(of_tables.history, "iceberg_table", lambda *_: session.table)
    found = []
    for token in ("a", "a", "b", "a"):
        session.table.io().properties().toString.return_value = token
        found.append(of_tables.layout(session, lake, "events"))
    assert found[0] is found[1]
    assert len({id(each) for each in found}) == 3, "others are made for other credentials"
    assert len(of_tables._LAYOUTS) == 1


@pytest.mark.parametrize(("number", "hashed"), [(34, 2017239379), (-1, 1651860712)])
def test_buckets_are_those_of_iceberg(number: int, hashed: int) -> None:
    """34: the example in appendix B of Iceberg's specification."""
    numbers = np.array([number] * 3, np.int64)
    assert buckets(numbers, 2**31).tolist() == [hashed] * 3
    assert buckets(numbers, 16).tolist() == [hashed % 16] * 3
    assert not len(identities(pa.array([], pa.string()), pa.array([], pa.string())))


def test_storage_that_python_does_not_reach_is_told_with_its_cure() -> None:
    layout = TableLayout("events", "viewfs://cluster/lake", EVENTS, 0, HASHED, "zstd", 1, {})
    with pytest.raises(SetupError, match=r"viewfs.*cannot be written from Python") as refused:
        of_tables.demand_storage(layout)
    assert refused.value.setting == "pipeline.lake.catalog.properties"
