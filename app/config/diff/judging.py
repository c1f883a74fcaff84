"""Judge a proposed configuration beside the one in force.

``judge`` is what the admin API asks for. Its steps are long calls of C, which hold the interpreter whichever
thread makes them: 840 kB of YAML stopped the event loop for 0.5 to 2 seconds. So ``main`` is the same as a
program: it reads the two configurations from its standard input and writes the judgement to its standard output.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import Any

import msgspec

from app.config.diff.difference import Change, difference, without_overrides
from app.config.diff.proposal import propose
from app.config.diff.shown import Tree, digest_of, view_of, view_of_shown
from app.config.load.finding import BadConfiguration, Finding
from app.model.judgement import MOST, Judgement, PlannedChange, Remark

_NICE = 10  # the service goes first, where processors are few


def judge(proposed: bytes, shown: Tree) -> Judgement:
    """Return what a proposed configuration would change in the one in force, ``shown`` as it may be read."""
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
    """Return the first ``MOST``, errors before warnings."""
    errors_first = sorted(findings, key=lambda each: each.level != "error")
    return [
        Remark(each.level, each.setting, each.line, each.message, each.cure)
        for each in errors_first[:MOST]
    ]


def _planned(change: Change) -> PlannedChange:
    return PlannedChange.of(change.setting, change.what, change.effect, change.old, change.new)


def _more(every: Sequence[Any]) -> int:
    return max(0, len(every) - MOST)


def main() -> None:
    """Read the length of the proposal on a line, the proposal, and the tree in force as JSON; write the judgement."""
    os.nice(_NICE)
    source = sys.stdin.buffer
    proposed = source.read(int(source.readline()))
    sys.stdout.buffer.write(
        msgspec.json.encode(judge(proposed, msgspec.json.decode(source.read())))
    )


if __name__ == "__main__":
    main()
