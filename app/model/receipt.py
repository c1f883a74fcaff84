"""Proof that one record is stored."""

from __future__ import annotations

from typing import Literal

import msgspec


class Receipt(msgspec.Struct, frozen=True, gc=False):  # it can be in no cycle
    """Where a record is now. ``position`` is opaque text, ordered only within its partition.

    ``repeat``  of a route that stores an event once: ``duplicate`` where nothing was stored, because this is
                where the event is since it came first; ``differs`` where one of the same identity was
                stored before with other data.
    """

    broker: str
    topic: str
    partition: int
    position: str
    repeat: Literal["", "duplicate", "differs"] = ""
