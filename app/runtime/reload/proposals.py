"""What a proposed configuration would change in the one in force."""

from __future__ import annotations

from collections.abc import Iterable

from app.api.running import PlannedChange, Proposal, Remark
from app.config.difference import Change, difference, without_overrides
from app.config.finding import BadConfiguration, Finding
from app.config.proposal import propose
from app.config.shown import Tree, digest_of, view_of, view_of_shown


def judge(proposed: bytes, shown: Tree) -> Proposal:
    """``shown``: the configuration in force, as it may be read."""
    try:
        loaded, findings = propose(proposed)
    except BadConfiguration as bad:
        return Proposal(remarks=_remarks(bad.findings))
    new = view_of(loaded).shown
    found = without_overrides(difference(view_of_shown(shown), view_of_shown(new)))
    return Proposal(
        remarks=_remarks(findings),
        digest=digest_of(new),
        changes=[_change(each) for each in found.changes],
        anew=found.anew,
        warnings=found.warnings,
    )


def _change(each: Change) -> PlannedChange:
    return PlannedChange(
        setting=each.setting, what=each.what, effect=each.effect, old=each.old, new=each.new
    )


def _remarks(findings: Iterable[Finding]) -> list[Remark]:
    return [
        Remark(
            level=each.level,
            setting=each.setting,
            line=each.line,
            message=each.message,
            cure=each.cure,
        )
        for each in findings
    ]
