"""Typed tables: the rows of the events in ``events``, each once, whatever is killed. Counted by PyIceberg."""

from __future__ import annotations

import json
from collections.abc import Iterable
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from app.bindings.record import Record
from app.errors import SetupError
from app.pipeline import tables
from app.pipeline.archive import progress
from app.pipeline.archive.derive import Derived
from app.pipeline.erase import erase
from app.pipeline.kinds import TypedTable
from app.pipeline.maintain import LakeRetention, maintain
from app.pipeline.query.duck import ask
from app.pipeline.redrive import RedriveRequest, preview_redrive, redrive
from app.pipeline.typed.schema import columns_of
from hand_made_lake import HandMadeLake
from lake_folders import read_table
from replay_records import binary_record

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.usefixtures("spark")]

ORDER = "com.example.order.created"
LINE: dict[str, Any] = {
    "type": "object",
    "properties": {"sku": {"type": "string"}, "count": {"type": "integer"}},
}
PROPERTIES: dict[str, Any] = {
    "id": {"type": "string"},
    "n": {"type": "integer", "minimum": 0, "maximum": 1000},
    "total": {"type": "number", "multipleOf": 0.01, "minimum": 0, "maximum": 9999},
    "lines": {"type": "array", "items": LINE},
    "tags": {"type": "object", "additionalProperties": {"type": "string"}},
}
BROKEN = Record(b"k", (("ce_specversion", b"1.0"), ("ce_id", b"x")), b"{}")


def orders(table: str = "orders", **more: Any) -> TypedTable:
    schema = {"type": "object", "properties": {**PROPERTIES, **more}}
    return TypedTable(ORDER, table, columns_of(json.dumps(schema).encode(), "schema"))


def order(name: str, data: str | None = None, **attributes: str) -> tuple[float, Record]:
    text = f'{{"id": "{name}", "n": 1, "total": 1.10}}' if data is None else data
    given = {"type": ORDER, "time": "2026-03-04T05:06:07Z", **attributes}
    return 1.0, msgspec.structs.replace(binary_record(name, b"k", **given), body=text.encode())


@pytest.fixture
def house(tmp_path: Path) -> HandMadeLake:
    return HandMadeLake(tmp_path, [orders()])


