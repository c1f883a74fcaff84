"""The decoder on Spark says of every record what ``app.bindings`` says (issue 20, "Equality"; ADR 0036).

That it does so by column, row for row, is ``tests/unit/pipeline/decode/test_batch.py``, without Spark. Here all
records go through Spark once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

import pytest

from app.bindings import pulsar
from app.bindings.record import Record
from app.pipeline.decode import decoded
from app.spark.session import open_session
from app.spark.settings import SparkEngine
from decode_comparison import comparable, differences, expected, frame, rows
from decode_records import (
    ENDS,
    LOOSE_ENDS,
    PULSAR_TOPIC,
    REQUIRED,
    clean,
    corpus,
    document,
    ending,
    generated,
    poison,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

DATA = b'{ "b" : 1.10,"a":1e400, "x":"\\u00e9\\/" ,"n":123456789012345678901234567890.10, "e":[ ] }'
DOCUMENT = b'{"specversion":"1.0","id":"1","source":"/","type":"t","data": ' + DATA + b' ,"z":"1"}'
_NOON = 1_795_168_800_000_000  # 2026-11-20T10:00:00Z in microseconds
TIMES = {
    "2026-11-20T10:00:00Z": _NOON,
    "2026-11-20T10:00:00.000001Z": _NOON + 1,
    "2026-11-20t10:00:00.123456789z": _NOON + 123_456,
    "2026-11-20T10:00:00.1234567Z": _NOON + 123_456,
    "2026-11-20T10:00:00+05:30": _NOON - 19_800_000_000,
    "2026-12-31T23:59:60Z": None,  # a leap second: Spark has none
    "0000-01-01T00:00:00Z": None,  # Python has no such year, and dies of it
    "0001-01-01T00:00:00+01:00": None,
    "9999-12-31T23:59:59-01:00": None,
    "9999-12-31T23:59:59.999999Z": 253_402_300_799_999_999,
    "0001-01-01T00:00:00Z": -62_135_596_800_000_000,
    "1582-10-10T00:00:00Z": -12_219_724_800_000_000,  # a day that the Julian calendar left out
}


KINDS: Mapping[str, Callable[[], list[Record]]] = {
    "corpora": corpus,
    "generated": lambda: generated(140),
    "usual": lambda: clean(100),
    "data": lambda: [document(DOCUMENT)],
    "times": lambda: [Record(None, (*REQUIRED, ("ce_time", text.encode())), b"") for text in TIMES],
    "ends": lambda: list(map(ending, (*ENDS, *LOOSE_ENDS))),
    "poison": lambda: list(poison().values()),
}
"""By what the records are for."""


@cache
def all_records() -> Mapping[str, list[Record]]:
    """Made by the tests, not while they are collected: it takes seconds."""
    return {kind: make() for kind, make in KINDS.items()}


@dataclass
class Found:
    """What the decoder made of all records, which it saw in one frame."""

    kinds: Mapping[str, Sequence[Record]]
    rows: Sequence[dict[str, Any]]

    def of(self, kind: str) -> list[dict[str, Any]]:
        names = list(self.kinds)
        begin = sum(len(self.kinds[name]) for name in names[: names.index(kind)])
        return list(self.rows[begin : begin + len(self.kinds[kind])])


@pytest.fixture(scope="module")
def session(spark: SparkSession) -> SparkSession:
    assert spark is not None  # it is there for all of the run, and ends it
    return open_session(SparkEngine(), None, app_name="decode")


@pytest.fixture(scope="module")
def raw(session: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> DataFrame:
    every = [record for records in all_records().values() for record in records]
    return frame(session, tmp_path_factory.mktemp("records"), every)


@pytest.fixture(scope="module")
def found(session: SparkSession, raw: DataFrame) -> Found:
    """In a session where a repeated header would end a query for ever, and the time of day is not UTC's:
    whoever made a session without our settings must not be brought down, or told another instant.
    """
    theirs = {
        "spark.sql.mapKeyDedupPolicy": "EXCEPTION",
        "spark.sql.session.timeZone": "Asia/Tokyo",
    }
    before = {name: session.conf.get(name) for name in theirs}
    for name, value in theirs.items():
        session.conf.set(name, value)
    try:
        return Found(all_records(), rows(comparable(decoded(raw))))
    finally:
        for name, value in before.items():
            session.conf.set(name, str(value))


@pytest.mark.parametrize("kind", KINDS)
def test_spark_says_what_the_bindings_say(found: Found, kind: str) -> None:
    """Of every message of the corpora, of generated ones of every version and mode, and of what has brought
    queries down: same attributes, types, data, verdict, rule, faults. No query ends.
    """
    assert found.of(kind)
    told = differences(found.kinds[kind], found.of(kind), expected)
    assert not told, "\n".join(told[:20])


def test_value_and_headers_are_kept_of_refused_records_alone(found: Found) -> None:
    """What ``quarantine`` holds."""
    for record, row in zip(found.kinds["poison"], found.of("poison"), strict=True):
        refused = row["verdict"] is not None
        assert row["value"] == (record.body if refused else None)
        headers = [{"key": n, "value": v} for n, v in record.headers] if refused else None
        assert row["headers"] == headers


def test_the_bytes_of_data_stay(found: Found) -> None:
    """1.10 stays 1.10, and so do white space, escapes, and the order and repetition of keys."""
    (row,) = found.of("data")
    assert (row["verdict"], row["data"]) == (None, DATA.decode())


def test_time_is_the_instant_and_time_text_what_came(found: Found) -> None:
    assert {row["time_text"]: row["at"] for row in found.of("times")} == TIMES


def test_a_topic_of_pulsar(session: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> None:
    """In batches of a few rows, with offsets of 64 bits, as another session may have them."""
    records = clean(60, pulsar.encode)
    raw = frame(session, tmp_path_factory.mktemp("pulsar"), records, PULSAR_TOPIC)
    theirs = {
        "spark.sql.execution.arrow.useLargeVarTypes": "true",
        "spark.sql.execution.arrow.maxRecordsPerBatch": "7",
    }
    for name, value in theirs.items():
        session.conf.set(name, value)
    try:
        found = rows(comparable(decoded(raw)))
    finally:
        for name in theirs:
            session.conf.unset(name)
    told = differences(records, found, lambda record: expected(record, pulsar.decode))
    assert not told, "\n".join(told[:20])


def test_a_filter_on_a_decoded_column(raw: DataFrame) -> None:
    found = decoded(raw).where("type = 't' AND verdict IS NULL").select("type", "id")
    assert {row["type"] for row in found.collect()} == {"t"}
