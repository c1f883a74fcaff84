"""The answer for an event that cannot be written as its subscription wants."""

from __future__ import annotations

from app.interfaces import SinkAnswer

UNWRITABLE = "unwritable"


def unwritable(why: str) -> SinkAnswer:
    """Waiting will not change that."""
    return SinkAnswer(None, UNWRITABLE, why)
