"""How a subscription fares, as the API and the command line show it."""

from __future__ import annotations

import msgspec

from app.model.message import Partition


class SubscriptionStatus(msgspec.Struct, frozen=True, kw_only=True):
    """``state``: starting, running, paused (``cause`` and ``paused_for`` seconds say why and how long),
    disabled (its target answered 410), restarting (it died of ``cause``), stopping, stopped.

    ``held``      messages taken and not finished, of which ``in_flight`` are on the wire and
                  ``waiting`` for their next attempt.
    ``window``    distance from the commit position to the newest message taken, of the partition
                  where it is longest (rule 4).
    ``oldest``    seconds since the oldest message held came into the log; None when none is held.
    ``restarts``  since the start of the process.
    """

    subscription: str
    sink: str
    state: str
    cause: str = ""
    partitions: tuple[Partition, ...] = ()
    held: int = 0
    in_flight: int = 0
    waiting: int = 0
    window: int = 0
    paused_for: float | None = None
    oldest: float | None = None
    restarts: int = 0
