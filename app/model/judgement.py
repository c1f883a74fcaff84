"""The result of checking and planning a proposed configuration, limited in size. Errors are listed first."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import msgspec

MOST = 1_000  # the most remarks, changes and warnings of one answer


class Remark(msgspec.Struct, frozen=True):
    """One error or warning about a setting. ``line`` is its line in the file, or 0 if it has none."""

    level: Literal["error", "warning"]
    setting: str
    line: int
    message: str
    cure: str


class PlannedChange(msgspec.Struct, frozen=True):
    """One change that a reload would make. ``old`` and ``new`` are redacted JSON, passed on unchanged."""

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
    """The result of checking and planning a proposed configuration.

    Attributes:
        valid: True if there is no error, not even one that is not listed.
        result: The effect of applying the configuration.
        digest: The digest of the proposed configuration.
        changes: The changes that a reload would make.
        more_changes: The number of changes that are not listed.
        restarted: The subscriptions that a reload would restart.
        warnings: The warnings about the changes.
        more_warnings: The number of warnings that are not listed.
        remarks: The errors and warnings of the check.
        more_remarks: The number of remarks that are not listed.
    """

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
