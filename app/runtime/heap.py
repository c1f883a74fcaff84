"""Configure Python's garbage collector: off while a process starts, and rare while events are processed.

A start creates some hundred thousand objects that stay, and the collector would take a fifth of its time. An
event creates a few dozen short-lived objects and no cycles. With the defaults, the collector runs every few
dozen events and repeatedly visits everything that the start created.
"""

from __future__ import annotations

import gc

YOUNG = 100_000  # new objects before a young collection (default 700); more than are in flight
OLD = (20, 50)  # young collections before a middle one, middle ones before a full one


def begin_heap() -> None:
    """Turn the collector off. Call this before the imports of a service; ``settle_heap`` turns it on again."""
    gc.disable()


def settle_heap() -> None:
    """Exclude all existing objects from collection and turn the collector on. Call this once, after the
    service has started."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(YOUNG, *OLD)
    gc.enable()
