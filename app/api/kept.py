"""What the store keeps, together with what only this process remembers."""

from __future__ import annotations

from collections.abc import Sequence

from app.api.running import Running
from app.errors import StoreUnavailable
from app.interfaces import Attempt, Store


def store_of(running: Running) -> Store:
    """Raises StoreUnavailable where there is none."""
    if running.store is None:
        raise StoreUnavailable("this process has no store")
    return running.store


def merged(stored: Sequence[Attempt], remembered: Sequence[Attempt]) -> list[Attempt]:
    """The newest first, each once: a failure is in both."""
    once = {_place(each): each for each in (*stored, *remembered)}
    return sorted(once.values(), key=lambda each: (-each.started_ms, -each.number))


def _place(each: Attempt) -> tuple[object, ...]:
    return each.subscription, each.partition, each.position, each.number, each.started_ms
