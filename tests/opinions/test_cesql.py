"""CloudEvents SQL of the official Java SDK, on the project's table and on expressions made by chance."""

from __future__ import annotations

import pytest

from cesql_making import random_cases
from cesql_opinion import Comparison, classes_of, compare_all, listed
from cesql_variants import VARIANTS

KNOWN = listed()
SEED, COUNT = 4001, 20_000


def undecided(found: list[Comparison]) -> list[str]:
    return [str(each) for each in found if not each.agrees and not classes_of(each, KNOWN)]


@pytest.mark.nightly
def test_every_disagreement_on_the_table_is_decided(sql_on_the_table: list[Comparison]) -> None:
    """Two engines that differ drop or pass different events: somebody must have read the clause."""
    assert len(sql_on_the_table) > 700
    assert undecided(sql_on_the_table) == []


@pytest.mark.nightly
def test_every_class_still_shows_on_the_table(sql_on_the_table: list[Comparison]) -> None:
    """A list of what was mended long ago misleads those who read it."""
    differing = [each for each in sql_on_the_table if not each.agrees]
    shown = {one.about for each in differing for one in classes_of(each, KNOWN)}
    named = {case for one in KNOWN for case in one.cases}
    assert {one.about for one in KNOWN} - shown == set()
    assert named - {str(each.case) for each in differing} == set()


@pytest.mark.nightly
@pytest.mark.usefixtures("cesql_driver")
def test_expressions_made_by_chance_mean_the_same_or_differ_as_listed() -> None:
    """The table has what we thought of; this has what we did not."""
    found = list(compare_all(random_cases(COUNT, SEED)))
    assert undecided(found) == []
    agreeing = [each for each in found if each.agrees]
    assert len(agreeing) > COUNT * 0.9
    assert sum(not each.ours.errors for each in agreeing) > COUNT * 0.4
    assert sum(bool(each.ours.errors) for each in agreeing) > COUNT * 0.2


def test_each_class_says_what_decides() -> None:
    """Either a way of reading that gives their answer exactly, or cases by name; and a clause."""
    assert len({one.about for one in KNOWN}) == len(KNOWN)
    assert {one.variant for one in KNOWN if one.variant} == set(VARIANTS)
    for one in KNOWN:
        assert one.clause
        assert bool(one.variant) != bool(one.cases)