@pytest.fixture(scope="module")
def refusing(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> HandMadeLake:
    """A lake for all tests in which a table is refused: it stays as it is."""
    return HandMadeLake(tmp_path_factory.mktemp("refusing"), [orders()])


def rows(house: HandMadeLake, table: str = "orders", *names: str) -> dict[str, Any]:
    """The rows by the id of their event: none is there twice."""
    columns = ("ce_id", *names)
    found = read_table(house.folder, table, columns if names else ("*",)).to_pylist()
    assert len({row["ce_id"] for row in found}) == len(found)
    return {row["ce_id"]: row for row in found}


def unfit(house: HandMadeLake) -> list[tuple[int, list[str]]]:
    """The offset of each record that fits no column, with the pointers of its faults."""
    columns = ("offset", "verdict", "rule", "faults")
    found = read_table(house.folder, "quarantine", columns).to_pylist()
    return sorted(
        (row["offset"], [each["at"] for each in row["faults"]])
        for row in found
        if (row["verdict"], row["rule"]) == ("unfit", "data-does-not-fit")
    )


def test_each_event_of_the_type_is_a_row_with_its_data(house: HandMadeLake) -> None:
    whole = (
        '{"n": 7.0, "total": 12345e-2, "lines": [{"sku": "a", "count": 2}, null], "tags": {"k": "v"},'
        ' "more": 1}'
    )
    structured = {"specversion": "1.0", "id": "s", "source": "/s", "type": ORDER, "data": {"n": 3}}
    headers = (("content-type", b"application/cloudevents+json"),)
    house.stored(
        order("a", whole, subject="customer-1"),
        order("b"),
        (1.0, binary_record("other")),
        (1.0, BROKEN),
        order("b"),
        order("torn", '{"total": 0.001, "lines": [{"count": "x"}]}'),
        order("torn", '{"total": 0.001}'),
        order("text", "plain", datacontenttype="text/plain"),
        (1.0, Record(b"k", headers, json.dumps(structured).encode())),
    )
    found = house.derived()
    rules = {"missing-attribute": 1, "data-does-not-fit": 2}
    assert found == Derived(9, 6, 2, 1, unfit=2, rules=rules)
    assert len(house.events()) == 6, "also those whose data does not fit"
    there = rows(house)
    assert sorted(there) == ["a", "b", "s"]
    a = there["a"]
    assert (a["id"], a["n"], a["total"]) == (None, 7, Decimal("123.45"))
    assert a["lines"] == [{"sku": "a", "count": 2}, None]
    assert a["tags"] == [("k", "v")]
    assert (a["ce_source"], a["ce_type"], a["ce_subject"]) == ("/s", ORDER, "customer-1")
    assert a["ce_time"].isoformat() == "2026-03-04T05:06:07+00:00"
    assert (a["ce_broker"], a["ce_topic"], a["ce_partition"], a["ce_offset"]) == ("main", "t", 0, 0)
    assert there["s"]["ce_time"] is None
    assert unfit(house) == [(5, ["/data/total", "/data/lines/0/count"]), (7, ["/data"])]
    assert house.quarantined() == [3, 5, 7]
    answer = ask(house.lake, "SELECT total, lines[1].sku FROM orders WHERE ce_id = 'a'", limit=2)
    assert [list(row) for row in answer.rows] == [[Decimal("123.45"), "a"]]


@pytest.mark.nightly
@pytest.mark.parametrize("moment", ["range decoded", "events committed", "orders committed"])
def test_a_range_that_was_left_half_way_is_in_the_table_once(
    house: HandMadeLake, moment: str
) -> None:
    house.stored(order("a"), order("bad", '{"n": "x"}'), (1.0, BROKEN))
    house.derived()
    house.stored(order("b"), order("a"), order("worse", '{"n": []}'), order("a", '{"n": "x"}'))
    house.left_half_way(moment)
    house.stored(order("c"), order("b"))
    house.derived()
    assert sorted(rows(house, "orders", "ce_offset")) == ["a", "b", "c"]
    assert unfit(house) == [(1, ["/data/n"]), (5, ["/data/n"])]
    assert house.quarantined() == [1, 2, 5]
    assert house.derived() == Derived()


@pytest.mark.nightly
def test_a_table_that_is_newer_than_the_lake_is_filled_from_the_beginning(
    house: HandMadeLake,
) -> None:
    house.has()
    house.stored(order("a"), order("a", '{"n": "x"}'), order("bad", '{"n": "x"}'), (1.0, BROKEN))
    house.derived()
    house.stored(order("b"), order("other", type="com.example.a"))
    house.derived()
    house.has(orders("later"))
    for moment in ("events committed", "later committed"):
        house.left_half_way(moment)
        assert sorted(rows(house, "later", "ce_offset")) == ([] if moment[0] == "e" else ["a", "b"])
    house.stored(order("c"))
    house.derived(most=2)
    assert {name: row["ce_offset"] for name, row in rows(house, "later", "ce_offset").items()} == {
        "a": 0, "b": 4, "c": 6,
    }  # fmt: skip
    assert unfit(house) == [(2, ["/data/n"])]
    assert house.quarantined() == [2, 3]
    told = progress.read_unfit(house.session, house.lake.table("quarantine"))
    assert told == {"later": {"main": {"t": {0: 7}}}}

    house.has(orders("later"), msgspec.structs.replace(orders("again"), type="com.example.a"))
    house.stored(order("d"))
    house.derived()
    assert sorted(rows(house, "later", "ce_offset")) == ["a", "b", "c", "d"]
    assert sorted(rows(house, "again", "ce_offset")) == ["other"]
    house.session.sql(f"DROP TABLE {house.lake.table('later')}")
    house.has(orders("later"))
    house.derived()
    assert sorted(rows(house, "later", "ce_offset")) == ["a", "b", "c", "d"]
    assert unfit(house) == [(2, ["/data/n"])], "which quarantine had already"


@pytest.mark.nightly
def test_a_schema_may_grow_and_records_that_fit_then_are_redriven(house: HandMadeLake) -> None:
    """A new property is a new column, and a number may become wider: within a list, too."""
    wide = f'{{"n": {2**40}, "total": 100000.50}}'
    house.stored(order("a"), order("wide", wide), order("never", '{"n": "x"}'))
    assert house.derived().unfit == 2
    lines = {
        "type": "array",
        "items": {"properties": {**LINE["properties"], "gift": {"type": "boolean"}}},
    }
    total = {"type": "number", "multipleOf": 0.01, "minimum": 0, "maximum": 10**9}
    commits = house.commits("orders")
    house.has(orders(n={"type": "integer"}, total=total, lines=lines, note={}))
    assert house.commits("orders") == commits + 1, "a kill cannot leave half of the columns"
    house.stored(order("b", '{"note": {"x": 1}, "lines": [{"gift": true}]}'))
    house.derived()
    there = rows(house)
    assert (there["b"]["note"], there["a"]["note"]) == ('{"x": 1}', None)
    assert there["b"]["lines"] == [{"sku": None, "count": None, "gift": True}]

    wanted = RedriveRequest(("data-does-not-fit",))
    assert preview_redrive(house.session, house.lake, wanted).taken == 1
    assert redrive(house.session, house.lake, wanted).taken == 1
    there = rows(house)
    assert sorted(there) == ["a", "b", "wide"]
    assert (there["wide"]["n"], there["wide"]["total"]) == (2**40, Decimal("100000.50"))
    assert unfit(house) == [(2, ["/data/n"])]
    house.stored(order("c"), order("wide"))
    assert house.derived() == Derived(records=2, events=1, duplicates=1)
    assert sorted(rows(house, "orders", "n")) == ["a", "b", "c", "wide"]


@pytest.mark.nightly
def test_columns_may_have_any_name_and_be_many(house: HandMadeLake) -> None:
    """Words of SQL, quotes, blanks and letters of all kinds; also after upkeep and beside an erasure."""
    names = ["select", "from", "a b", "é", "x~y", "p/q", "Value", "1st", "'", "-;--", "offset"]
    data = {name: n for n, name in enumerate([*names, *(f"c{n}" for n in range(200))])}

    def schema(columns: Iterable[str]) -> TypedTable:
        text = json.dumps({"properties": {name: {"type": "integer"} for name in columns}})
        return TypedTable(ORDER, "order", columns_of(text.encode(), "schema"))

    house.has(schema(data))
    house.stored(order("a", json.dumps(data)), order("b", json.dumps(data), subject="ann"))
    assert house.derived().unfit == 0
    list(maintain(house.session, house.lake, LakeRetention(), now=datetime.now(UTC)))
    erase(house.session, house.lake, "subject", "ann")
    there = rows(house, "order")["a"]
    assert {name: there[name] for name in data} == data
    columns = ", ".join(f'"{name}"' for name in data)
    answer = ask(house.lake, f'SELECT {columns} FROM "order"', limit=2)
    assert [list(row) for row in answer.rows] == [list(data.values())]
    commits = house.commits("order")
    house.has(schema([*data, *(f"d{n}" for n in range(200))]))
    assert house.commits("order") == commits + 1


@pytest.mark.nightly
def test_events_that_were_dropped_by_hand_are_derived_again(house: HandMadeLake) -> None:
    house.stored(order("a"), order("bad", '{"n": "x"}'), (1.0, BROKEN), order("a"))
    house.derived()
    before = house.events()
    for table, lacks in (("events", True), ("quarantine", False)):
        house.session.sql(f"DROP TABLE {house.lake.table(table)}")
        tables.make(house.session, house.lake)
        if lacks:
            with pytest.raises(SetupError, match="lacks events that it had"):
                house.derived()
    house.stored(order("b"), order("a"))
    house.derived()
    assert house.events() == {**before, ("/s", "b"): 4}
    assert house.quarantined() == [1, 2]
    assert sorted(rows(house, "orders", "ce_offset")) == ["a", "b"]


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"n": {"type": "string"}}, "n is int32"),
        ({"total": {"type": "number"}}, r"total is decimal128\(6, 2\)"),
        ({"lines": {"type": "array", "items": {"properties": {"sku": {"type": "integer"}}}}}, "lines.element.sku is string"),
        ({"id": {}}, "id is string"),
        ({"ID": {"type": "string"}, "id": None}, "ID is named id"),
        ({"tags": {"properties": {"k": {"type": "string"}}}}, "tags is map"),
    ],
)  # fmt: skip
def test_what_rows_would_not_fit_is_refused(
    refusing: HandMadeLake, more: dict[str, Any], words: str
) -> None:
    schema = {name: part for name, part in {**PROPERTIES, **more}.items() if part is not None}
    text = json.dumps({"properties": schema}).encode()
    changed = TypedTable(ORDER, "orders", columns_of(text, "schema"))
    with pytest.raises(SetupError, match=words) as refused:
        refusing.has(changed)
    assert refused.value.setting == "pipeline.tables.orders.schema"


