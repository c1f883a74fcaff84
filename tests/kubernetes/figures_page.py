"""Write the rows of the scenarios into a page, between two markers. Rows of other scenarios stay."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

import table
from traffic import Row
from versions import KUBERNETES

from checkout import git

PART = "scenarios in Kubernetes"
_HEADINGS = (
    "topology", "what happened", "accepted", "lost", "repeated", "out of order", "refused",
    "longest gap", "commit, date",
)  # fmt: skip
_CLUSTER = (
    f"Kubernetes {KUBERNETES}, containerd 1.6, runc 1.1; network policies are enforced, and namespaces demand "
    "the standard `restricted`. Two nodes are on this machine, with Kafka 4.3 and PostgreSQL beside them."
)
_LOAD = (
    "16 senders post 60 events a second in `single` and with spools, 80 in `split`, one at a time for each key. "
    "A sender repeats an event until it gets 202. *Refused* counts attempts without 202, broken connections too. "
    "*Longest gap* is the longest time without an accepted event."
)
_LINE = re.compile(r"^\| (single|split)[^|]* \|.*\|$", re.MULTILINE)


class _Cells:
    """A row of the table, as it is in the page."""

    def __init__(self, cells: Sequence[str]) -> None:
        self._cells = list(cells)

    def cells(self) -> list[str]:
        return self._cells

    @property
    def key(self) -> tuple[str, str]:
        """Return what a new row of the same scenario has in common with it."""
        return self._cells[0], self._cells[1].partition(" (")[0]


def line(row: Row) -> str:
    """Return a row for the console."""
    return (
        f"{row.topology}: {row.scenario}: accepted {row.accepted}, lost {row.lost}, repeated {row.repeated}, "
        f"out of order {row.order}, refused {row.refused}, longest gap {row.longest_gap:.1f} s"
    )


def write(page: Path, rows: Sequence[Row], commit: str = "") -> None:
    """Write rows into a page, in place of earlier rows of the same scenarios.

    ``commit`` is that of the image. Empty: of the checkout.
    """
    text = page.read_text(encoding="utf-8")
    known = {each.key: each for each in _known(text)}
    for row in rows:
        cells = _cells(row, commit)
        known[cells.key] = cells
    ordered = sorted(known.values(), key=lambda each: each.key[0])
    remarks = "\n".join(f"- {remark}" for remark in _remarks())
    part = f"{table.table(ordered, _HEADINGS)}\n\n{remarks}\n"
    page.write_text(table.with_part(text, PART, part), encoding="utf-8")


def _known(text: str) -> list[_Cells]:
    own = text.partition(f"<!-- {PART} -->")[2].partition(f"<!-- end of {PART} -->")[0]
    lines = (match[0] for match in _LINE.finditer(own))
    return [_Cells([cell.strip() for cell in each.strip("|").split("|")]) for each in lines]


def _cells(row: Row, commit: str) -> _Cells:
    """Return the cells of a row. Raises ValueError if the scenario would be mistaken for another one."""
    if " (" in row.scenario:
        raise ValueError(f"{row.scenario}: what is in parentheses belongs to the note")
    what = f"{row.scenario} ({row.note})" if row.note else row.scenario
    commit = commit or git("rev-parse", "--short", "HEAD").strip()
    made = f"{commit}, {datetime.now(UTC):%Y-%m-%d}"
    counts = (row.accepted, row.lost, row.repeated, row.order, row.refused)
    return _Cells(
        [row.topology, what, *(f"{each:,}" for each in counts), f"{row.longest_gap:.1f} s", made]
    )


def _remarks() -> list[str]:
    measured, machine = table.machine()
    return [
        measured.replace("Measured", "The newest row was measured on"),
        machine,
        _CLUSTER,
        _LOAD,
    ]
