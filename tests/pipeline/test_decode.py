"""The pipeline's decoder says of every record what ``app.bindings`` says (issue 8, "Equality"; ADR 0021)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from app.bindings.record import Record
from app.pipeline.decode import decoded, exactly, natively
from app.pipeline.session import open_session
from app.pipeline.settings import Engine
from decode_asking import differences, expected, frame, rows
from decode_records import REQUIRED, clean, corpus, generated, poison

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CLEAR = 0.95  # of events as producers write them
PYTHON = ("ArrowEvalPython", "BatchEvalPython", "MapInArrow", "MapInPandas", "PythonMapInArrow")


@pytest.fixture(scope="module")
def session(spark: SparkSession) -> SparkSession:
    assert spark is not None  # it is there for all of the run, and ends it
    return open_session(Engine(), None, app_name="decode")


def _assert_equal(session: SparkSession, folder: Path, records: Sequence[Record]) -> None:
    found = rows(decoded(frame(session, folder, records)))
    assert len(found) == len(records)
    told = differences(records, found, expected)
    assert not told, "\n".join(told[:20])


def test_every_message_of_the_corpora(session: SparkSession, tmp_path: Path) -> None:
    """Both ways at once: same attributes, types, data, verdict, rule, faults."""
    _assert_equal(session, tmp_path, corpus())


def test_generated_records_of_every_version_and_mode(session: SparkSession, tmp_path: Path) -> None:
    _assert_equal(session, tmp_path, generated(600))


@pytest.mark.long
@pytest.mark.timeout(3600)
def test_twenty_thousand_generated_records(session: SparkSession, tmp_path: Path) -> None:
    _assert_equal(session, tmp_path, generated(20_000))


def test_the_exact_way_alone(session: SparkSession, tmp_path: Path) -> None:
    """And what ``quarantine`` keeps of a record that has a verdict: its value and headers."""
    records = list(poison().values())
    found = rows(exactly(frame(session, tmp_path, records)))
    assert not differences(records, found, expected)
    for record, row in zip(records, found, strict=True):
        refused = row["verdict"] is not None
        assert row["value"] == (record.body if refused else None)
        headers = [{"key": n, "value": v} for n, v in record.headers] if refused else None
        assert row["headers"] == headers


def test_poison_is_in_doubt_or_right(session: SparkSession, tmp_path: Path) -> None:
    """Pipeline.md 5: no query ends, and what the bindings refuse is never passed."""
    pills = poison()
    found = rows(natively(frame(session, tmp_path, list(pills.values()))))
    for (name, record), row in zip(pills.items(), found, strict=True):
        due = expected(record)
        if due["verdict"] is not None:
            assert row["doubt"], name
        elif not row["doubt"]:
            assert not differences([record], [row], expected), name


def test_poison_does_not_need_our_settings(session: SparkSession, tmp_path: Path) -> None:
    """Where somebody else made the session, repeated headers must not end a query for ever."""
    other = session.newSession()
    other.conf.set("spark.sql.mapKeyDedupPolicy", "EXCEPTION")
    records = list(poison().values())
    assert len(rows(natively(frame(other, tmp_path, records)))) == len(records)


def test_usual_events_are_clear(session: SparkSession, tmp_path: Path) -> None:
    """Doubt costs time: of events as producers write them, in any version, nearly none is in doubt."""
    records = clean(1_000)
    found = rows(natively(frame(session, tmp_path, records)))
    doubtful = [record for record, row in zip(records, found, strict=True) if row["doubt"]]
    assert len(doubtful) <= (1 - CLEAR) * len(records), f"{len(doubtful)}: {doubtful[:5]}"


def test_the_bytes_of_data_stay(session: SparkSession, tmp_path: Path) -> None:
    """1.10 stays 1.10, and so do white space, escapes, and the order and repetition of keys."""
    data = b'{ "b" : 1.10,"a":1e400, "x":"\\u00e9\\/" ,"n":123456789012345678901234567890.10, "e":[ ] }'
    text = b'{"specversion":"1.0","id":"1","source":"/","type":"t","data": ' + data + b' ,"z":"1"}'
    record = Record(None, (("content-type", b"application/cloudevents+json"),), text)
    (row,) = rows(natively(frame(session, tmp_path, [record])))
    assert (row["doubt"], row["data"]) == (False, data.decode())


_NOON = 1_795_168_800_000_000  # 2026-11-20T10:00:00Z in microseconds
TIMES = {
    "2026-11-20T10:00:00Z": _NOON,
    "2026-11-20t10:00:00.123456789z": _NOON + 123_456,
    "2026-11-20T10:00:00+05:30": _NOON - 19_800_000_000,
    "2026-12-31T23:59:60Z": None,  # a leap second: Spark has none
    "0000-01-01T00:00:00Z": None,  # Python has no such year, and dies of it
    "0001-01-01T00:00:00+01:00": None,
    "9999-12-31T23:59:59-01:00": None,
    "0001-01-01T00:00:00Z": -62_135_596_800_000_000,
}


def test_time_is_the_instant_and_time_text_what_came(session: SparkSession, tmp_path: Path) -> None:
    records = [Record(None, (*REQUIRED, ("ce_time", text.encode())), b"") for text in TIMES]
    raw = frame(session, tmp_path, records)
    for found in (natively(raw), exactly(raw)):
        told = found.selectExpr("offset", "time_text", "unix_micros(time) AS at").sort("offset")
        assert {row.time_text: row["at"] for row in told.collect()} == TIMES


def test_no_python_stands_in_the_native_plan(session: SparkSession, tmp_path: Path) -> None:
    """Issue 8, "Speed"."""
    found = natively(frame(session, tmp_path, [Record(None, REQUIRED, b"")]))
    plan = found._jdf.queryExecution().executedPlan().toString()
    assert not [name for name in PYTHON if name in plan]
    assert "RLike" in plan or "RLIKE" in plan


def test_generated_code_is_small_enough_to_be_compiled(
    session: SparkSession, tmp_path: Path
) -> None:
    """Pipeline.md 3.3: HotSpot interprets a method beyond 8000 bytes, at a quarter of the speed. Where
    one would be larger, Spark must know, and evaluate otherwise.
    """
    limit = int(session.conf.get("spark.sql.codegen.hugeMethodLimit") or 0)
    assert 0 < limit <= 8000
    found = natively(frame(session, tmp_path, [Record(None, REQUIRED, b"")]))
    debug = session._jvm.org.apache.spark.sql.execution.debug
    told = (
        getattr(debug, "package$")
        .__getattr__("MODULE$")
        .codegenString(found._jdf.queryExecution().executedPlan())
    )
    sizes = [int(size) for size in re.findall(r"maxMethodCodeSize:(\d+)", told)]
    assert sizes
    assert min(sizes) <= limit