def test_a_table_of_another_type_is_refused(refusing: HandMadeLake) -> None:
    other = msgspec.structs.replace(orders(), type="com.example.other")
    with pytest.raises(SetupError, match=r"is the table of com\.example\.order\.created"):
        refusing.has(other)


@pytest.mark.nightly
def test_a_subject_is_erased_from_typed_tables_and_from_what_did_not_fit(
    house: HandMadeLake,
) -> None:
    """Also from a table that is configured no more."""
    house.stored(
        order("a", subject="ann"),
        order("bad", '{"n": "x"}', subject="ann"),
        order("b", subject="ben"),
        order("worse", '{"n": "x"}', subject="ben"),
    )
    assert house.derived().unfit == 2
    house.has()
    found = erase(house.session, house.lake, "subject", "ann")
    rows_of = {each.table: each.rows for each in found}
    assert rows_of == {"events_raw": 2, "quarantine": 1, "events": 2, "orders": 1}
    assert sorted(rows(house, "orders", "ce_subject")) == ["b"]
    assert unfit(house) == [(3, ["/data/n"])]
    house.has(orders())
    house.stored(order("c"))
    assert house.derived() == Derived(records=1, events=1)
    assert sorted(rows(house, "orders", "ce_subject")) == ["b", "c"]
    assert unfit(house) == [(3, ["/data/n"])]
