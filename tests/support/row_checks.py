"""Check all rows of a table in one test, and report all rows that fail.

A parametrised test costs about 6 ms a row in each process: half to collect it, half to run it. A
table of hundreds of rows is therefore one test.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterable
from typing import TypeVar

import pytest

Row = TypeVar("Row")
SHOWN = 20  # failures shown in full; further ones by name only


def check_every(
    rows: Iterable[Row], check: Callable[[Row], object], name: Callable[[Row], str] = str
) -> None:
    """Run ``check`` on every row. Fail with the names and errors of the rows for which ``check``
    raises.

    A table without rows fails too. ``name`` returns the name of a row.
    """
    count, faults = 0, []
    for row in rows:
        count += 1
        try:
            check(row)
        except (Exception, pytest.fail.Exception) as fault:  # noqa: BLE001 - every error is reported
            faults.append((name(row), _failure_text(fault)))
    assert count, "the table has no rows"
    if faults:
        full = [f"{row}\n{error}" for row, error in faults[:SHOWN]]
        names = [row for row, _ in faults[SHOWN:]]
        pytest.fail("\n".join([f"{len(faults)} of {count} rows:", *full, *names]), pytrace=False)


def _failure_text(fault: BaseException) -> str:
    """Return the line of code that failed and its error, as indented text."""
    where = traceback.extract_tb(fault.__traceback__)[-1]
    error = "".join(traceback.format_exception_only(fault)).rstrip()
    return f"  {where.filename}:{where.lineno}: {where.line}\n  " + error.replace("\n", "\n  ")
