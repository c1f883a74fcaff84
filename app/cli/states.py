"""The states of subscriptions in tables, and the choice of one of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from app.model import state_word as words

StateWord = Literal[
    "starting", "running", "paused", "target fails", "queue full", "disabled", "restarting", "stopping", "stopped",
    "broken", "elsewhere",
]  # fmt: skip
"""Every word of the column STATE."""


def state_word(health: Mapping[str, Any]) -> str:
    """Return the state of a view of the API in a word that shows who has to act."""
    if health["state"] != "paused":
        return str(health["state"])
    return words.state_word("paused", health["paused_for"], health["sink"])


def api_state(word: StateWord | None) -> str:
    """Return the state by which the API chooses the subscriptions with this word, and perhaps others; "" for None."""
    return "paused" if word in words.PAUSED_WORDS else word or ""
