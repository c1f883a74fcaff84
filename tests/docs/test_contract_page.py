"""docs/contract.md is what ``make contract`` writes, for today's suite and today's logs."""

from __future__ import annotations

import re

import pytest

import contract_table as table
from pages import CHECKOUT

WRITTEN = (CHECKOUT / "docs" / "contract.md").read_text()
ROWS = {
    cells[0]: cells[1:]
    for line in WRITTEN.splitlines()
    if line.startswith("| ") and (cells := [cell.strip() for cell in line.strip("| ").split(" | ")])
}


@pytest.mark.parametrize("title", table.PARTS)
def test_every_case_of_the_suite_has_its_row_and_every_log_its_cell(title: str) -> None:
    """A page from before the last case was written tells a reader less than we know."""
    for case in table.cases(table.PARTS[title]):
        assert len(ROWS[table.in_words(case)]) == len(table.COLUMNS), case


def test_the_page_has_no_case_that_is_gone() -> None:
    """Nor one that failed, or was not run: such a page is not written."""
    cases = [case for part in table.PARTS.values() for case in table.cases(part)]
    verdicts = {
        log: {case: ROWS[table.in_words(case)][column] for case in cases}
        for column, log in enumerate(table.COLUMNS)
    }
    assert table.page(verdicts) == WRITTEN
    found = {verdict for of_log in verdicts.values() for verdict in of_log.values()}
    assert all(re.fullmatch(r"held( but for .+)?|without .+", verdict) for verdict in found)


def test_what_a_cell_says_is_lacking_is_declared_as_lacking() -> None:
    """And nothing that a log declares as there is missing from any case."""
    for column, log in enumerate(table.COLUMNS):
        for part in table.PARTS.values():
            for case in table.cases(part):
                verdict = ROWS[table.in_words(case)][column]
                for name in re.sub(r"^(held but for|held|without)\s*", "", verdict).split(", "):
                    if name and name != table.SERVER:
                        assert getattr(table.CAPABILITIES[log], name) is False, (log, case)
                    elif name:
                        assert log == "embedded"
