"""Changes in the shape of data are told, chance is not."""

from __future__ import annotations

import json
import random
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from app.pipeline.report import tables
from app.pipeline.report.drift import LEAST, Shape, add, compare
from app.pipeline.report.samples import as_table, former


def shape_of(texts: Iterable[str]) -> Shape:
    found = Shape()
    for text in texts:
        add(found, text)
    return found


def shape(*documents: Any, times: int = 40) -> Shape:
    return shape_of(json.dumps(document) for document in documents * times)


def told(before: Shape, after: Shape) -> list[tuple[str, str, str, str]]:
    return [(each.path, each.change, each.before, each.after) for each in compare(before, after)]


def test_fields_that_came_and_went() -> None:
    assert told(shape({"a": 1, "old": "x"}), shape({"a": 2, "new": "y"})) == [
        ("$.new", "added", "0%", "100%"),
        ("$.old", "removed", "100%", "0%"),
    ]


def test_what_comes_with_an_object_is_told_once() -> None:
    assert told(shape({}), shape({"lines": [{"sku": "S", "tax": {"rate": 1}}]})) == [
        ("$.lines", "added", "0%", "100%")
    ]


def test_a_field_within_a_list_is_found() -> None:
    before, after = shape({"lines": [{"n": 1}]}), shape({"lines": [{"n": 1, "gift": True}]})
    assert told(before, after) == [("$.lines[].gift", "added", "0%", "100%")]


def test_a_type_that_changed() -> None:
    assert told(shape({"amount": 1}), shape({"amount": "1.00"})) == [
        ("$.amount", "type changed", "number", "string")
    ]


def test_whole_numbers_and_others_are_one_type() -> None:
    assert told(shape({"amount": 1}), shape({"amount": 1.5})) == []


def test_a_field_that_became_null() -> None:
    assert told(shape({"coupon": "X"}), shape({"coupon": None}, {"coupon": "X"})) == [
        ("$.coupon", "nulls", "0%", "50%")
    ]


def test_a_field_that_became_rare() -> None:
    assert told(shape({"a": 1}), shape({"a": 1}, {}, {}, {})) == [
        ("$.a", "less often", "100%", "25%")
    ]


def test_chance_is_not_told() -> None:
    """Two samples of the same events, with fields of every share: hundreds of chances to be wrong."""
    chance = random.Random(5)

    def sample() -> Shape:
        documents = (
            {
                f"f{n}": 1 if chance.random() < 0.5 else None
                for n in range(100)
                if chance.random() < n / 100
            }
            for _ in range(300)
        )
        return shape_of(json.dumps(each) for each in documents)

    assert sum(len(compare(sample(), sample())) for _ in range(3)) <= 1


def test_of_few_documents_nothing_is_said() -> None:
    few = shape({"a": 1}, times=LEAST - 1)
    assert compare(few, shape({"b": 1})) == []


def test_what_is_no_json_counts_for_nothing() -> None:
    found = shape_of(["{", "[" * 100_000, '{"a": 1}'])
    assert (found.documents, found.kinds("$.a")) == (1, ["number"])


def test_keys_that_are_data_do_not_fill_the_memory() -> None:
    found = shape_of(json.dumps({f"id-{n}": n}) for n in range(2_000))
    assert len(found.paths) <= 400


def test_shapes_outlive_a_report_in_its_tables(tmp_path: Path) -> None:
    """The next report compares with them."""
    shapes = {"com.example.order": shape({"a": 1, "b,\n": None})}
    tables.write(tmp_path, {"schemas": as_table(shapes)})
    assert former(tmp_path / "schemas.csv") == shapes


def test_names_and_numbers_that_python_cannot_hold_are_counted_too(tmp_path: Path) -> None:
    """The report writes its shapes to a table, which holds UTF-8 alone."""
    odd = shape_of([rb'{"\ud83d":1e400,"n":%s}'.decode() % ("9" * 5000)] * 40)
    assert odd.documents == 40
    assert set(odd.paths) == {"$", "$.\\ud83d", "$.n"}
    assert as_table({"t": odd}).dicts()
