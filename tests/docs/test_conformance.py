"""docs/conformance.md: every clause that obliges is kept by code that exists and shown by a test that
exists, or says why not; and no clause is missing."""

from __future__ import annotations

import ast
import importlib
import re
import tomllib
from collections import Counter
from functools import cache
from typing import NamedTuple

import pytest

from normative_words import is_strong
from pages import CHECKOUT, PAGES

PAGE = (CHECKOUT / "docs" / "conformance.md").read_text()
COUNTED = tomllib.loads((CHECKOUT / "tests" / "docs" / "normative_words.toml").read_text())

_NAMED = re.compile(r"`([^`]+)`")
_CLAUSE = re.compile(r"(?P<document>[a-z0-9][\w@.]*) (?P<section>[\w.-]+)(?: .+)?")
_RULES = re.compile(r"(?:core \d\.\d|[HIJKPRVW]\d+)")
_CITED = re.compile(r'"((?:core \d\.\d|[HJKRPVI]\d+))"')
EXCUSES = ("the sender's duty", "does not apply: ")


class Row(NamedTuple):
    """A row of a table of clauses. ``words`` in the order of the text; the rest as its cells."""

    clause: str
    words: list[str]
    asks: str
    kept: str
    shown: str


def cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip("|").split(" | ")] if line.startswith("|") else []


def clause_rows(strong: bool) -> list[Row]:
    """Rows that oblige have five cells, rows that advise four: what we do stands in the last."""
    found = []
    for line in PAGE.splitlines():
        row = cells(line)
        words = row[1].split(", ") if len(row) == (5 if strong else 4) else []
        if words and all(word.isupper() and is_strong(word) == strong for word in words):
            found.append(Row(row[0], words, row[2], row[3], row[-1] if strong else ""))
    return found


OBLIGATIONS, ADVICE = clause_rows(strong=True), clause_rows(strong=False)
RULES = [row for line in PAGE.splitlines() if len(row := cells(line)) == 5 and _RULES.match(row[0])]


def place(clause: str) -> tuple[str, str]:
    match = _CLAUSE.fullmatch(clause)
    assert match, clause
    return match["document"], match["section"]


@cache
def defined_in(file: str) -> set[str]:
    tree = ast.parse((CHECKOUT / file).read_text())
    kinds = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
    return {node.name for node in ast.walk(tree) if isinstance(node, kinds)}


def kept_and_shown(functions: list[str], tests: list[str]) -> None:
    assert functions
    assert tests
    for name in functions:
        module, _, member = name.partition(":")
        assert hasattr(importlib.import_module(module), member), name
    for name in tests:
        file, _, test = name.partition("::")
        assert test in defined_in(f"tests/{file}"), name


def test_the_tables_are_read():
    """Else the tests below would pass on nothing."""
    assert len(OBLIGATIONS) > 100
    assert len(ADVICE) > 30
    assert len(RULES) > 60


@pytest.mark.parametrize("row", OBLIGATIONS, ids=lambda row: row.clause)
def test_what_obliges_is_kept_and_shown_or_excused(row):
    """A clause is claimed only with the code that keeps it and the test that shows it."""
    if row.kept.startswith(EXCUSES):
        assert row.shown == "-"
    else:
        kept_and_shown(_NAMED.findall(row.kept), _NAMED.findall(row.shown))


@pytest.mark.parametrize("row", ADVICE, ids=lambda row: row.clause)
def test_what_is_advised_is_shown_or_excused(row):
    """What we do about it, with a test; or why we do nothing."""
    assert "::test_" in row.kept or row.kept.lower().startswith(("the sender's duty", "does not"))


@pytest.mark.parametrize("row", RULES, ids=lambda row: row[0])
def test_the_function_and_the_test_of_a_rule_exist(row):
    """As above, for the short names that code and answers cite."""
    kept_and_shown(_NAMED.findall(row[3]), _NAMED.findall(row[4]))
    for clause in row[1].split(", "):
        assert clause == "webhook" or place(clause)[0] in COUNTED


@pytest.mark.parametrize("document", COUNTED)
@pytest.mark.parametrize("strong", [True, False], ids=["must", "should"])
def test_no_clause_is_missing(document, strong):
    """Section by section there are as many words in the tables as in the document."""
    counted: Counter[str] = Counter()
    for row in OBLIGATIONS if strong else ADVICE:
        if place(row.clause)[0] == document:
            counted[place(row.clause)[1]] += len(row.words)
    kind = "must" if strong else "should"
    sections = COUNTED[document]
    assert +counted == +Counter({name: words[kind] for name, words in sections.items()})


def test_every_clause_has_a_name_of_its_own():
    """So that it can be cited."""
    for rows in (OBLIGATIONS, ADVICE):
        assert [n for n, count in Counter(row.clause for row in rows).items() if count > 1] == []


def test_the_summary_counts_the_tables():
    """The numbers at the top are those of the page below."""
    expected = []
    for document in COUNTED:
        mine = [row for row in OBLIGATIONS if place(row.clause)[0] == document]
        words = [sum(len(row.words) for row in part) for part in split(mine)]
        advice = sum(len(row.words) for row in ADVICE if place(row.clause)[0] == document)
        expected.append([document, str(sum(words)), *map(str, words), str(advice)])
    expected.append(
        ["all", *(str(sum(map(int, column))) for column in list(zip(*expected, strict=True))[1:])]
    )
    written = [[row[0], *row[2:]] for line in PAGE.splitlines() if len(row := cells(line)) == 7]

    assert written[1:] == expected  # behind the heading


def split(rows: list[Row]) -> tuple[list[Row], list[Row], list[Row]]:
    """Kept by us; the sender's; of no concern."""
    kept = [row for row in rows if not row.kept.startswith(EXCUSES)]
    senders, others = ([row for row in rows if row.kept.startswith(excuse)] for excuse in EXCUSES)
    return kept, senders, others


def test_every_rule_that_a_clause_belongs_to_is_in_the_table():
    """A clause that is kept is kept by a rule of ours, where it names one."""
    known = {name for row in RULES for name in _RULES.findall(row[0])}
    kept, _, _ = split(OBLIGATIONS)
    named = {name for row in kept for name in re.findall(r" ([HIJKPR]\d+)\b", row.clause)}

    assert named
    assert named - known == set()


def test_every_rule_that_code_cites_is_in_the_table():
    """An answer names the rule that was broken; here is where it is explained."""
    known = {name for row in RULES for name in _RULES.findall(row[0])}
    cited = {
        rule
        for file in (CHECKOUT / "app").rglob("*.py")
        for rule in _CITED.findall(file.read_text())
    }

    assert cited
    assert cited - known == set()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(CHECKOUT)))
def test_every_test_that_a_page_names_exists(page):
    """A promise is made with the test that shows it, or not at all."""
    for file, test in re.findall(r"`([\w/]+\.py)::(\w+)`", page.read_text()):
        assert test in defined_in(f"tests/{file}"), f"{file}::{test}"
    for file in re.findall(
        r"`((?:contract|e2e|faults|properties|unit)/[\w/]+\.py)`", page.read_text()
    ):
        assert (CHECKOUT / "tests" / file).exists(), file
