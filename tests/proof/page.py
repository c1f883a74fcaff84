"""Write the results of trials into a page, a row of each scenario, between two markers."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from checkout import git
from kafka_install import one_at_a_time
from proof.scenario import Scenario
from proof.scenarios import SCENARIOS

if TYPE_CHECKING:
    from proof.result import Result

BEGIN, END = "<!-- scenarios -->", "<!-- end of scenarios -->"
HEADINGS = (
    "scenario", "attack", "seeds", "acknowledged", "unanswered", "attempts", "repeated, as allowed", "verdict",
    "longest gap", "seconds, calm", "commit, date, load",
)  # fmt: skip
_NONE = "-"  # in a cell of a row without this figure
_ROW = re.compile(r"^\| `([\w-]+)` \|.*$", re.MULTILINE)


def verdict(result: Result) -> str:
    """Return the verdict of a trial in words."""
    if not result.counts:
        return "; ".join(result.remarks) or "no verdict"
    found = ", ".join(f"{count:,} {name}" for name, count in result.verdicts.items())
    if result.remarks and not result.scenario.convicts:
        words = ["not as it must be", *result.remarks, f"convicted: {found}" if found else ""]
    elif found:
        words = [f"convicted: {found}"]
    else:
        words = ["clean" if result.counts.get("acknowledged") else "nothing was acknowledged"]
    return "; ".join(filter(None, [*words, *result.notes]))


def write(page: Path, result: Result, version: str) -> None:
    """Write a result into the page. It replaces the row of its scenario; all other rows stay.

    Args:
        page: The page, with both markers.
        result: The result of a trial. If it did not come to its end, its row has no counts.
        version: The cluster, in words.
    """
    with one_at_a_time("proof-page"):
        _write(page, result, version)


def _write(page: Path, result: Result, version: str) -> None:
    text = page.read_text(encoding="utf-8")
    before, _, rest = text.partition(BEGIN)
    known, _, after = rest.partition(END)
    rows = {match[1]: match[0] for match in _ROW.finditer(known)}
    seeds = _seeds_before(rows.get(result.scenario.name, ""), result)
    rows[result.scenario.name] = row(result, seeds, commit())
    remarks = _remarks(known)
    remarks[result.scenario.cluster] = f"- {result.scenario.cluster}: {version}."
    page.write_text(f"{before}{BEGIN}\n\n{table(rows, remarks)}\n{END}{after}", encoding="utf-8")


def table(rows: Mapping[str, str], remarks: Mapping[str, str]) -> str:
    """Return the table with its rows in the order of the scenarios, and the clusters below it."""
    head = f"| {' | '.join(HEADINGS)} |\n|{'---|' * len(HEADINGS)}\n"
    order = [each.name for each in SCENARIOS if each.name in rows]
    missing = ", ".join(f"`{each.name}`" for each in SCENARIOS if each.name not in rows)
    without = f"Not run yet: {missing}.\n\n" if missing else ""
    below = "\n".join(remarks[name] for name in sorted(remarks))
    return head + "".join(f"{rows[name]}\n" for name in order) + f"\n{without}{below}\n"


def row(result: Result, seeds: str, commit: str) -> str:
    """Return the row of a scenario. Seeds that the same commit has passed before are named together."""
    counts = result.counts
    repeats = ", ".join(f"{count} by {cause}" for cause, count in result.repeats.items()) or "0"
    day = datetime.now(UTC).strftime("%Y-%m-%d")
    cells = (
        f"`{result.scenario.name}`",
        attack(result.scenario),
        seeds,
        *([f"{counts['acknowledged']:,}", f"{result.unanswered:,}", f"{counts['attempts']:,}", repeats]
          if counts else [_NONE] * 4),
        in_cell(verdict(result)),
        f"{result.gap:.0f} s" if counts else _NONE,
        f"{result.seconds:.0f}, {result.calm:.0f}" if counts else _NONE,
        f"{commit}, {day}, {os.getloadavg()[0]:.0f}",
    )  # fmt: skip
    return f"| {' | '.join(cells)} |"


def in_cell(text: str) -> str:
    """Return the first line of a text, short enough for a cell of a table."""
    return text.partition("\n")[0].replace("|", "/")[:300]


def attack(scenario: Scenario) -> str:
    """Return the attack in a cell; a control is named as one, with what its configuration gives up."""
    return f"{scenario.attack} {scenario.claim}" if scenario.convicts else scenario.attack


def _seeds_before(known: str, result: Result) -> str:
    """Return the seeds of this row: those of the same commit and verdict, and the new one."""
    cells = [each.strip() for each in known.strip("|").split("|")]
    same = len(cells) == len(HEADINGS) and cells[10].startswith(f"{commit()},")
    before = cells[2].split(", ") if same and cells[7] == in_cell(verdict(result)) else []
    return ", ".join(dict.fromkeys([*before, str(result.seed)]))


def _remarks(known: str) -> dict[str, str]:
    return {match[1]: match[0] for match in re.finditer(r"^- ([\w-]+): .*$", known, re.MULTILINE)}


def commit() -> str:
    """Return the short name of the commit, marked if files of the service or of the proof differ from it."""
    changed = git("status", "--porcelain", "--untracked-files=no", "--", "app", "tests/proof")
    return git("rev-parse", "--short", "HEAD").strip() + (" with changes" if changed else "")
