"""``schema`` of a route: data is checked against JSON Schema 2020-12, with every fault at once."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest

from app.access.rights import NotAllowed, Rights
from app.bindings.record import ContentMode, Decoded
from app.errors import SetupError
from app.event.value import CloudEvent, DataForm
from app.model.producer import May
from app.model.route import DataSchema, Route
from app.routing.data_schema import LISTED, MOST, InvalidData, compile_check
from app.routing.plan import Permit, Resources, Router
from hostile_json import NOT_JSON, VALUES

ORDER = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "required": ["id", "lines"],
    "properties": {
        "id": {"$ref": "#/$defs/name"},
        "lines": {"type": "array", "items": {"properties": {"count": {"minimum": 1}}}},
        "a/b~c": {"type": "integer"},
    },
    "$defs": {"name": {"type": "string", "pattern": "^[a-z0-9-]+$"}},
}
GOOD = {"id": "o-1", "lines": [{"count": 2}]}


def event(data: Any = GOOD, *, raw: bytes | None = None, **attributes: str) -> CloudEvent:
    named = {"specversion": "1.0", "id": "1", "source": "/s", "type": "t", **attributes}
    body = json.dumps(data).encode() if raw is None else raw
    return CloudEvent(named, body, DataForm.JSON)


def check_of(schema: Any, **setting: Any):
    texts = {"order.json": json.dumps(schema).encode(), "any.json": b"true"}
    return compile_check(DataSchema(**{"file": "order.json", **setting}), texts, "schema")


def found(schema: Any, data: Any) -> list[tuple[str, str]]:
    return [(fault.at, fault.detail) for fault in check_of(schema)(event(data))]


def test_data_that_matches_has_no_fault():
    assert found(ORDER, GOOD) == []


def test_every_fault_is_told_with_its_pointer():
    data = {"id": "O 1", "lines": [{"count": 1}, {"count": 0}], "a/b~c": "x"}
    assert sorted(at for at, _ in found(ORDER, data)) == [
        "/data/a~1b~0c",
        "/data/id",
        "/data/lines/1/count",
    ]
    assert found(ORDER, {"id": "x"}) == [("/data", '"lines" is a required property.')]


def test_faults_are_bounded():
    """An answer does not grow with what was sent."""
    data = {"id": "x" * 1_000 + " ", "lines": [{"count": 0}] * 100}
    faults = found(ORDER, data)
    assert len(faults) == MOST + 1
    assert all(len(detail) < 500 for _, detail in faults)
    assert "more than" in faults[-1][1]


@pytest.mark.parametrize(
    ("sent", "code"),
    [
        (CloudEvent({"id": "1"}), "missing-data"),
        (CloudEvent({"id": "1"}, b"{", DataForm.JSON), "data-not-json"),
        (CloudEvent({"id": "1"}, b"", DataForm.JSON), "data-not-json"),
        (CloudEvent({"id": "1"}, b"[" * 100_000, DataForm.JSON), "data-not-json"),
        (CloudEvent({"id": "1", "datacontenttype": "text/xml"}, b"<a/>"), "data-not-json"),
        (CloudEvent({"id": "1"}, b"\xff", DataForm.OPAQUE), "data-not-json"),
    ],
)
def test_what_is_no_json_does_not_match(sent, code):
    assert [fault.code for fault in check_of(True)(sent)] == [code]


def test_data_of_binary_mode_is_checked_by_its_content_type():
    sent = CloudEvent({"id": "1", "datacontenttype": "application/vnd.x+json"}, b'{"id": 1}')
    assert [fault.at for fault in check_of(ORDER)(sent)] == ["/data", "/data/id"]


def test_dataschema_chooses_the_schema():
    table = {"https://e.example/order/1": "order.json", "https://e.example/any": "any.json"}
    check = check_of(ORDER, file=None, dataschema=table)
    assert check(event(1, dataschema="https://e.example/any")) == ()
    (fault,) = check(event({"id": "x"}, dataschema="https://e.example/order/1"))
    assert fault.at == "/data"
    unknown, missing = check(event(dataschema="https://e.example/2")), check(event())
    assert [fault.code for fault in (*unknown, *missing)] == [
        "unknown-dataschema",
        "missing-dataschema",
    ]


@pytest.mark.parametrize(
    "schema",
    [
        {"$ref": "https://e.example/other.json"},
        {"$ref": "file:///etc/passwd"},
        {"$ref": "other.json"},
        {"type": "strin"},
        {"pattern": "(a+)+\\1"},
        {"pattern": "a(?=b)"},
        {"$schema": "http://json-schema.org/draft-07/schema#"},
        {"$schema": 7},
        [],
    ],
)
def test_what_is_no_schema_of_one_file_is_refused(schema):
    with pytest.raises(SetupError) as refused:
        check_of(schema)
    assert (refused.value.setting, bool(refused.value.cure)) == ("schema.file", True)


def test_a_file_that_is_no_json_is_refused():
    with pytest.raises(SetupError, match="is not JSON"):
        compile_check(DataSchema(file="order.json"), {"order.json": b"{"}, "schema")


@pytest.mark.parametrize("branches", [None, "anyOf", "oneOf"], ids=["plain", "anyOf", "oneOf"])
def test_of_large_data_the_library_makes_no_list_of_faults(branches):
    """It would make all of them at once, which blocks the gateway for seconds."""
    items = {"items": {"type": "string"}}
    data = [0] * LISTED
    faults = found(items if branches is None else {branches: [items, {"maxItems": 1}]}, data)
    told = ["/data/0", "/data"] if branches is None else ["/data"]
    assert [at for at, _ in faults] == told
    assert str(LISTED) in faults[-1][1]


@pytest.mark.parametrize("size", [0, LISTED])
def test_data_too_deep_for_the_library_is_a_fault(size):
    """For Python it is not: 300 levels."""
    raw = b'{"a":' + b"[" * 300 + b"]" * 300 + b',"b":"' + b"x" * size + b'"}'
    (fault,) = check_of({"properties": {"a": {"enum": [1]}}})(event(raw=raw))
    assert (fault.code, fault.at) == ("invalid-data", "/data")


def test_a_pattern_takes_linear_time():
    """With backtracking this takes longer than the universe is old; the bound allows any machine."""
    begun = time.monotonic()
    assert found({"pattern": "^(a+)+$"}, "a" * 5_000 + "b")
    assert time.monotonic() - begun < 60


@pytest.mark.parametrize(
    "setting", [{}, {"file": "a", "dataschema": {"u": "b"}}, {"dataschema": {}}]
)
def test_one_source_of_schemas_is_named(setting):
    with pytest.raises(ValueError, match=r"file|dataschema"):
        DataSchema(**setting)


class House:
    """Routes ``orders``, whose data has a schema, and ``odd``."""

    def __init__(self, on_invalid: Any) -> None:
        setting = {"file": "order.json", "on_invalid": on_invalid}
        orders = {
            "name": "orders",
            "filters": [{"exact": {"type": "t"}}],
            "to": {"broker": "log", "topic": "orders"},
            "schema": setting,
        }
        routes = [orders, {"name": "odd", "to": {"broker": "log", "topic": "odd"}}]
        self.told: list[tuple[str, str]] = []
        self.router = Router(
            [Route.model_validate(each) for each in routes],
            Resources(checks={"orders": check_of(ORDER)}),
            invalid=lambda *told: self.told.append(told),
        )

    def topics(self, data: Any, permit: Permit | None = None) -> list[str]:
        decoded = Decoded(event(data), ContentMode.BINARY)
        return [each.topic for each in self.router.plan(decoded, None, permit=permit)]


def test_reject_is_422_with_every_fault():
    house = House("reject")
    assert house.topics(GOOD) == ["orders"]
    with pytest.raises(InvalidData) as refused:
        house.topics({"id": 1})
    assert (refused.value.status, refused.value.code) == (422, "invalid-data")
    assert [fault.at for fault in refused.value.faults] == ["/data", "/data/id"]
    assert house.told == [("orders", "rejected")]


def test_count_publishes_and_tells():
    house = House("count")
    assert house.topics({"id": 1}) == ["orders"]
    assert house.told == [("orders", "counted")]


def test_another_route_takes_what_does_not_match():
    house = House({"route": "odd"})
    assert house.topics({"id": 1}) == ["odd"]
    assert house.topics(GOOD) == ["orders"]
    assert house.told == [("orders", "rerouted")]


def test_the_right_to_the_chosen_route_is_all_that_is_asked_and_is_asked_first():
    """Where invalid data goes is the operator's decision; the schema of a route that a producer may not use
    is not told to it.
    """
    house = House({"route": "odd"})
    assert house.topics({"id": 1}, Rights("shop", May(routes=("orders",))).demand_route) == ["odd"]
    house.told.clear()
    with pytest.raises(NotAllowed):
        house.topics({"id": 1}, Rights("shop", May(routes=("odd",))).demand_route)
    assert house.told == []


@pytest.mark.parametrize("other", VALUES)
def test_data_is_checked_whatever_stands_beside_what_is_asked_for(other: bytes):
    schema = {"required": ["n"], "properties": {"n": {"maximum": 5}}}
    good, bad = (b'{"n":%b,"\\ud83d":1,"x":%b}' % (n, other) for n in (b"5", b"6"))
    assert check_of(schema)(event(raw=good)) == ()
    assert {fault.at for fault in check_of(schema)(event(raw=bad))} - {"/data"} == {"/data/n"}


@pytest.mark.parametrize(
    ("schema", "data", "at"),
    [
        ({"type": "integer", "minimum": 7}, b"1e400", None),
        ({"maximum": 7}, b"1e400", "/data/x"),
        ({"maximum": 7}, b"1e99999999999999999999", "/data/x"),
        ({"minimum": 7}, b"-1e99999999999999999999", "/data/x"),
        ({"maximum": 7}, b"-" + b"9" * 5000, None),
        ({"minimum": 10**400}, b"9" * 5000, None),
        ({"exclusiveMaximum": 10**401}, b"1e401", "/data/x"),
        ({"type": "string", "maxLength": 1}, rb'"\ud83d"', None),
        ({"type": "string", "minLength": 2}, rb'"\ud83d"', "/data/x"),
        ({"const": "\ud83d"}, rb'"\uD83D"', None),
        ({"const": "\ud83d"}, rb'"\ud83e"', "/data/x"),
        ({"pattern": "^cut"}, rb'"cut \ud83d"', None),
        ({"additionalProperties": False}, rb'{"\ud83d":1}', "/data/x"),
        ({"additionalProperties": {"type": "string"}}, rb'{"\ud83d":1}', "/data/x/\\ud83d"),
    ],
)
def test_texts_and_numbers_that_are_none_of_ours_are_checked(schema, data: bytes, at: str | None):
    found = check_of({"properties": {"x": schema}})(event(raw=b'{"x":%b,"y":1e400}' % data))
    assert [fault.at for fault in found][:1] == ([] if at is None else [at])
    assert all(fault.code == "invalid-data" for fault in found)


@pytest.mark.parametrize("text", NOT_JSON)
def test_what_is_no_json_is_said_to_be_none(text: bytes):
    (fault,) = check_of({})(event(raw=text))
    assert fault.code == "data-not-json"


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-32"])
def test_a_schema_is_read_in_every_encoding_that_editors_write(encoding: str):
    texts = {"s.json": r'{"properties":{"a":{"const":"é\ud83d"}}}'.encode(encoding)}
    check = compile_check(DataSchema(file="s.json"), texts, "schema")
    assert check(event(raw='{"a":"é\\ud83d"}'.encode())) == ()
    assert [fault.at for fault in check(event(raw=b'{"a":"x"}'))] == ["/data/a"]
