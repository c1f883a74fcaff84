"""Pages and messages are in plain English: some words have turned sentences into riddles before, and stay out.

A page is read in a hurry, and often by someone whose first language is another one.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pages import CHECKOUT, PAGES

BANNED = {
    "anew": "again, or a verb that says it: rebuild, restart, reconnect",
    "whoever": "the noun: the operator, the sender, the consumer",
    "whence": "from which",
    "of ours": "Skybridge's",
    "mends?": "repair, correct or fix",
    "mended": "repaired, corrected or fixed",
    "broken off": "interrupted",
    "brought up": "upgraded, or converted",
    "buried": "moved to the dead letters",
    "let in": "accepted",
    "lets us in": "accepts the credentials",
    "keeps? us out": "rejects the connection",
    "stands? where": "is",
    "comes? to be": "is created",
    "that there are": "all",
    "nobody here": "Skybridge cannot",
    "what is not read here": "formats that Skybridge cannot read",
    "says? how it fares": "shows the status",
    "past all routes": "without routes",
}
"""A pattern, and what to write instead."""

_ANY = re.compile(rf"\b(?:{'|'.join(BANNED)})\b", re.IGNORECASE)
_CODE = re.compile(r"^```.*?^```$|`[^`\n]*`", re.MULTILINE | re.DOTALL)
MODULES = sorted((CHECKOUT / "app").rglob("*.py"))


def found(text: str) -> list[str]:
    return [text[max(0, match.start() - 40) : match.end() + 20] for match in _ANY.finditer(text)]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(CHECKOUT)))
def test_a_page_has_none_of_the_banned_words(page: Path) -> None:
    """Cure: BANNED says what to write instead. Code is left alone."""
    assert found(_CODE.sub("", page.read_text())) == []


def test_a_message_has_none_of_the_banned_words() -> None:
    """Errors, helps, log lines and descriptions, as they are in the code. A single word is a name of the API."""
    faults = {
        str(module.relative_to(CHECKOUT)): hits
        for module in MODULES
        if (hits := [hit for text in _texts(module) if " " in text for hit in found(text)])
    }
    assert faults == {}


def test_the_description_of_the_api_has_none_of_the_banned_words() -> None:
    """Its texts come from docstrings, which are not looked at above."""
    document = json.loads((CHECKOUT / "openapi" / "openapi.json").read_text())
    assert [hit for text in _told(document) for hit in found(text)] == []


def test_the_words_are_found() -> None:
    """Else the tests above look for nothing."""
    assert found("It begins anew.")
    assert found("Whoever reads")
    assert not found("a renewal")


def _told(value: Any) -> Iterator[str]:
    """Summaries and descriptions, at any depth."""
    if isinstance(value, dict):
        yield from (
            value[key] for key in ("summary", "description") if isinstance(value.get(key), str)
        )
        value = list(value.values())
    if isinstance(value, list):
        for each in value:
            yield from _told(each)


def _texts(module: Path) -> Iterator[str]:
    """String constants that are no docstrings."""
    tree = ast.parse(module.read_text())
    documents = {
        id(statement.value)
        for node in ast.walk(tree)
        for statement in _statements(node)
        if isinstance(statement, ast.Expr)
    }
    for node in ast.walk(tree):
        if (
            isinstance(node, ast.Constant)
            and isinstance(node.value, str)
            and id(node) not in documents
        ):
            yield node.value


def _statements(node: ast.AST) -> list[ast.stmt]:
    body = getattr(node, "body", None)
    return body if isinstance(body, list) else []
