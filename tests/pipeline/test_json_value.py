"""What the decoder takes for one JSON value is one to ``app.bindings`` too, whatever the text: never a false yes,
and no doubt about what producers write (issue 8, "Equality"; ADR 0021)."""

from __future__ import annotations

import json
import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from random import Random, getrandbits
from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa
import pyarrow.parquet
import pytest

from app.errors import InvalidEvent
from app.formats.json_members import read_members
from app.pipeline.decode.json_value import is_one_value
from json_making import MARK, deep, nearly, spaced, value

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.nightly

BOUNDS = (900, 400)  # the decoder's own, and the one of reroute
KINDS = 3
_STRINGS = re.compile(r'"(?:[^"\\]|\\.)*"')
_BRACKETS = re.compile(r"[\[\]{}]")


class Asked(NamedTuple):
    """What Spark says of each text, by the bound it was told."""

    seed: int
    texts: list[str]
    answers: dict[int, list[bool]]


def made(seed: int, count: int) -> list[str]:
    """A third is valid, a third nearly, a few are deep."""
    chance = Random(seed)
    texts = [spaced(chance, value(chance)) for _ in range(count // KINDS)]
    texts += [spaced(chance, nearly(chance)) for _ in range(count - len(texts))]
    texts += [f'"{"[{" * (bound // 2 + 9)}"' for bound in BOUNDS]  # many, and within nothing
    return texts + [
        deep(chance, bound + more) + end
        for bound in BOUNDS
        for more in (-100, -2, -1, 0, 1, 60)
        for end in ("", " ", "]")
    ]


def asked(spark: SparkSession, folder: Path, count: int) -> Asked:
    seed = getrandbits(32)
    texts = made(seed, count)
    path = folder / "texts.parquet"
    pyarrow.parquet.write_table(pa.table({"n": range(len(texts)), "text": texts}), path)
    verdicts = [f"{is_one_value('text', bound)} AS at_{bound}" for bound in BOUNDS]
    rows = sorted(spark.read.parquet(str(path)).selectExpr("n", *verdicts).collect())
    return Asked(seed, texts, {b: [row[f"at_{b}"] for row in rows] for b in BOUNDS})


def is_value(text: str) -> bool:
    """To ``app.bindings``, which read data as it stands in a document, and to Python's own reader."""
    try:
        members = read_members(b'{"data":' + text.encode() + b"}")
    except InvalidEvent:
        return False
    if list(members) != ["data"]:
        return False
    json.loads(text, parse_int=str, parse_float=str, parse_constant=_no_constant)
    return True


def _no_constant(name: str) -> None:
    raise AssertionError(f"{name} is no JSON")


def may_be_doubted(text: str, bound: int) -> bool:
    """By design: what holds the decoder's own mark or spells it, and what may be too deep."""
    brackets = text.count("[") + text.count("{")
    spelt = not text.startswith("{") and r"\u0037" in text
    return MARK in text or spelt or (brackets >= bound and len(text.encode()) >= 2 * bound)


def verify(found: Asked) -> None:
    with ThreadPoolExecutor(1) as fresh:  # pytest's own stack is no part of how deep a reader gets
        values = list(fresh.map(is_value, found.texts))
    assert len(found.texts) / 5 < sum(values) < len(found.texts) * 4 / 5, "one kind only"
    for bound, answers in found.answers.items():
        told = list(zip(found.texts, values, answers, strict=True))
        false_yes = [text for text, valid, answer in told if answer and not valid]
        assert not false_yes, (found.seed, false_yes[:5])
        doubted = [
            text
            for text, valid, answer in told
            if valid and not answer and not may_be_doubted(text, bound)
        ]
        assert not doubted, (found.seed, [text[:200] for text in doubted[:5]])
        too_deep = [text for text, _, answer in told if answer and _depth(text) >= bound]
        assert not too_deep, found.seed


def _depth(text: str) -> int:
    """Arrays and objects within each other, of a text that is JSON."""
    deepest = level = 0
    for bracket in _BRACKETS.findall(_STRINGS.sub("", text)):
        level += 1 if bracket in "[{" else -1
        deepest = max(deepest, level)
    return deepest


def test_what_is_taken_for_one_value_is_one_and_plain_ones_are_not_in_doubt(
    spark: SparkSession, tmp_path: Path
) -> None:
    verify(asked(spark, tmp_path, 4_000))


@pytest.mark.nightly
@pytest.mark.timeout(1200)
def test_so_it_is_for_very_many_texts(spark: SparkSession, tmp_path: Path) -> None:
    for _ in range(10):
        verify(asked(spark, tmp_path, 100_000))
