"""Report what a proposed configuration would change in the running service.

The function ``judge`` makes long calls into C, which block all threads of the interpreter. 840 kB
of YAML blocked the event loop for 0.5 to 2 s. So the admin API runs this module as a separate
process. ``main`` reads the input from standard input and writes the result to standard output.
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
    """Return what a proposed configuration would change. ``shown`` is the redacted configuration of
    the running service.
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
    """Return at most ``MOST`` findings as remarks, errors before warnings."""
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
    """Read three things from standard input: a line with the length of the proposal, the proposal,
    and the running configuration as JSON. Write the result of ``judge``.
    """
    os.nice(_NICE)
    source = sys.stdin.buffer
    proposed = source.read(int(source.readline()))
    sys.stdout.buffer.write(
        msgspec.json.encode(judge(proposed, msgspec.json.decode(source.read())))
    )


if __name__ == "__main__":
    main()
