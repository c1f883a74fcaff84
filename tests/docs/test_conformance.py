"""docs/conformance.md names functions and tests that exist."""

from __future__ import annotations

import ast
import importlib
import re
from functools import cache

import pytest

from pages import CHECKOUT, PAGES

_ROW = re.compile(r"^\| (?P<rule>[^|]+) \| [^|]+ \| (?P<functions>[^|]*) \| (?P<tests>[^|]*) \|$")
_NAMED = re.compile(r"`([^`]+)`")
PAGE = (CHECKOUT / "docs" / "conformance.md").read_text()
ROWS = [
    match for line in PAGE.splitlines() if (match := _ROW.match(line)) and "`" in match["functions"]
]


@cache
def defined_in(file: str) -> set[str]:
    tree = ast.parse((CHECKOUT / file).read_text())
    kinds = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
    return {node.name for node in ast.walk(tree) if isinstance(node, kinds)}


def test_the_table_is_read():
    """Else the tests below would pass on nothing."""
    assert len(ROWS) > 30


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row["rule"])
def test_the_function_and_the_test_of_a_rule_exist(row):
    """A rule is claimed only with the code that keeps it and the test that shows it."""
    functions, tests = _NAMED.findall(row["functions"]), _NAMED.findall(row["tests"])
    assert functions
    assert tests
    for name in functions:
        module, _, member = name.partition(":")
        assert hasattr(importlib.import_module(module), member), name
    for name in tests:
        file, _, test = name.partition("::")
        assert test in defined_in(f"tests/{file}"), name


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(CHECKOUT)))
def test_every_test_that_a_page_names_exists(page):
    """A promise is made with the test that shows it, or not at all."""
    for file, test in re.findall(r"`([\w/]+\.py)::(\w+)`", page.read_text()):
        assert test in defined_in(f"tests/{file}"), f"{file}::{test}"
