"""The catalogue of problems has each problem that the code answers with, and no other."""

from __future__ import annotations

import ast
import functools
import itertools
import re
from collections.abc import Iterator
from pathlib import Path
from typing import get_args

import pytest

from app.problems import ADMIN, EVENTS, PROBLEMS, SHARED, problem_type
from app.problems.admin import AdminCode
from app.problems.events import EventsCode
from app.problems.shared import SharedCode

APP = Path(__file__).parents[2] / "app"
_WITH_STATUS = {"RequestRefused", "refusal", "problem", "document", "_refusal", "SenderError"}


@functools.cache
def nodes() -> list[ast.AST]:
    """The calls and constants of all files that have a code in quotes."""
    texts = [file.read_text() for file in APP.rglob("*.py") if "problems" not in file.parts]
    a_code = re.compile(f'"(?:{"|".join(PROBLEMS)})"')
    trees = [ast.parse(text) for text in texts if a_code.search(text)]
    every = itertools.chain.from_iterable(map(ast.walk, trees))
    return [node for node in every if isinstance(node, ast.Call | ast.Constant)]


def answered() -> Iterator[tuple[int, str]]:
    """The statuses and codes that calls of the code name both."""
    for node in nodes():
        if isinstance(node, ast.Call):
            name = getattr(node.func, "attr", getattr(node.func, "id", ""))
            named = {each.arg: each.value for each in node.keywords}
            pair = [named.get("status"), named.get("code")]
            if name in _WITH_STATUS and pair == [None, None]:
                pair = list(node.args[:2])
            values = [each.value for each in pair if isinstance(each, ast.Constant)]
            if len(values) == 2 and isinstance(values[0], int) and values[1] in PROBLEMS:
                yield values[0], values[1]


@pytest.mark.parametrize(
    ("codes", "kinds"), [(EventsCode, EVENTS), (AdminCode, ADMIN), (SharedCode, SHARED)]
)
def test_each_code_is_described(codes, kinds):
    """A code that mypy accepts has its cause and its cure."""
    assert list(get_args(codes)) == list(kinds) == sorted(kinds)


def test_the_statuses_are_those_of_the_code():
    """Cure: add the status to the entry of the code in app/problems."""
    pairs = set(answered())
    assert len(pairs) > 50
    assert [pair for pair in sorted(pairs) if pair[0] not in PROBLEMS[pair[1]].statuses] == []


def test_each_problem_is_answered_somewhere():
    """An entry for a problem that cannot happen misleads its reader."""
    words = {node.value for node in nodes() if isinstance(node, ast.Constant)}
    assert [code for code in PROBLEMS if code not in words] == []


def test_the_type_of_a_problem_is_stable():
    """Programs compare it."""
    assert problem_type("invalid-event") == "urn:skybridge:problem:invalid-event"
