"""What the admin listener asks of a running service. ``runtime`` answers; nothing here acts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

import msgspec

from app.interfaces import Clock, Log, Store
from app.model.metadata import GroupLag
from app.model.route import Route
from app.telemetry import Counters


class RoleState(msgspec.Struct, frozen=True):
    """Whether one role does its work; ``causes`` are for a person and name the cure."""

    ready: bool
    causes: tuple[str, ...] = ()


class SubscriptionState(msgspec.Struct, frozen=True, kw_only=True):
    """One subscription as its dispatcher sees it.

    ``state``       starting, running, paused, disabled, restarting, stopping or stopped; ``cause``
                    says why it does not run, or what hinders it.
    ``held``        messages taken and not finished: ``in_flight`` on the wire, ``waiting`` for their
                    next attempt.
    ``window``      distance from the commit position to the newest message taken (rule 4).
    ``paused_for``  seconds until the endpoint is tried again.
    ``oldest``      seconds since the oldest message held came into the log.
    """

    id: str
    sink: str
    broker: str
    group: str
    state: str
    cause: str = ""
    partitions: tuple[str, ...] = ()
    held: int = 0
    in_flight: int = 0
    waiting: int = 0
    window: int = 0
    paused_for: float | None = None
    oldest: float | None = None
    restarts: int = 0
    last_error: str = ""

    @property
    def ready(self) -> bool:
        """A target at fault is no reason to take this process out of service: only a subscription
        that has not begun, or has given up, is (rule 10)."""
        return self.state in {"running", "paused", "disabled"}


class Running(Protocol):
    """A service between its start and its stop."""

    installation: str
    roles: Sequence[str]
    routes: Sequence[Route]
    logs: Mapping[str, Log]
    store: Store | None
    counters: Counters
    clock: Clock
    started_at: float

    async def readiness(self) -> Mapping[str, RoleState]:
        """By role. A role that is not run is not listed."""

    def subscriptions(self) -> Sequence[SubscriptionState]: ...

    async def lag(self) -> Sequence[GroupLag]:
        """Of every subscription's group; empty where a broker cannot be asked now."""
