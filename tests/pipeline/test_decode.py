"""The pipeline's decoder says of every record what ``app.bindings`` says (issue 8, "Equality"; ADR 0021).

To plan the decoder costs Spark seconds, to run it on one more record nothing: all records of all tests go
through each way once.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from app.bindings.record import Record
from app.pipeline.decode import decoded, exactly, natively
from app.pipeline.session import open_session
from app.pipeline.settings import Engine
from decode_asking import differences, expected, frame, rows, shown
from decode_records import ENDS, LOOSE_ENDS, REQUIRED, clean, corpus, ending, generated, poison

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

CLEAR = 0.95  # of events as producers write them
PYTHON = ("ArrowEvalPython", "BatchEvalPython", "MapInArrow", "MapInPandas", "PythonMapInArrow")

DATA = b'{ "b" : 1.10,"a":1e400, "x":"\\u00e9\\/" ,"n":123456789012345678901234567890.10, "e":[ ] }'
DOCUMENT = b'{"specversion":"1.0","id":"1","source":"/","type":"t","data": ' + DATA + b' ,"z":"1"}'
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


def all_records() -> dict[str, list[Record]]:
    """By what they are for; poison is the last."""
    return {
        "corpora": corpus(),
        "generated": generated(280),
        "usual": clean(200),
        "data": [Record(None, (("content-type", b"application/cloudevents+json"),), DOCUMENT)],
        "times": [Record(None, (*REQUIRED, ("ce_time", text.encode())), b"") for text in TIMES],
        "ends": list(map(ending, (*ENDS, *LOOSE_ENDS))),
        "poison": list(poison().values()),
    }


@dataclass
class Way:
    """What one way made of all records, which it saw in one frame."""

    frame: DataFrame
    kinds: Mapping[str, Sequence[Record]]
    found: Sequence[dict[str, Any]]

    def of(self, kind: str) -> list[dict[str, Any]]:
        names = list(self.kinds)
        begin = sum(len(self.kinds[name]) for name in names[: names.index(kind)])
        return list(self.found[begin : begin + len(self.kinds[kind])])

    def told(self, kind: str) -> list[str]:
        return differences(self.kinds[kind], self.of(kind), expected)


def _asked(raw: DataFrame, kinds: Mapping[str, Sequence[Record]], way: Any) -> Way:
    found = shown(way(raw))
    return Way(found, kinds, rows(found))


@pytest.fixture(scope="module")
def session(spark: SparkSession) -> SparkSession:
    assert spark is not None  # it is there for all of the run, and ends it
    return open_session(Engine(), None, app_name="decode")


@pytest.fixture(scope="module")
def kinds() -> dict[str, list[Record]]:
    return all_records()


@pytest.fixture(scope="module")
def raw(
    session: SparkSession, kinds: dict[str, list[Record]], tmp_path_factory: pytest.TempPathFactory
) -> DataFrame:
    every = [record for records in kinds.values() for record in records]
    return frame(session, tmp_path_factory.mktemp("records"), every)


@pytest.fixture(scope="module")
def native(session: SparkSession, raw: DataFrame, kinds: dict[str, list[Record]]) -> Way:
    """In a session where a repeated header would end a query for ever: whoever made a session without
    our settings must not be brought down by one.
    """
    before = session.conf.get("spark.sql.mapKeyDedupPolicy")
    session.conf.set("spark.sql.mapKeyDedupPolicy", "EXCEPTION")
    try:
        return _asked(raw, kinds, natively)
    finally:
        session.conf.set("spark.sql.mapKeyDedupPolicy", before)


@pytest.fixture(scope="module")
def exact(raw: DataFrame, kinds: dict[str, list[Record]]) -> Way:
    return _asked(raw, kinds, exactly)


@pytest.fixture(scope="module")
def both(raw: DataFrame, kinds: dict[str, list[Record]]) -> Way:
    """Without poison, which costs most: each way has it."""
    some = {name: records for name, records in kinds.items() if name != "poison"}
    return _asked(raw.where(f"offset < {sum(map(len, some.values()))}"), some, decoded)


@pytest.mark.parametrize("kind", ["corpora", "generated", "usual"])
def test_both_ways_together_say_what_the_bindings_say(both: Way, kind: str) -> None:
    """Of every message of the corpora, and of generated ones of every version and mode: same attributes,
    types, data, verdict, rule, faults.
    """
    told = both.told(kind)
    assert both.of(kind)
    assert not told, "\n".join(told[:20])


@pytest.mark.nightly
@pytest.mark.timeout(3600)
def test_twenty_thousand_generated_records(session: SparkSession, tmp_path: Path) -> None:
    records = generated(20_000)
    found = rows(shown(decoded(frame(session, tmp_path, records))))
    assert len(found) == len(records)
    told = differences(records, found, expected)
    assert not told, "\n".join(told[:20])


def test_the_exact_way_alone(exact: Way) -> None:
    """And what ``quarantine`` keeps of a record that has a verdict: its value and headers."""
    assert not exact.told("poison")
    for record, row in zip(exact.kinds["poison"], exact.of("poison"), strict=True):
        refused = row["verdict"] is not None
        assert row["value"] == (record.body if refused else None)
        headers = [{"key": n, "value": v} for n, v in record.headers] if refused else None
        assert row["headers"] == headers


@pytest.mark.parametrize("kind", ["corpora", "ends", "generated", "poison", "usual"])
def test_what_is_clear_is_right(native: Way, kind: str) -> None:
    """Pipeline.md 5: no query ends, also where nobody set what a repeated header asks for, and what the
    bindings refuse is never passed.
    """
    assert native.of(kind)
    for record, row in zip(native.kinds[kind], native.of(kind), strict=True):
        due = expected(record)
        if due["verdict"] is not None:
            assert row["doubt"], record
        elif not row["doubt"]:
            assert not differences([record], [row], expected), record


def test_usual_events_are_clear(native: Way) -> None:
    """Doubt costs time: of events as producers write them, in any version, nearly none is in doubt."""
    records, found = native.kinds["usual"], native.of("usual")
    doubtful = [record for record, row in zip(records, found, strict=True) if row["doubt"]]
    assert len(doubtful) <= (1 - CLEAR) * len(records), f"{len(doubtful)}: {doubtful[:5]}"


def test_the_end_of_the_last_member_is_found_and_nothing_else_is_taken_for_it(native: Way) -> None:
    """Whatever stops a reader early, or brings along what the decoder puts behind a value."""
    told = {
        record.body: row["doubt"]
        for record, row in zip(native.kinds["ends"], native.of("ends"), strict=True)
    }
    assert [value for value in ENDS if told[ending(value).body]] == []
    assert [value for value in LOOSE_ENDS if not told[ending(value).body]] == []


def test_the_bytes_of_data_stay(native: Way) -> None:
    """1.10 stays 1.10, and so do white space, escapes, and the order and repetition of keys."""
    (row,) = native.of("data")
    assert (row["doubt"], row["data"]) == (False, DATA.decode())


def test_time_is_the_instant_and_time_text_what_came(native: Way, exact: Way) -> None:
    for way in (native, exact):
        assert {row["time_text"]: row["at"] for row in way.of("times")} == TIMES


def test_no_python_stands_in_the_native_plan(native: Way) -> None:
    """Issue 8, "Speed"."""
    plan = native.frame._jdf.queryExecution().executedPlan().toString()
    assert not [name for name in PYTHON if name in plan]
    assert "RLike" in plan or "RLIKE" in plan


def test_a_filter_on_a_decoded_column_stays_above_the_decoder(raw: DataFrame) -> None:
    """Below, it would be copied with each projection that it passes, and the plan never be made."""
    found = natively(raw).where("type = 't' AND source = '/'")
    plan = found._jdf.queryExecution().optimizedPlan().toString()
    assert plan.startswith("Filter")
    assert plan.index("Filter") < plan.index("CollectMetrics") < plan.index("Project")


def test_generated_code_is_small_enough_to_be_compiled(session: SparkSession, native: Way) -> None:
    """Pipeline.md 3.3: HotSpot interprets a method beyond 8000 bytes, at a quarter of the speed. Where
    one would be larger, Spark must know, and evaluate otherwise.
    """
    limit = int(session.conf.get("spark.sql.codegen.hugeMethodLimit") or 0)
    assert 0 < limit <= 8000
    debug = session._jvm.org.apache.spark.sql.execution.debug
    told = (
        getattr(debug, "package$")
        .__getattr__("MODULE$")
        .codegenString(native.frame._jdf.queryExecution().executedPlan())
    )
    sizes = [int(size) for size in re.findall(r"maxMethodCodeSize:(\d+)", told)]
    assert sizes
    assert min(sizes) <= limit
