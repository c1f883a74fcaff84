"""Word to the operator: what happened to a subscription, as an event on a topic of one's choice."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

DISABLED = "disabled"
ENABLED = "enabled"
PAUSED = "paused"
LAGGING = "lagging"
DEAD_LETTERED = "dead-lettered"


class Notify(Protocol):
    """Never waits and never raises: who calls it delivers events."""

    def __call__(self, kind: str, subscription: str, detail: Mapping[str, object], /) -> None:
        """``kind``: one of the words above. ``detail``: members of the event's data, as JSON has them;
        ``cause`` is told wherever there is one. Never anything of an event's data."""


def silence(kind: str, subscription: str, detail: Mapping[str, object], /) -> None:
    """Where nobody wants to hear of it."""
