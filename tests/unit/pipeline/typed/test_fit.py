"""Typed columns hold what Python's own JSON reads, and a fault has the pointer of its value."""

from __future__ import annotations

import json
import random

import pytest

from app.pipeline.kinds import Properties
from app.pipeline.typed.fit import UNFIT, fit, judge
from app.pipeline.typed.schema import columns_of
from app.pipeline.typed.types import arrow_type
from typed_reading import Made, mutated, readings, schema

TOGETHER = 250  # documents of one schema


def columns(made: Made) -> Properties:
    return columns_of(json.dumps(made.schema).encode(), "schema")


def check(made: Made, texts: list[str]) -> int:
    """Compare both readings of the texts, and return how many fit."""
    record = columns(made)
    found = fit([text.encode() for text in texts], record, arrow_type(record))
    rows = dict(zip(found.rows, found.data.to_pylist(), strict=True))
    for n, (expected, at) in enumerate(readings(made, texts)):
        assert rows.get(n) == expected or _same(rows.get(n), expected), texts[n]
        if expected is None:
            assert at in [each.at for each in found.faults[n]], texts[n]
    assert sorted([*rows, *found.faults]) == list(range(len(texts)))
    return len(rows)


def _same(found: object, expected: object) -> bool:
    """Compare with the expected value on the left, whose JSON texts know how to compare."""
    match expected:
        case dict():
            return isinstance(found, dict) and all(_same(found[k], v) for k, v in expected.items())
        case list():
            if not isinstance(found, list) or len(found) != len(expected):
                return False
            return all(_same(*pair) for pair in zip(found, expected, strict=True))
        case (str() as name, value):
            return isinstance(found, tuple) and found[0] == name and _same(found[1], value)
    return expected == found


@pytest.mark.parametrize(
    "rounds",
    [8, pytest.param(80, marks=pytest.mark.nightly), pytest.param(800, marks=pytest.mark.nightly)],
)
def test_columns_hold_what_pythons_own_json_reads(rounds: int) -> None:
    """80 rounds are 20,000 generated documents and 20,000 mutated ones."""
    chance = random.Random(rounds)
    fitting = refused = 0
    for _ in range(rounds):
        made = schema(chance)
        texts = [made.write() for _ in range(TOGETHER)]
        assert check(made, texts) == TOGETHER
        changed = [mutated(chance, text) for text in texts]
        kept = check(made, changed)
        fitting, refused = fitting + kept, refused + TOGETHER - kept
        check(made, texts[:20] + changed[:2])
    assert fitting > refused / 20
    assert refused > fitting / 20


def test_every_document_has_the_same_values_whichever_way_is_taken() -> None:
    """The documents that msgspec reads are judged value by value as well."""
    chance = random.Random(4)
    for _ in range(20):
        made = schema(chance)
        record, texts = columns(made), [made.write() for _ in range(20)]
        whole = fit([text.encode() for text in texts], record, arrow_type(record))
        slow = [judge(text.encode(), record) for text in texts]
        again = fit([b"{", *(text.encode() for text in texts)], record, arrow_type(record))
        assert all(value is not None and not faults for value, faults in slow)
        assert again.data.equals(whole.data)
        assert again.rows == [n + 1 for n in whole.rows]


@pytest.mark.parametrize(
    ("text", "code", "at"),
    [
        (None, "missing-data", "/data"),
        ("", "missing-data", "/data"),
        ("{", "data-not-json", "/data"),
        ("[1]", UNFIT, "/data"),
        ("null", UNFIT, "/data"),
        ('{"n": "1"}', UNFIT, "/data/n"),
        ('{"n": 9223372036854775808}', UNFIT, "/data/n"),
        ('{"price": 1.005}', UNFIT, "/data/price"),
        ('{"price": 1E-61}', UNFIT, "/data/price"),
        ('{"lines": [{"n": 1}, {"n": 1.5}]}', UNFIT, "/data/lines/1/n"),
        ('{"by~/key": {"k": []}}', UNFIT, "/data/by~0~1key/k"),
        ('{"name": "\\ud800"}', UNFIT, "/data/name"),
        ('{"by~/key": {"k\ufeff": 1}}', UNFIT, "/data/by~0~1key/k\ufeff"),
    ],
)
def test_a_fault_names_its_value(text: str | None, code: str, at: str) -> None:
    line = {"type": "object", "properties": {"n": {"type": "integer"}}}
    properties = {
        "n": {"type": "integer"},
        "name": {"type": "string"},
        "price": {"type": "number", "multipleOf": 0.01},
        "lines": {"type": "array", "items": line},
        "by~/key": {"type": "object", "additionalProperties": {"type": "boolean"}},
    }
    record = columns_of(json.dumps({"properties": properties}).encode(), "schema")
    found = fit([None if text is None else text.encode()], record, arrow_type(record))
    assert [(each.code, each.at) for each in found.faults[0]] == [(code, at)]
    assert not len(found.data)


def test_faults_of_one_event_are_bounded() -> None:
    record = columns_of(b'{"properties": {"a": {"items": {"type": "string"}}}}', "schema")
    value, faults = judge(b'{"a": [%b]}' % b",".join([b"1"] * 70), record)
    assert (value, len(faults)) == (None, 50)
