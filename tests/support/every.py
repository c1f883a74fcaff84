"""One test over a table: every row is checked, and all that fail are told together.

A parametrised test costs three milliseconds a row in each process that runs it, and most of them again for the
collection: a table of hundreds of rows is one test.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterable
from typing import TypeVar

import pytest

Row = TypeVar("Row")
SHOWN = 20  # faults told in full; of the others the names


def of_every(
    rows: Iterable[Row], check: Callable[[Row], object], name: Callable[[Row], str] = str
) -> None:
    """Fails with each row for which ``check`` raises, by its ``name``, and where there is no row."""
    count, faults = 0, []
    for row in rows:
        count += 1
        try:
            check(row)
        except (Exception, pytest.fail.Exception) as fault:  # noqa: BLE001 - whatever it is, it is told
            faults.append((name(row), _told(fault)))
    assert count, "the table has no rows"
    if faults:
        full = [f"{row}\n{said}" for row, said in faults[:SHOWN]]
        names = [row for row, _ in faults[SHOWN:]]
        pytest.fail("\n".join([f"{len(faults)} of {count} rows:", *full, *names]), pytrace=False)


def _told(fault: BaseException) -> str:
    """The place of the check that failed, and what it said."""
    where = traceback.extract_tb(fault.__traceback__)[-1]
    said = "".join(traceback.format_exception_only(fault)).rstrip()
    return f"  {where.filename}:{where.lineno}: {where.line}\n  " + said.replace("\n", "\n  ")
