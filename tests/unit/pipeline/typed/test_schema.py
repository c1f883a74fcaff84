"""The columns that a JSON Schema describes, and how they may change."""

from __future__ import annotations

import json
from typing import Any

import pytest

from app.errors import SetupError
from app.pipeline.kinds import Properties
from app.pipeline.typed.evolve import changes, json_paths
from app.pipeline.typed.schema import columns_of
from app.pipeline.typed.types import arrow_type, sql_type


def columns(**properties: Any) -> Properties:
    return columns_of(json.dumps({"type": "object", "properties": properties}).encode(), "at")


NODE = {
    "type": "object",
    "properties": {"next": {"$ref": "#/properties/a"}, "n": {"type": "integer"}},
}


@pytest.mark.parametrize(
    ("part", "sql"),
    [
        ({"type": "string"}, "STRING"),
        ({"enum": ["a", "b", None]}, "STRING"),
        ({"const": True}, "BOOLEAN"),
        ({"type": ["string", "null"], "format": "date-time"}, "TIMESTAMP"),
        ({"type": "string", "format": "date"}, "DATE"),
        ({"type": "string", "format": "uuid"}, "STRING"),
        ({"type": "integer"}, "BIGINT"),
        ({"type": "integer", "format": "int32"}, "INT"),
        ({"type": "integer", "minimum": 0, "exclusiveMaximum": 2**31 - 1}, "INT"),
        ({"type": "integer", "minimum": 0}, "BIGINT"),
        ({"type": "integer", "minimum": 0, "maximum": 2**64 - 1}, "DECIMAL(20, 0)"),
        ({"type": "integer", "maximum": 2**64}, "DECIMAL(38, 0)"),
        ({"type": "number"}, "DOUBLE"),
        ({"type": ["integer", "number"]}, "DOUBLE"),
        ({"type": "number", "multipleOf": 0.01}, "DECIMAL(38, 2)"),
        ({"type": "number", "multipleOf": 0.05, "minimum": -5, "maximum": 9999}, "DECIMAL(6, 2)"),
        ({"type": "number", "multipleOf": 1e-50}, "DOUBLE"),
        ({"type": "array", "items": {"type": "number"}}, "ARRAY<DOUBLE>"),
        ({"type": "array"}, "STRING"),
        ({"type": "array", "items": {"type": "string"}, "prefixItems": [{}]}, "STRING"),
        ({"type": "object", "additionalProperties": {"type": "integer"}}, "MAP<STRING, BIGINT>"),
        ({"type": "object"}, "STRING"),
        ({"type": "object", "properties": {"a b": {"type": "boolean"}}}, "STRUCT<`a b`: BOOLEAN>"),
        ({"type": ["string", "integer"]}, "STRING"),
        ({"anyOf": [{"type": "integer"}, {"type": "null"}]}, "BIGINT"),
        ({"oneOf": [{"type": "integer"}, {"type": "string"}]}, "STRING"),
        ({"$ref": "#/properties/b"}, "BOOLEAN"),
        ({"allOf": [{"properties": {"x": {"type": "string"}}}], "properties": {"y": {"type": "string"}}},
         "STRUCT<`x`: STRING, `y`: STRING>"),
        ({"allOf": [{"properties": {"x": {"type": "boolean"}}}], "properties": {"x": {"title": "X"}}},
         "STRUCT<`x`: BOOLEAN>"),
        ({"allOf": [{"$ref": "#/$defs/base"}, {"allOf": [{"$ref": "#/$defs/base"}]}]}, "STRUCT<`n`: BIGINT>"),
        ({"allOf": [{"$ref": "#/$defs/base"}], "properties": {"of": {"$ref": "#/$defs/base"}}},
         "STRUCT<`n`: BIGINT, `of`: STRUCT<`n`: BIGINT>>"),
        ({"$ref": "#/$defs/with%20space"}, "BOOLEAN"),
        ({"properties": {"x": {"type": "integer"}}, "oneOf": [{"required": ["x"]}, {"required": ["y"]}]},
         "STRUCT<`x`: BIGINT>"),
        ({"properties": {"x": {}}, "oneOf": [{"properties": {"y": {}}}, {"required": ["z"]}]}, "STRING"),
        ({"type": "string", "oneOf": [{"const": "a", "title": "A"}, {"const": "b"}]}, "STRING"),
        ({"type": "integer", "anyOf": [{"minimum": 5}, {"const": 0}]}, "BIGINT"),
        ({"type": [{}]}, "STRING"),
        ({"properties": {"ce_id": {}, "_file": {}}}, "STRUCT<`ce_id`: STRING, `_file`: STRING>"),
        (NODE, "STRUCT<`next`: STRUCT<`next`: STRING, `n`: BIGINT>, `n`: BIGINT>"),
        (True, "STRING"),
    ],
)  # fmt: skip
def test_each_part_of_a_schema_has_its_type(part: Any, sql: str) -> None:
    base = {"properties": {"n": {"type": "integer"}}}
    defs = {"base": base, "with space": {"type": "boolean"}}
    whole = {"properties": {"a": part, "b": {"type": "boolean"}}, "$defs": defs}
    found = columns_of(json.dumps(whole).encode(), "at")
    assert sql_type(found.fields[0].kind) == sql


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[", "is not JSON"),
        ("true", "does not describe an object"),
        ('{"type": "array", "items": {"type": "string"}}', "does not describe an object"),
        ('{"properties": {"a": {}, "A": {}}}', "a and A, which are one column"),
        ('{"properties": {"a.b": {}}}', "cannot be the name of a column"),
        ('{"properties": {"\u00b5": {}, "\u03bc": {}}}', "which are one column"),
        ('{"properties": {"": {}}}', "cannot be the name of a column"),
        ('{"properties": {"a": {"properties": {"\\"": {}}}}}', "cannot be the name of a column"),
        ('{"properties": {"a\\\\b": {}}}', "cannot be the name of a column"),
        ('{"properties": {"CE_id": {}}}', "ce_... are columns of the event"),
        ('{"properties": {"_Pos": {}}}', "_Pos, which is a column of Iceberg"),
        ('{"properties": {"a": {"$ref": "https://example.com/x"}}}', "no columns can be read from"),
        ('{"properties": {"a": {"$ref": "#/$defs/x"}}}', "no such part"),
    ],
)
def test_a_schema_without_columns_is_refused(text: str, words: str) -> None:
    with pytest.raises(SetupError, match=words) as refused:
        columns_of(text.encode(), "pipeline.tables[0].schema")
    assert refused.value.setting == "pipeline.tables[0].schema"


