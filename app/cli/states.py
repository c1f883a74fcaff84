"""The words for the states of a subscription, which the console uses too."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

TARGET_FAILS = "target fails"
QUEUE_FULL = "queue full"


def state_word(health: Mapping[str, Any]) -> str:
    """Return the state in a word that shows who has to act.

    ``paused`` is what a person did. The service also pauses by itself, while a target fails and while a
    pull queue is full.
    """
    if health["state"] != "paused" or health["paused_for"] is None:
        return str(health["state"])
    return QUEUE_FULL if health["sink"] == "pull" else TARGET_FAILS
