from __future__ import annotations

import pytest

from row_checks import SHOWN, check_every


def check(number: int) -> None:
    assert number % 2 == 0, f"{number} is odd"


def test_every_row_that_fails_is_told_with_its_place() -> None:
    """A table that ends at its first fault hides the others, and whether they have one cause."""
    with pytest.raises(pytest.fail.Exception) as failure:
        check_every([2, 3, 4, 5], check, name=lambda number: f"row {number}")

    told = str(failure.value)
    assert "2 of 4 rows" in told
    assert "row 3" in told
    assert "3 is odd" in told
    assert "row 5" in told
    assert "row 4" not in told
    assert "test_every.py:9" in told


def test_a_refusal_that_does_not_come_is_a_fault() -> None:
    """``pytest.raises`` fails by an exception that is no ``Exception``."""

    def refused(number: int) -> None:
        with pytest.raises(ValueError):
            int(number)

    with pytest.raises(pytest.fail.Exception, match="1 of 1 rows"):
        check_every([1], refused)


def test_of_many_faults_the_last_are_names_alone() -> None:
    """A rule that breaks breaks every row: its report is to be read, not scrolled."""
    with pytest.raises(pytest.fail.Exception) as failure:
        check_every(range(1, 3 * SHOWN, 2), check)

    assert str(failure.value).count("AssertionError: ") == SHOWN
    assert str(failure.value).endswith(f"\n{3 * SHOWN - 1}")


def test_a_table_without_rows_is_a_fault() -> None:
    """A folder that moved, or a filter that lets nothing through, would pass for ever."""
    with pytest.raises(AssertionError, match="no rows"):
        check_every([], check)


def test_a_table_that_holds_passes() -> None:
    check_every([2, 4], check)
