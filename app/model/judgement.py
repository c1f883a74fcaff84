"""What the check and the plan of a proposed configuration found, bounded in number: errors come first, and the rest is counted."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import msgspec

MOST = 1_000  # remarks, changes and warnings that one answer lists


class Remark(msgspec.Struct, frozen=True):
    """One error or warning. ``line``: 0 where it belongs to no line."""

    level: Literal["error", "warning"]
    setting: str
    line: int
    message: str
    cure: str


class PlannedChange(msgspec.Struct, frozen=True):
    """One change. ``old`` and ``new`` are JSON as it may be shown, which is passed on as it is."""

    setting: str
    what: str
    effect: Literal["live", "restart"]
    old: msgspec.Raw
    new: msgspec.Raw

    @classmethod
    def of(
        cls, setting: str, what: str, effect: Literal["live", "restart"], old: Any, new: Any
    ) -> PlannedChange:
        """Return the change with both values as JSON."""
        return cls(
            setting, what, effect, *(msgspec.Raw(msgspec.json.encode(each)) for each in (old, new))
        )


class Judgement(msgspec.Struct, frozen=True, kw_only=True):
    """``more_…`` count what the lists leave out. ``valid``: no remark is an error, also none that is left out."""

    valid: bool
    result: Literal["no-change", "changes", "needs-restart"] = "no-change"
    digest: str = ""
    changes: Sequence[PlannedChange] = ()
    more_changes: int = 0
    restarted: Sequence[str] = ()
    warnings: Sequence[str] = ()
    more_warnings: int = 0
    remarks: Sequence[Remark] = ()
    more_remarks: int = 0
