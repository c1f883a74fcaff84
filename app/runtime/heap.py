"""When Python looks for cycles: not while a process starts, and seldom while events go by.

A start makes some hundred thousand objects that stay, and of the time that it takes the collector's is a fifth. An
event makes a few dozen short-lived objects and no cycles; with the interpreter's defaults the collector runs every
few dozen events and, again and again, walks everything that start-up made.
"""

from __future__ import annotations

import gc

YOUNG = 100_000  # objects gained before a look at the young ones (the default is 700): more than are in flight
OLD = (20, 50)  # young looks before a middle one, middle ones before a full one


def begin_heap() -> None:
    """Call before the imports of a service; ``settle_heap`` ends it."""
    gc.disable()


def settle_heap() -> None:
    """Call once, when everything that lives as long as the process is there."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(YOUNG, *OLD)
    gc.enable()
