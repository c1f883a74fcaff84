"""A batch of records becomes what the gateway's own routing publishes of each, in order. Through a real Kafka:
``tests/pipeline/test_reroute.py``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
import pytest

from app.bindings import kafka
from app.bindings.record import Decoded, Record
from app.errors import SenderError
from app.model.route import Route
from app.routing.plan import Router
from app.spark.reroute import making
from decode_records import raw_table
from reroute_records import random_records

ROUTES = [
    {
        "name": "both",
        "filters": [{"sql": "region IN ('eu', 'a b') OR priority > 3"}],
        "to": [{"broker": "main", "topic": "at.{region}"}, {"broker": "other", "topic": "all"}],
        "key": {"mapper": "hash", "attributes": ["source", "partitionkey"]},
        "durability": "relaxed",
    },
    {
        "name": "documents",
        "filters": [{"suffix": {"type": ".created"}}],
        "to": {"broker": "main", "topic": "documents"},
        "content_mode": "structured",
        "specversion": "1.0",
    },
    {
        "name": "older",
        "filters": [{"prefix": {"type": "org."}}],
        "to": {"broker": "main", "topic": "older"},
        "specversion": "0.3",
    },
]
ROUTER = Router([Route.model_validate(each) for each in ROUTES])
RECORDS = list(random_records(600, seed=20))


def due(records: Sequence[Record]) -> Iterator[tuple[Any, ...]]:
    for record in records:
        try:
            planned = ROUTER.plan(kafka.decode(record), record.key)
        except SenderError as error:
            yield 0, None, None, "orders", record, error.code
            continue
        for nth, each in enumerate(planned):
            yield nth, each.route, each.broker, each.topic, each.record, None


def found(batches: Sequence[pa.RecordBatch]) -> Iterator[tuple[Any, ...]]:
    for row in (row for batch in batches for row in batch.to_pylist()):
        headers = tuple((each["key"], each["value"]) for each in row["headers"])
        record = Record(row["key"], headers, row["value"])
        yield row["nth"], row["route"], row["broker"], row["topic"], record, row["reason"]


def raw(records: Sequence[Record]) -> pa.RecordBatch:
    table = raw_table(records)
    topics = pa.array(["orders"] * len(records), pa.string())
    return table.set_column(1, "topic", topics).combine_chunks().to_batches()[0]


def test_a_batch_has_what_the_gateway_publishes_and_rejects_as_they_came() -> None:
    expected = list(due(RECORDS))
    [batch] = making.routed_batches(ROUTER, raw(RECORDS))
    assert batch.schema == making._SCHEMA
    assert list(found([batch])) == expected
    assert {each[1] for each in expected} == {"both", "documents", "older", None}
    assert {each[5] for each in expected} >= {"no-route", "bad-topic", None}


def test_a_batch_that_grows_large_is_several_in_the_same_order(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A column of Arrow holds 2 GiB, and a route may have many targets."""
    monkeypatch.setattr(making, "LARGEST", 1_000)
    batches = list(making.routed_batches(ROUTER, raw(RECORDS)))
    assert len(batches) > 5
    assert list(found(batches)) == list(due(RECORDS))


def test_a_record_that_brings_our_code_down_is_rejected_and_the_others_go_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    broken, decode = RECORDS[3], kafka.decode

    def failing(record: Record) -> Decoded:
        if record == broken:
            raise RuntimeError("a defect")
        return decode(record)

    monkeypatch.setattr(making.kafka, "decode", failing)
    [batch] = making.routed_batches(ROUTER, raw(RECORDS[:9]))
    rows = list(found([batch]))
    assert [row[4] for row in rows if row[5] == "decoder-failed"] == [broken]
    monkeypatch.undo()
    others = list(due([*RECORDS[:3], *RECORDS[4:9]]))
    assert [row for row in rows if row[5] != "decoder-failed"] == others


def test_a_batch_without_records_makes_one_without_rows() -> None:
    [batch] = making.routed_batches(ROUTER, raw(RECORDS[:1]).slice(1))
    assert (batch.num_rows, batch.schema) == (0, making._SCHEMA)
