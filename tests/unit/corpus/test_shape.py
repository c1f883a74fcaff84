"""The corpus of documents and requests as a whole: large enough, named well, and every rule shown."""

from __future__ import annotations

import re
from collections import Counter
from functools import cache
from pathlib import Path

import pytest

from corpus import ROOT, Case, cases

AT_LEAST = {"json": 200, "http": 200, "protobuf": 80, "avro": 60}
FOLDERS = pytest.mark.parametrize("folder", AT_LEAST)
OUTCOMES = {"events", "faults", "refused", "opaque"}
RULES = {
    "json": [f"J{number}" for number in range(1, 15)],
    "http": [f"H{number}" for number in range(1, 14)],
}
# Rules that no message can break: what we write (J5, J11, J13), what any method, mode or body is (H1,
# H2, H9).
NEVER_BROKEN = {"json": {"J5", "J11", "J13"}, "http": {"H1", "H2", "H9"}}
KNOWN = re.compile(
    r"J(?:[1-9]|1[0-4])|H(?:[1-9]|1[0-3])|V[1-7]|I[1-8]|core 1\.[1-4]|rule 8|RFC 8259(?: [0-9.]+)?"
    r"|(?:Protobuf|Avro) [2-4](?:\.[0-9])?"
)
CONFORMANCE = Path(__file__).parents[3] / "docs" / "conformance.md"


@cache
def of(folder: str) -> tuple[Case, ...]:
    return tuple(cases(folder))


def is_taken(case: Case) -> bool:
    return not {"faults", "refused"} & case.expect.keys()


def shown(folder: str, *, kept: bool) -> set[str]:
    return {rule for case in of(folder) if is_taken(case) is kept for rule in case.rules}


@FOLDERS
def test_there_are_as_many_cases_as_were_promised(folder: str) -> None:
    """Issue 4 asks for so many, valid and invalid."""
    assert len(of(folder)) >= AT_LEAST[folder]
    assert min(Counter(map(is_taken, of(folder))).values()) >= AT_LEAST[folder] // 3


@FOLDERS
def test_names_are_unique_and_in_kebab_case(folder: str) -> None:
    """Two cases of one name would hide each other in a report."""
    names = [case.name for case in of(folder)]
    assert [name for name, times in Counter(names).items() if times > 1] == []
    assert [name for name in names if not re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", name)] == []


@FOLDERS
def test_no_message_is_there_twice(folder: str) -> None:
    """The same message under two names counts once, whatever the number says."""
    messages = [repr((case.message, case.switches)) for case in of(folder)]
    assert [text for text, times in Counter(messages).items() if times > 1] == []


@FOLDERS
def test_a_case_says_one_outcome_and_why(folder: str) -> None:
    """A case without a rule or a sentence teaches nobody anything."""
    odd = [case.name for case in of(folder) if len(OUTCOMES & case.expect.keys()) != 1]
    assert odd == []
    assert [case.name for case in of(folder) if not (case.rules and case.shows)] == []


@FOLDERS
def test_every_rule_named_exists(folder: str) -> None:
    """A rule that is in no catalogue cannot be looked up."""
    table = CONFORMANCE.read_text()
    named = {rule for case in of(folder) for rule in case.rules}
    assert {
        rule for rule in named if not KNOWN.fullmatch(rule) and f"| {rule} " not in table
    } == set()


@pytest.mark.parametrize("folder", RULES)
def test_every_rule_is_shown_kept(folder: str) -> None:
    """J1-J14 and H1-H13: a rule without a case is a rule that nobody checks."""
    assert set(RULES[folder]) - shown(folder, kept=True) == set()


@pytest.mark.parametrize("folder", RULES)
def test_every_rule_that_a_message_can_break_is_shown_broken(folder: str) -> None:
    """What is refused in no case may be taken in all."""
    assert set(RULES[folder]) - shown(folder, kept=False) == NEVER_BROKEN[folder]


@pytest.mark.parametrize("folder", ["json", "http"])
def test_every_version_is_there(folder: str) -> None:
    """Every version of CloudEvents that is read (V1)."""
    events = [event for case in of(folder) for event in case.expect.get("events", [])]
    versions = {"0.1", "0.1-wip", "0.2", "0.3", "1.0-rc1", "1.0"}
    assert {event.get("version", "1.0") for event in events} == versions


def test_every_folder_of_the_corpus_is_described() -> None:
    """A folder that the README does not know has no form."""
    readme = (ROOT / "README.md").read_text()
    assert [
        path.name for path in ROOT.iterdir() if path.is_dir() and f"`{path.name}`" not in readme
    ] == []
