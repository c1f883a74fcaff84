"""The proof that a log has stored one record."""

from __future__ import annotations

from typing import Literal

import msgspec


class Receipt(msgspec.Struct, frozen=True, gc=False):  # an instance can be in no reference cycle
    """The place where a record is stored.

    Attributes:
        broker: The broker.
        topic: The topic.
        partition: The partition.
        position: Opaque text, ordered only within the partition.
        repeat: For a route with ``deduplicate``. ``duplicate`` if nothing was stored, because the first event
            is at this position. ``differs`` if an event of the same identity was stored before with other
            data.
    """

    broker: str
    topic: str
    partition: int
    position: str
    repeat: Literal["", "duplicate", "differs"] = ""