def test_a_schema_that_contains_itself_without_end_has_columns() -> None:
    deep: Any = {"type": "string"}
    for _ in range(200):
        deep = {"type": "array", "items": deep}
    assert columns(a=deep, b={"$ref": "#"}).fields[1].kind is not None


@pytest.mark.parametrize(
    ("bounds", "sql"),
    [
        ('"type": "integer", "minimum": 0, "maximum": 1e9999', "BIGINT"),
        ('"type": "integer", "minimum": 0, "maximum": 1e30', "DECIMAL(31, 0)"),
        ('"type": "number", "multipleOf": 0.5, "minimum": 0, "maximum": 0.5', "DECIMAL(2, 1)"),
        ('"type": "number", "multipleOf": 1e9999999999999999999', "DOUBLE"),
    ],
)
def test_numbers_of_a_schema_may_be_far(bounds: str, sql: str) -> None:
    text = f'{{"properties": {{"a": {{{bounds}}}}}}}'
    assert sql_type(columns_of(text.encode(), "at").fields[0].kind) == sql


def test_types_that_contain_each_other_many_times_are_refused() -> None:
    names = [f"t{n}" for n in range(12)]
    every = {name: {"$ref": f"#/$defs/{name}"} for name in names}
    schema = {"properties": every, "$defs": {name: {"properties": every} for name in names}}
    with pytest.raises(SetupError, match="more than 5000 columns"):
        columns_of(json.dumps(schema).encode(), "at")


LONG, INT = {"type": "integer"}, {"type": "integer", "format": "int32"}


@pytest.mark.parametrize(
    ("before", "after", "changed"),
    [
        (INT, LONG, ["a"]),
        ({"items": INT}, {"items": LONG}, ["a.element"]),
        ({"properties": {"x": INT}}, {"properties": {"x": INT, "y": {}}}, ["a.y"]),
        ({"properties": {"x": INT, "y": {}}}, {"properties": {"x": INT}}, []),
        ({"type": "object", "additionalProperties": INT}, {"type": "object", "additionalProperties": LONG},
         ["a.value"]),
        (LONG, INT, "is int64"),
        (LONG, {"type": "number"}, "is int64"),
        ({}, {"type": "string"}, "is JSON text"),
        ({"type": "string"}, {}, "is string"),
        ({"items": INT}, {"type": "object"}, r"is list<item: int32>"),
        ({"properties": {"x": INT}}, INT, "is a record"),
    ],
)  # fmt: skip
def test_columns_may_grow_and_not_shrink(before: Any, after: Any, changed: list[str] | str) -> None:
    old, new = columns(a=before), columns(a=after)
    found = list(changes(new, arrow_type(old), frozenset(json_paths(old))))
    if isinstance(changed, str):
        assert [each.refused for each in found] == [changed]
    else:
        assert [".".join(each.path) for each in found] == changed
        assert not any(each.refused for each in found)
