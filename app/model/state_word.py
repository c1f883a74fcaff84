"""The words for the states of a subscription, which show who has to act.

``paused`` is what a person did. The service also pauses by itself, while a target fails and while a pull queue is
full. The console uses the same words.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

TARGET_FAILS = "target fails"
QUEUE_FULL = "queue full"
PAUSED_WORDS: Sequence[str] = ("paused", TARGET_FAILS, QUEUE_FULL)
"""The words of a subscription whose ``state`` is paused."""

_CLAUSES: Mapping[str, str] = {
    TARGET_FAILS: "waits because its target fails",
    QUEUE_FULL: "waits because its pull queue is full",
}


def state_word(state: str, paused_for: float | None, sink: str) -> str:
    """Return the word for a state.

    Args:
        state: The state of a subscription, as in ``SubscriptionStatus``.
        paused_for: Seconds until its endpoint is probed; None if the endpoint is not paused.
        sink: The sink as text; ``pull`` for a pull queue.
    """
    if state != "paused" or paused_for is None:
        return state
    return QUEUE_FULL if sink == "pull" else TARGET_FAILS


def state_clause(word: str) -> str:
    """Return the predicate of a sentence about a subscription: ``is paused``."""
    return _CLAUSES.get(word, f"is {word}")
