"""The states and counts of subscriptions in tables, and the choice of one state."""

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


def parked_rows(health: Mapping[str, Any]) -> int | None:
    """Return the number of parked events of a subscription. Return None if the store does not answer."""
    parked = health["parked"]
    return None if parked is None else int(parked["rows"])


def dead_letters(health: Mapping[str, Any]) -> int | None:
    """Return the number of dead letters of a subscription. Return None if the store does not answer."""
    by_cause = health["dead_letters"]
    return None if by_cause is None else sum(by_cause.values())


def oldest_seconds(health: Mapping[str, Any]) -> float | None:
    """Return the age in seconds of the oldest event that was read or parked. Return None if there is none, or if the
    store does not answer: a parked event may then be older."""
    if health["parked"] is None:
        return None
    ages = (health["oldest"], health["parked"]["oldest_seconds"])
    return max((age for age in ages if age is not None), default=None)
