"""Filters as conditions of Spark give the answers of ``app.filters``: event for event, expression for expression."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from app.event.value import CloudEvent
from app.filters.model import Filter
from app.pipeline.predicate import condition, reasons
from cesql_table import event_of
from predicate_events import answers, cases, events, expressions, frame

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.nightly

CHUNK = 100  # expressions of one job

DIALECTS = [
    {"exact": {"type": "com.example.order.created"}},
    {"exact": {"subject": "blue", "id": "A1"}},
    {"exact": {"number": "5"}},
    {"exact": {"time": "2024-02-29T12:00:00.10Z"}},
    {"prefix": {"type": "com.example."}},
    {"prefix": {"myext": "my"}},
    {"suffix": {"type": ".created", "source": "shop"}},
    {"not": {"exact": {"missing": "x"}}},
    {"not": {"prefix": {"subject": "b"}}},
    {"not": {"sql": "missing = 'x'"}},
    {"not": {"not": {"sql": "number > 3"}}},
    {"all": [{"exact": {"id": "A1"}}, {"not": {"sql": "flag"}}]},
    {"any": [{"sql": "missing"}, {"suffix": {"myext": "value"}}, {"sql": "number < 0"}]},
    {"any": [{"not": {"any": [{"exact": {"nope": "x"}}, {"sql": "flag"}]}}]},
]


@pytest.fixture(scope="module")
def asked(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> _Asked:
    found = events(60, seed=8)
    return _Asked(found, frame(spark, found, tmp_path_factory.mktemp("events")).cache())


class _Asked:
    """Events, and the same as rows."""

    def __init__(self, found: Sequence[CloudEvent], rows: DataFrame) -> None:
        self.events = found
        self._rows = rows

    def differing(self, filters: Sequence[Filter]) -> list[str]:
        """Each filter that Spark says otherwise of, with the events. Many filters are one job."""
        expected, rest = answers(self.events, filters), iter(range(len(filters)))
        wrong: list[str] = []
        while chunk := list(islice(rest, CHUNK)):
            seen = self._passing([filters[n] for n in chunk])
            for place, n in enumerate(chunk):
                wrong += [
                    f"{filters[n]!r} of {event.attributes} {dict(event.types)}: Spark says {not due}"
                    for event, row, due in zip(self.events, seen, expected[n], strict=True)
                    if row[place] is not due
                ]
        return wrong

    def _passing(self, filters: Sequence[Filter]) -> list[list[bool]]:
        from pyspark.sql import functions as F  # noqa: N812

        columns = [F.coalesce(condition([one]).required(), F.lit(False)) for one in filters]
        return [row[0] for row in self._rows.select(F.array(*columns)).collect()]


def _compiled(texts: Sequence[str]) -> list[Filter]:
    filters = [Filter(sql=text) for text in texts]
    return [one for one in filters if not list(reasons([one]))]


def test_every_expression_that_compiles_has_the_answer_of_the_filters(asked: _Asked) -> None:
    """The table of CloudEvents SQL and expressions made by chance, each on every event: a replay that
    chooses otherwise than a subscription replays the wrong events (issue 8 point 3).
    """
    texts = expressions(100, seed=8)
    filters = _compiled(texts)
    assert len(filters) > 0.95 * len([text for text in texts if "DATA(" not in text.upper()])
    assert asked.differing(filters) == []


@pytest.mark.nightly
def test_expressions_made_by_chance_have_the_answers_of_the_filters(asked: _Asked) -> None:
    filters = _compiled(expressions(6000, seed=88))
    assert len(filters) > 6000
    assert asked.differing(filters) == []


def test_all_dialects_have_the_answers_of_the_filters(asked: _Asked) -> None:
    """Subscriptions API: what an event lacks does not match, and so the ``not`` of it does."""
    assert asked.differing([Filter.model_validate(one) for one in DIALECTS]) == []


def test_every_expression_of_the_table_compiles_but_those_that_look_into_data() -> None:
    """Decimals are in those alone (ADR 0027): they have one meaning, that of the filters."""
    texts = [case.expression for case in cases()]
    refused = [text for text in texts if list(reasons([Filter(sql=text)]))]
    assert refused == [text for text in texts if "DATA(" in text.upper()]


def test_letters_have_their_other_case_as_in_the_filters(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Every letter that has another case anywhere, of every plane, and sigma where it ends a word: Spark knows
    a newer Unicode than Python (CESQL 3.5.2).
    """
    odd = [
        "\u0391\u03a3",
        "\u0391\u03a3.",
        "\u0391\u03a3\u0391",
        "\u03a3",
        "a\u03a3 b",
        "\u0391\u03a3\u0301",
        "\u0391\u03a3:a",
        "1\u03a3",
        "a\u0345\u03a3",
        "a.\u03a3",
        "\u0391\u03a31",
        "\u0130I",
    ]
    planes = [*range(0x20, 0x3000), *range(0xA640, 0xAC00), *range(0xF900, 0xFDD0)]
    planes += [*range(0xFDF0, 0xFFFE), *range(0x10000, 0x1F000)]
    texts = odd + ["x".join(map(chr, planes[n : n + 200])) for n in range(0, len(planes), 200)]
    found = [
        event_of({"text": text, "lowered": text.lower(), "uppered": text.upper()}) for text in texts
    ]
    filters = [Filter(sql="LOWER(text) = lowered"), Filter(sql="UPPER(text) = uppered")]
    assert answers(found, filters) == [[True] * len(found)] * 2
    assert _Asked(found, frame(spark, found, tmp_path)).differing(filters) == []
