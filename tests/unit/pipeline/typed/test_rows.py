"""The rows of a batch of records, as a task makes them."""

from __future__ import annotations

import base64
import json
from typing import Any

import msgspec
import pyarrow as pa
import pytest

from app.bindings.record import Record
from app.pipeline import tables
from app.pipeline.decode.batch import decoded_batch
from app.pipeline.decode.times import INSTANT
from app.pipeline.kinds import TypedTable
from app.pipeline.typed.rows import COLUMNS, Typed, rows_of, unfit_rows
from app.pipeline.typed.schema import columns_of
from app.pipeline.typed.types import arrow_type
from decode_records import raw_table
from replay_records import binary_record

TABLE = TypedTable(
    "com.example.a", "orders", columns_of(b'{"properties": {"n": {"type": "integer"}}}', "at")
)
KINDS = {"ce_extensions": pa.map_(pa.string(), pa.string()), "ce_time": INSTANT, "ce_record_time": INSTANT,
         "ce_partition": pa.int32(), "ce_offset": pa.int64()}  # fmt: skip
WANTED = pa.schema(
    [*((name, KINDS.get(name, pa.string())) for name in COLUMNS), *arrow_type(TABLE.data)]
)


def binary(
    name: str, body: bytes | None, content_type: str | None = "application/json", **more: str
) -> Record:
    record = binary_record(name, b"k", **more)
    headers = tuple(each for each in record.headers if each[0] != "content-type")
    typed = () if content_type is None else (("content-type", content_type.encode()),)
    return msgspec.structs.replace(record, body=body, headers=(*headers, *typed))


def structured(name: str, **members: Any) -> Record:
    event = {"specversion": "1.0", "id": name, "source": "/s", "type": TABLE.type, **members}
    return Record(
        None, (("content-type", b"application/cloudevents+json"),), json.dumps(event).encode()
    )


def made(*records: Record) -> Typed | None:
    [batch] = raw_table(records).combine_chunks().to_batches()
    decoded = decoded_batch(batch)
    found = rows_of(TABLE, WANTED, decoded, batch)
    if found is not None:
        assert unfit_rows(TABLE, decoded).tolist() == found.unfit_at.tolist()
    return found


@pytest.mark.parametrize(
    ("record", "at"),
    [
        (binary("e", b'{"n": 1}'), ""),
        (binary("e", b'{"n": 1}', None), ""),
        (binary("e", b'{"n": 1}', "application/vnd.x+json"), ""),
        (structured("e", data={"n": 1}), ""),
        (structured("e", data={"n": 1}, datacontenttype="application/json"), ""),
        (binary("e", b'{"n": 1}', "text/plain"), "/data"),
        (binary("e", b"\xff"), "/data"),
        (binary("e", None), "/data"),
        (structured("e"), "/data"),
        (structured("e", data='{"n": 1}'), "/data"),
        (structured("e", data={"n": "1"}), "/data/n"),
        (structured("e", data_base64=base64.b64encode(b"\xff").decode()), "/data"),
    ],
)
def test_json_of_every_mode_is_read(record: Record, at: str) -> None:
    found = made(record)
    assert found is not None
    assert found.rows.column("n").to_pylist() == ([] if at else [1])
    faults = [] if found.unfit is None else found.unfit.column("faults").to_pylist()
    assert [each["at"] for row in faults for each in row] == ([at] if at else [])


def test_rows_keep_their_place_in_the_batch_and_refused_ones_what_was_received() -> None:
    records = (
        binary("other", b'{"n": 0}', type="com.example.b"),
        binary("a", b'{"n": 1}', subject="s", time="2026-01-02T03:04:05Z", tenant="x"),
        binary("bad", b'{"n": []}'),
        binary("b", b'{"n": 2}'),
    )
    found = made(*records)
    assert found is not None
    assert found.unfit is not None
    assert (found.at.tolist(), found.unfit_at.tolist()) == ([1, 3], [2])
    first = found.rows.to_pylist()[0]
    assert (first["ce_id"], first["ce_subject"], first["n"], first["ce_offset"]) == ("a", "s", 1, 1)
    assert first["ce_extensions"] == [("tenant", "x")]
    [refused] = found.unfit.to_pylist()
    assert refused["value"] == b'{"n": []}'
    assert [(each["key"], each["value"]) for each in refused["headers"]] == list(records[2].headers)
    assert (refused["verdict"], refused["rule"]) == (tables.UNFIT, "data-does-not-fit")
    assert "orders" in refused["detail"]
    assert refused["detail"].endswith("At /data/n.")


def test_a_batch_without_events_of_the_type_has_no_rows() -> None:
    assert made(binary("a", b"{}", type="com.example.b")) is None
