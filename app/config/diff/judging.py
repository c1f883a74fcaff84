"""Judge a proposed configuration against the one in force.

The admin API calls ``judge``. Its long calls into C block the interpreter on any thread: 840 kB of
YAML stopped the event loop for 0.5 to 2 s. So ``main`` runs the same judgement as a program of its
own, from standard input to standard output.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import Any

import msgspec

from app.config.diff.difference import SettingChange, difference, without_overrides
from app.config.diff.proposal import propose
from app.config.diff.shown import Tree, digest_of, view_of, view_of_shown
from app.config.load.finding import BadConfiguration, Finding
from app.model.judgement import MOST, Judgement, PlannedChange, Remark

_NICE = 10  # gives the service priority on a machine with few processors


def judge(proposed: bytes, shown: Tree) -> Judgement:
    """Return what a proposed configuration would change. ``shown`` is the redacted configuration in
    force.
    """
    try:
        loaded, findings = propose(proposed)
    except BadConfiguration as bad:
        return Judgement(
            valid=False, remarks=_remarks(bad.findings), more_remarks=_more(bad.findings)
        )
    new = view_of(loaded).shown
    found = without_overrides(difference(view_of_shown(shown), view_of_shown(new)))
    return Judgement(
        valid=True,
        result=found.result,
        digest=digest_of(new),
        changes=[_planned(each) for each in found.changes[:MOST]],
        more_changes=_more(found.changes),
        restarted=found.restarted,
        warnings=found.warnings[:MOST],
        more_warnings=_more(found.warnings),
        remarks=_remarks(findings),
        more_remarks=_more(findings),
    )


def _remarks(findings: Sequence[Finding]) -> list[Remark]:
    """Return the first ``MOST`` findings, errors before warnings."""
    errors_first = sorted(findings, key=lambda each: each.level != "error")
    return [
        Remark(each.level, each.setting, each.line, each.message, each.cure)
        for each in errors_first[:MOST]
    ]


def _planned(change: SettingChange) -> PlannedChange:
    return PlannedChange.of(change.setting, change.what, change.effect, change.old, change.new)


def _more(every: Sequence[Any]) -> int:
    return max(0, len(every) - MOST)


def main() -> None:
    """Read the proposal's length on a line, the proposal, and the configuration in force as JSON;
    write the judgement.
    """
    os.nice(_NICE)
    source = sys.stdin.buffer
    proposed = source.read(int(source.readline()))
    sys.stdout.buffer.write(
        msgspec.json.encode(judge(proposed, msgspec.json.decode(source.read())))
    )


if __name__ == "__main__":
    main()
