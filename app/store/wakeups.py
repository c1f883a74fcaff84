"""Word within this process that messages to be pulled came, went or were freed.

It only saves waiting: what other processes do is found by looking at the store now and then.
"""

from __future__ import annotations

import asyncio


class Wakeups:
    """By subscription. Must be used on the event loop."""

    def __init__(self) -> None:
        self._next: dict[str, asyncio.Event] = {}

    def next(self, subscription: str) -> asyncio.Event:
        """Set by the next word. To be taken *before* the look that it makes worth repeating."""
        return self._next.setdefault(subscription, asyncio.Event())

    def tell(self, subscription: str) -> None:
        event = self._next.pop(subscription, None)
        if event is not None:
            event.set()
