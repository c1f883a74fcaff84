"""Notify operators: events about subscriptions and about actions of operators, on a topic that the operator
chooses.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Protocol

DISABLED = "disabled"
ENABLED = "enabled"
PAUSED = "paused"
LAGGING = "lagging"
DEAD_LETTERED = "dead-lettered"
SPOOLING = "spooling"
SPOOLED = "spooled"
AUDITED: Mapping[str, str] = MappingProxyType(
    {
        "change": "audited-change",
        "login": "audited-change",
        "look": "audited-look",
        "refusal": "audited-refusal",
    }
)
"""The kind of the operator event for each ``AuditEntry.kind``."""


class Notify(Protocol):
    """A function that reports to operators. It never waits and never raises, because its callers deliver events."""

    def __call__(self, kind: str, subject: str, detail: Mapping[str, object], /) -> None:
        """Report something to operators.

        Args:
            kind: One of the constants of this module.
            subject: The subscription, the route (for a spool), or the operation (for an audit entry).
            detail: The members of the operator event's data, as JSON values. ``cause`` is included if there is one.
                Data of users' events is never included.
        """


def notify_nothing(kind: str, subject: str, detail: Mapping[str, object], /) -> None:
    """Report nothing, if no operator events are configured."""
