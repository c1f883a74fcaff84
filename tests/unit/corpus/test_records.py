"""The corpus of broker messages as a whole: is there enough of it, and does it show every rule?"""

from __future__ import annotations

from collections import Counter

import pytest
from msgspec.structs import replace

from corpus import cases
from corpus_records import BINDINGS, LOSSES, NEXT, is_taken, read

LEAST = {"kafka": 150, "rabbitmq": 100, "pulsar": 100}
RULES = {
    "kafka": [f"K{n}" for n in range(1, 19)],
    "rabbitmq": [f"R{n}" for n in range(1, 12)],
    "pulsar": [f"P{n}" for n in range(1, 8)],
}
OUTCOMES = {"events", "faults", "refused", "opaque"}
NEVER_BROKEN = {
    "kafka": {
        "K2",
        "K8",
        "K9",
        "K10",
        "K11",
    },  # of keys, which are the user's affair, and of old servers
    "rabbitmq": {"R5", "R7"},  # any body is data; a permission
    "pulsar": {"P4"},  # any payload is data
}
UNREACHABLE = {"kafka": set(), "rabbitmq": set(), "pulsar": set()}
VERSIONS = {"1.0", "1.0-rc1", "0.3", "0.2", "0.1-wip", "0.1"}
FOLDERS = pytest.mark.parametrize("folder", LEAST)


def shown(folder: str, *, kept: bool) -> set[str]:
    return {rule for case in cases(folder) if is_taken(case) == kept for rule in case.rules}


@FOLDERS
def test_there_are_enough_cases(folder: str) -> None:
    """The corpus is one of the things that the project promises, by number."""
    assert len(cases(folder)) >= LEAST[folder]


@FOLDERS
def test_names_are_unique(folder: str) -> None:
    """A name says which case failed."""
    assert [name for name, n in Counter(c.name for c in cases(folder)).items() if n > 1] == []


@FOLDERS
def test_every_case_has_one_outcome_of_a_known_kind(folder: str) -> None:
    """A case that expects nothing cannot fail."""
    odd = [case.name for case in cases(folder) if len(OUTCOMES & case.expect.keys()) != 1]
    assert odd == []
    assert [c.name for c in cases(folder) if not (c.rules and c.shows)] == []


@FOLDERS
def test_every_rule_of_the_binding_is_shown_kept(folder: str) -> None:
    """K1-K18, R1-R11, P1-P7: a rule without a case is a rule that nobody checks."""
    assert set(RULES[folder]) - shown(folder, kept=True) == set()


@FOLDERS
def test_every_rule_that_a_sender_can_break_is_shown_broken(folder: str) -> None:
    """As for refusals: what is not refused in any case may be taken in all."""
    assert set(RULES[folder]) - shown(folder, kept=False) == NEVER_BROKEN[folder]


@FOLDERS
def test_every_version_is_there(folder: str) -> None:
    """Every version of CloudEvents that is read (V1)."""
    events = [event for case in cases(folder) for event in case.expect.get("events", [])]
    assert {event.get("version", "1.0") for event in events} == VERSIONS


@FOLDERS
def test_losses_are_of_known_kinds(folder: str) -> None:
    """A loss that nobody knows would let anything pass."""
    for case in cases(folder):
        assert case.loses.keys() <= {*NEXT, "document", "headers"}, case
        kinds = {kind for kinds in case.loses.values() for kind in kinds}
        assert kinds <= {*LOSSES, "name-too-long", "version", "mode", "white-space"}, case


@FOLDERS
def test_every_leniency_has_a_case_in_which_it_is_off(folder: str) -> None:
    """Each leniency is a switch, and what it lets in is refused without it."""
    strict = [case for case in cases(folder) if case.switches and not is_taken(case)]
    leniencies = set(BINDINGS[folder].Leniency.__struct_fields__)
    shown_off = {name for case in strict for name in case.switches}
    assert leniencies - shown_off == UNREACHABLE[folder]


@FOLDERS
def test_what_a_switch_refuses_is_taken_without_it(folder: str) -> None:
    """A message that is refused anyway says nothing about a switch."""
    for case in cases(folder):
        if case.switches and not is_taken(case):
            read(replace(case, switches={}))
