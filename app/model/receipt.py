"""Proof that one record is stored."""

from __future__ import annotations

import msgspec


class Receipt(msgspec.Struct, frozen=True, gc=False):  # it can be in no cycle
    """Where a record is now. ``position`` is opaque text, ordered only within its partition."""

    broker: str
    topic: str
    partition: int
    position: str
