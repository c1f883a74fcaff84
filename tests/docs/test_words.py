"""Pages, docstrings, comments and messages are in plain English.

Some words have turned sentences into riddles before: pages and messages have none of them. The words that
``words_count`` knows are counted by folder; a count may fall and never rise.

A page is read in a hurry, and often by someone whose first language is another one.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pages import CHECKOUT, PAGES
from words_count import ceilings, counts, in_module, modules, parse
from words_pages import in_page

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


def found(text: str) -> list[str]:
    return [text[max(0, match.start() - 40) : match.end() + 20] for match in _ANY.finditer(text)]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(CHECKOUT)))
def test_a_page_has_none_of_the_banned_words(page: Path) -> None:
    """Cure: BANNED says what to write instead. Code is left alone."""
    assert found(_CODE.sub("", page.read_text())) == []


def test_a_message_has_none_of_the_banned_words() -> None:
    """Errors, helps, log lines and descriptions, as they are in the code. A single word is a name of the API."""
    faults = {
        f"{module.path}:{line}": hits
        for module in modules()
        if module.path.startswith("app/")
        for form, line, text in module.texts
        if form == "message" and (hits := found(text))
    }
    assert faults == {}


def test_the_description_of_the_api_has_none_of_the_banned_words() -> None:
    """Its texts come from docstrings, which are not looked at above."""
    document = json.loads((CHECKOUT / "openapi" / "openapi.json").read_text())
    assert [hit for text in _descriptions(document) for hit in found(text)] == []


def test_the_words_are_found() -> None:
    """Else the tests above look for nothing."""
    assert found("It begins anew.")
    assert found("Whoever reads")
    assert not found("a renewal")


def test_no_count_of_a_folder_is_above_its_ceiling() -> None:
    """Docstrings, comments, messages and pages. Cure: rewrite what ``make words ARGS=FOLDER`` lists, or lower the ceiling."""
    allowed = ceilings()
    risen = {
        (folder, kind): f"{count} > {allowed.get(folder, {}).get(kind, 0)}"
        for folder, row in counts().items()
        for kind, count in row.items()
        if count > allowed.get(folder, {}).get(kind, 0)
    }
    assert risen == {}


@pytest.mark.parametrize(
    ("source", "kinds"),
    [
        ('"""Return the age of a key, in seconds."""', []),
        ('"""Of one key."""', ["fragment"]),
        ('"""``age``: in seconds."""\nage = 1', ["fragment"]),
        ('"""Return what the broker told."""', ["told"]),
        ("# nobody asks", ["nobody"]),
        ("pause()  # whoever asks", ["nobody"]),
        ('raise Fault("nobody asks")', ["nobody"]),
        ('"""Commit behind the record."""', ["dialect"]),
        ('"""Commit the offset (rule 2)."""', ["code"]),
        ('"""Refuse an attribute (K7)."""', ["code"]),
        ('"""Store a file in S3."""', []),
        (f'"""Return {"a " * 25}"""', ["long"]),
        (f'"""Return {"a " * 24}"""', []),
        ('"""Return ``age`` of the key."""\nage = 1', []),
        ('"""Return ``age`` of the key."""', ["stale"]),
        ('"""Return an ``app.event.Evening``."""\nEvening = 1', ["stale"]),
    ],
)
def test_an_offence_is_found(source: str, kinds: list[str]) -> None:
    """A pattern that finds nothing holds nothing."""
    module = parse("app/some/module.py", source)
    assert [each.kind for each in in_module(module, module.names)] == kinds


@pytest.mark.parametrize(
    ("text", "kinds"),
    [
        ("# A page\n\nThe worker commits.", []),
        ("The broker told the worker.", ["told"]),
        ("nobody reads", ["nobody"]),
        ("| a cell | whoever asks |", ["nobody"]),
        ("Commit behind the record.", ["dialect"]),
        ("The attribute breaks K7.", ["code"]),
        ("Skybridge stores `what it told` in [S3](behind.md).", []),
        ("```bash\nsay nobody told\n```", []),
        ("<!-- part -->\nnobody\n<!-- end of part -->", []),
        ("a " * 26 + ".", ["long"]),
        ("a " * 25 + ".", []),
        ("a " * 20 + "(b.) " + "a " * 20, []),
        ("- " + "a " * 20 + "\n- " + "a " * 20, []),
        ("`" + "a " * 26 + "`", []),
        ("| " + "a " * 26 + "|", []),
    ],
)
def test_an_offence_of_a_page_is_found(text: str, kinds: list[str]) -> None:
    """Code, addresses and regions that a command writes do not count."""
    assert [each.kind for each in in_page("docs/page.md", text)] == kinds


def test_the_page_of_clauses_may_name_clauses() -> None:
    """It defines their codes."""
    assert not list(in_page("docs/conformance.md", "K7"))


def _descriptions(value: Any) -> Iterator[str]:
    """Summaries and descriptions, at any depth."""
    if isinstance(value, dict):
        yield from (
            value[key] for key in ("summary", "description") if isinstance(value.get(key), str)
        )
        value = list(value.values())
    if isinstance(value, list):
        for each in value:
            yield from _descriptions(each)
