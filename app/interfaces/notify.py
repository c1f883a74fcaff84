"""Word to the operator: what happened to a subscription, and what operators did, as events on a topic of one's
choice."""

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
"""By ``AuditEntry.kind``."""


class Notify(Protocol):
    """Never waits and never raises: who calls it delivers events."""

    def __call__(self, kind: str, subject: str, detail: Mapping[str, object], /) -> None:
        """``kind``: one of the words above. ``subject``: the subscription; of spools the route; of audited kinds the operation. ``detail``: members of the event's data, as JSON has them;
        ``cause`` is told wherever there is one. Never anything of an event's data."""


def silence(kind: str, subject: str, detail: Mapping[str, object], /) -> None:
    """Where nobody wants to hear of it."""
