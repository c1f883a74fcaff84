"""How a subscription fares: what its worker knows, as the API and the command line show it."""

from __future__ import annotations

import msgspec

from app.model.message import Partition


class SubscriptionStatus(msgspec.Struct, frozen=True, kw_only=True):
    """``state``: starting, running, paused (``cause`` and ``paused_for`` seconds say why and how long),
    disabled (its target answered 410), restarting (it died of ``cause``), stopping, stopped, broken
    (it cannot be made: ``cause``), elsewhere (another process runs it).

    ``held``         messages taken and not finished, of which ``in_flight`` are on the wire and
                     ``waiting`` for their next attempt.
    ``window``       distance from the commit position to the newest message taken, of the partition
                     where it is longest (rule 4).
    ``oldest``       seconds since the oldest message held came into the log; None when none is held.
    ``parked_rows``  events that wait in the store, of ``parked_keys`` keys, in its partitions (rule 5).
    ``restarts``     since the start of the process. ``last_error``: of the newest attempt that failed.
    """

    id: str
    sink: str
    state: str
    broker: str = ""
    group: str = ""
    cause: str = ""
    partitions: tuple[Partition, ...] = ()
    held: int = 0
    in_flight: int = 0
    waiting: int = 0
    window: int = 0
    paused_for: float | None = None
    oldest: float | None = None
    parked_rows: int = 0
    parked_keys: int = 0
    restarts: int = 0
    last_error: str = ""

    @property
    def ready(self) -> bool:
        """A target at fault comes back by itself and is no reason to say otherwise: only a subscription
        that has not begun, has stopped, or is disabled (W5), which a person must end, is (rule 10)."""
        return self.state in {"running", "paused"}
