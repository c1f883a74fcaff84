"""The corpus as a whole: large enough, named well, and every rule and every leniency shown."""

from __future__ import annotations

import re
from collections import Counter
from functools import cache
from pathlib import Path

import pytest
from msgspec.structs import replace

from corpus import ROOT, Case, cases
from corpus_records import BINDINGS, LOSSES, NEXT, is_accepted, read

AT_LEAST = {
    "json": 200,
    "http": 200,
    "protobuf": 80,
    "avro": 60,
    "kafka": 150,
    "rabbitmq": 100,
    "pulsar": 100,
}
FOLDERS = pytest.mark.parametrize("folder", AT_LEAST)
DOCUMENTS = pytest.mark.parametrize("folder", ["json", "http", "protobuf", "avro"])
BROKERS = pytest.mark.parametrize("folder", BINDINGS)
OUTCOMES = {"events", "faults", "refused", "opaque"}
_LAST_RULE = {"json": 14, "http": 13, "kafka": 18, "rabbitmq": 11, "pulsar": 7}
RULES = {
    folder: [f"{folder[0].upper()}{number}" for number in range(1, last + 1)]
    for folder, last in _LAST_RULE.items()
}
# Rules that no message can break: what we write (J5, J11, J13), what any method, mode or body is (H1,
# H2, H9, R5, P4), keys, which are the user's affair, and old servers (K2, K8 to K11), a permission (R7).
NEVER_BROKEN = {
    "json": {"J5", "J11", "J13"},
    "http": {"H1", "H2", "H9"},
    "kafka": {"K2", "K8", "K9", "K10", "K11"},
    "rabbitmq": {"R5", "R7"},
    "pulsar": {"P4"},
}
VERSIONS = {"1.0", "1.0-rc1", "0.3", "0.2", "0.1-wip", "0.1"}
KNOWN = re.compile(
    r"V[1-7]|I[1-8]|core 1\.[1-4]|rule 8|RFC 8259(?: [0-9.]+)?|(?:Protobuf|Avro) [2-4](?:\.[0-9])?"
)
CONFORMANCE = Path(__file__).parents[3] / "docs" / "conformance.md"


@cache
def of(folder: str) -> tuple[Case, ...]:
    return tuple(cases(folder))


def shown(folder: str, *, kept: bool) -> set[str]:
    return {rule for case in of(folder) if is_accepted(case) is kept for rule in case.rules}


@FOLDERS
def test_there_are_as_many_cases_as_were_promised(folder: str) -> None:
    """The corpus is one of the things that the project promises, by number."""
    assert len(of(folder)) >= AT_LEAST[folder]


@DOCUMENTS
def test_a_third_of_the_promised_cases_is_valid_and_a_third_is_not(folder: str) -> None:
    """Cases of one kind alone show half of what a reader must do."""
    assert min(Counter(map(is_accepted, of(folder))).values()) >= AT_LEAST[folder] // 3


@FOLDERS
def test_names_are_unique_and_in_kebab_case(folder: str) -> None:
    """Two cases of one name would hide each other in a report."""
    names = [case.name for case in of(folder)]
    assert [name for name, times in Counter(names).items() if times > 1] == []
    assert [name for name in names if not re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", name)] == []


@DOCUMENTS
def test_no_message_is_there_twice(folder: str) -> None:
    """The same message under two names counts once, whatever the number says."""
    messages = [repr((case.message, case.switches)) for case in of(folder)]
    assert [text for text, times in Counter(messages).items() if times > 1] == []


@FOLDERS
def test_a_case_says_one_outcome_and_why(folder: str) -> None:
    """A case that expects nothing cannot fail; one without a rule or a sentence teaches nobody anything."""
    odd = [case.name for case in of(folder) if len(OUTCOMES & case.expect.keys()) != 1]
    assert odd == []
    assert [case.name for case in of(folder) if not (case.rules and case.shows)] == []


@FOLDERS
def test_every_rule_named_exists(folder: str) -> None:
    """A rule that is in no catalogue cannot be looked up."""
    table = CONFORMANCE.read_text()
    named = {rule for case in of(folder) for rule in case.rules}.difference(*RULES.values())
    assert {
        rule for rule in named if not KNOWN.fullmatch(rule) and f"| {rule} " not in table
    } == set()


@pytest.mark.parametrize("folder", RULES)
def test_every_rule_is_shown_kept(folder: str) -> None:
    """J1-J14, H1-H13, K1-K18, R1-R11, P1-P7: a rule without a case is a rule that nobody checks."""
    assert set(RULES[folder]) - shown(folder, kept=True) == set()


@pytest.mark.parametrize("folder", RULES)
def test_every_rule_that_a_message_can_break_is_shown_broken(folder: str) -> None:
    """What is refused in no case may be taken in all."""
    assert set(RULES[folder]) - shown(folder, kept=False) == NEVER_BROKEN[folder]


@pytest.mark.parametrize("folder", RULES)
def test_every_version_is_there(folder: str) -> None:
    """Every version of CloudEvents that is read (V1)."""
    events = [event for case in of(folder) for event in case.expect.get("events", [])]
    assert {event.get("version", "1.0") for event in events} == VERSIONS


def test_every_folder_of_the_corpus_is_described() -> None:
    """A folder that the README does not know has no form."""
    readme = (ROOT / "README.md").read_text()
    assert [
        path.name for path in ROOT.iterdir() if path.is_dir() and f"`{path.name}`" not in readme
    ] == []


@BROKERS
def test_losses_are_of_known_kinds(folder: str) -> None:
    """A loss that nobody knows would let anything pass."""
    for case in of(folder):
        assert case.loses.keys() <= {*NEXT, "document", "headers"}, case
        kinds = {kind for kinds in case.loses.values() for kind in kinds}
        assert kinds <= {*LOSSES, "name-too-long", "version", "mode", "white-space"}, case


@BROKERS
def test_every_leniency_has_a_case_in_which_it_is_off(folder: str) -> None:
    """Each leniency is a switch, and what it lets in is refused without it."""
    strict = [case for case in of(folder) if case.switches and not is_accepted(case)]
    leniencies = set(type(BINDINGS[folder].LIBERAL).__struct_fields__)
    assert leniencies == {name for case in strict for name in case.switches}


@BROKERS
def test_what_a_switch_refuses_is_taken_without_it(folder: str) -> None:
    """A message that is refused anyway says nothing about a switch."""
    for case in of(folder):
        if case.switches and not is_accepted(case):
            read(replace(case, switches={}))
