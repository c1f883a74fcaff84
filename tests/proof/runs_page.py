"""Write the result of a run in pieces into a page: a row of each log or door, between two markers of the program."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from kafka_install import one_at_a_time
from proof.page import commit

if TYPE_CHECKING:
    from proof.checker import Judgement
    from proof.pieces import Totals

HEADINGS = (
    "log", "acknowledged", "unknown", "faults", "attempts", "repeated, as allowed", "verdict", "pieces", "seconds",
    "commit, date",
)  # fmt: skip
_ROW = re.compile(r"^\| (\w+) \|.*$", re.MULTILINE)


def write(page: Path, program: str, totals: Totals, judgement: Judgement) -> None:
    """Write the row of a log into the page.

    Args:
        page: The page, with the markers ``<!-- PROGRAM -->`` and ``<!-- end of PROGRAM -->``.
        program: The name of the program.
        totals: What the pieces have done.
        judgement: The judgement of all pieces.
    """
    write_row(page, program, HEADINGS, totals.log, cells_of(totals, judgement))


def write_row(
    page: Path, program: str, headings: Sequence[str], name: str, cells: Sequence[str]
) -> None:
    """Write a row into the table of a program. It replaces the row of its name, and all other rows stay.

    The last column, with the commit and the date, is added to ``cells``.
    """
    begin, end = f"<!-- {program} -->", f"<!-- end of {program} -->"
    with one_at_a_time("proof-page"):
        before, _, rest = page.read_text(encoding="utf-8").partition(begin)
        known, _, after = rest.partition(end)
        rows = {match[1]: match[0] for match in _ROW.finditer(known) if match[1] != headings[0]}
        now = f"{commit()}, {datetime.now(UTC):%Y-%m-%d}"
        rows[name] = f"| {' | '.join((name, *cells, now))} |"
        head = f"| {' | '.join(headings)} |\n|{'---|' * len(headings)}\n"
        lines = "".join(f"{rows[each]}\n" for each in sorted(rows))
        page.write_text(f"{before}{begin}\n\n{head}{lines}\n{end}{after}", encoding="utf-8")


def cells_of(totals: Totals, judgement: Judgement) -> Sequence[str]:
    """Return the cells of a run, without its log and its commit."""
    counts = judgement.counts
    faults = ", ".join(f"{count} {name}" for name, count in sorted(totals.faults.items())) or "0"
    repeats = ", ".join(f"{n:,} by {cause}" for cause, n in judgement.repeats.items()) or "0"
    return (
        f"{counts['acknowledged']:,}", f"{counts['unknown']:,}", faults, f"{counts['attempts']:,}", repeats,
        verdict(totals, judgement), f"{totals.pieces + totals.unfinished}", f"{totals.seconds:,.0f}",
    )  # fmt: skip


def verdict(totals: Totals, judgement: Judgement) -> str:
    """Return the verdict in words. A run whose last piece did not end is never clean."""
    found = ", ".join(f"{count:,} {name}" for name, count in judgement.faults.items())
    words = f"convicted: {found}" if found else "clean"
    if totals.unfinished:
        return f"did not end, {words}" if found else "did not end"
    return words
