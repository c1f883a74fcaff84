"""What the admin listener asks of a running service: of itself, of the configuration in force, and of whoever
keeps the subscriptions of the file and those made here. ``runtime`` answers; nothing here acts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal, Protocol, cast

import msgspec
from fastapi import Depends, Request

from app.access.caller import Tally
from app.access.who import Producers
from app.errors import Fault, StoreUnavailable
from app.interfaces import Attempt, Clock, Log, Notify, Store, Waiting
from app.model.metadata import GroupLag
from app.model.route import Route
from app.model.subscription import Subscription
from app.model.subscription_status import SubscriptionStatus
from app.routing.plan import Manner, Resources
from app.sinks.pull_queue import Wakeups
from app.telemetry import Counters

Cause = Literal["start", "signal", "file", "api"]
Outcome = Literal["ok", "unchanged", "refused"]
Refusal = Literal["", "invalid-configuration", "needs-restart", "not-now"]


class Reload(msgspec.Struct, frozen=True, kw_only=True):
    """What became of one reload. ``at``: seconds since the epoch. ``refusal``: its kind; ``not-now`` may pass."""

    at: float
    cause: Cause
    outcome: Outcome
    digest: str
    changes: Sequence[str] = ()
    anew: Sequence[str] = ()
    faults: Sequence[Fault] = ()
    warnings: Sequence[str] = ()
    refusal: Refusal = ""


class Remark(msgspec.Struct, frozen=True, kw_only=True):
    """What is wrong, or looks wrong, with a proposed configuration. ``line`` 0: of no line."""

    level: Literal["error", "warning"]
    setting: str
    line: int
    message: str
    cure: str


class PlannedChange(msgspec.Struct, frozen=True, kw_only=True):
    """``old`` and ``new`` as they may be shown; None where there is none."""

    setting: str
    what: str
    effect: Literal["live", "restart"]
    old: Any = None
    new: Any = None


class Proposal(msgspec.Struct, frozen=True, kw_only=True):
    """A configuration held against the one in force, with no reference of it resolved. ``changes``: none
    where a remark is an error. ``anew``: subscriptions that would end and begin again."""

    remarks: Sequence[Remark]
    digest: str = ""
    changes: Sequence[PlannedChange] = ()
    anew: Sequence[str] = ()
    warnings: Sequence[str] = ()

    @property
    def valid(self) -> bool:
        return all(each.level != "error" for each in self.remarks)


class Configured(Protocol):
    """What a service runs on. ``taken``: the last reload that was not refused, or the start."""

    source: str
    digest: str
    last: Reload
    taken: Reload

    @property
    def shown(self) -> Mapping[str, Any]:
        """Every setting as it may be read."""

    async def reload(self, cause: Cause) -> Reload: ...

    async def judge(self, proposed: bytes) -> Proposal:
        """Of a text in YAML. Nothing is changed."""


Document = Mapping[str, Any]
"""A subscription as a user writes it, in the file and here alike. Where a secret is, ``HIDDEN``
(``model.secret``) stands."""


class Entry(msgspec.Struct, frozen=True, kw_only=True):
    """One subscription as it is kept.

    ``origin``    who made it: ``place`` says where in the file, "" for the API.
    ``version``   of the store, 0 in the file; ``etag`` names the same, quoted.
    ``subscription``  what the document says; None where it no longer fits the model.
    ``faults``    why it does not run although it is kept: a broker that left the file, say.
    ``warnings``  what looks wrong and may be meant.
    """

    id: str
    document: Document
    origin: Literal["file", "api"]
    etag: str
    place: str = ""
    version: int = 0
    subscription: Subscription | None = None
    faults: Sequence[str] = ()
    warnings: Sequence[str] = ()
    created_ms: int | None = None
    updated_ms: int | None = None


class Registry(Protocol):
    """Keeps subscriptions. Whatever it refuses is a SenderError with every fault, or ``problems.Refused``."""

    async def entries(self) -> list[Entry]:
        """Those of the file first, then in the order they were made."""

    async def entry(self, subscription: str) -> Entry | None: ...

    async def make(self, document: Document) -> Entry:
        """Without an id it gets one."""

    async def change(self, entry: Entry, document: Document) -> Entry:
        """Raises VersionConflict when ``entry`` is no longer what is kept."""

    async def remove(self, entry: Entry) -> None:
        """Its events are finished (rule 7). VersionConflict likewise."""

    async def nudge(self) -> None:
        """Workers of this process look at once at what the store says now."""


class RoleState(msgspec.Struct, frozen=True):
    """Whether one role does its work; ``causes`` are for a person and name the cure."""

    ready: bool
    causes: tuple[str, ...] = ()


Counts = Mapping[str, Mapping[tuple[str, ...], int]]
"""Counters by name, then by labels."""


class KafkaListenerState(msgspec.Struct, frozen=True):
    """Of the embedded log ``broker``. ``address``: what clients are told to come to. ``held_bytes``: of
    requests without an answer. ``refused_connections``: closed at the bound. ``refused_frames``: requests
    that could not be read, each of which ended its connection. Both since the start.
    """

    broker: str
    address: str
    connections: int
    held_bytes: int
    refused_connections: int
    refused_frames: int


class Disk(msgspec.Struct, frozen=True):
    """The volume of a folder, in bytes. ``free``: to this user."""

    free: int
    size: int


class SpoolState(msgspec.Struct, frozen=True, kw_only=True):
    """The spool of a route. ``records`` and ``bytes`` wait, the oldest for ``oldest_seconds``; 0 for none.

    ``state``    ``empty``, ``spooling`` (the target is away), ``draining``, or ``removed`` (its setting is
                 gone, and it is kept until it is empty). ``cause``: why records went there last.
    ``most``     bytes that may wait; 0 for one that is removed.
    ``repeats``  records since the start that the target may have twice: nobody knew their fate.
    ``drained``  by partition: the position of the first record that is not known to be at the target.
    """

    route: str
    broker: str
    state: Literal["empty", "spooling", "draining", "removed"]
    cause: str = ""
    records: int = 0
    bytes: int = 0
    most: int = 0
    oldest_seconds: float = 0.0
    repeats: int = 0
    drained: tuple[int, ...] = ()


class Running(Protocol):
    """A service between its start and its stop."""

    installation: str
    roles: Sequence[str]
    routes: Sequence[Route]
    logs: Mapping[str, Log]
    kinds: Mapping[str, str]  # of the brokers, by name
    manners: Mapping[str, Manner]  # how events are written to some of them
    resources: Resources  # what the routes name
    producers: Producers  # with what each has sent
    store: Store | None
    registry: Registry
    largest_document: int  # bytes of a subscription's document
    wakeups: Wakeups  # shared with the workers of this process
    notify: Notify
    counters: Counters
    clock: Clock
    started_at: float
    configured: Configured

    def groups(self, broker: str, topic: str) -> Mapping[str, str]:
        """The groups of our subscriptions to a topic, each with its subscription's id."""

    async def readiness(self) -> Mapping[str, RoleState]:
        """By role. A role that is not run is not listed."""

    def kafka_listeners(self) -> Sequence[KafkaListenerState]:
        """Those that listen; empty in a process that has none."""

    def intakes(self) -> Mapping[str, Tally]:
        """By name, what each has taken and refused; empty in a process that has none."""

    async def disks(self) -> Mapping[str, Disk]:
        """By folder: what holds the embedded logs and the store."""

    async def spools(self) -> Sequence[SpoolState]:
        """Those of this process."""

    async def certificates(self) -> Mapping[str, float]:
        """When those end that we show, in seconds since the epoch, by the setting that names the file."""

    def subscriptions(self) -> Sequence[SubscriptionStatus]: ...

    def attempts(self, subscription: str | None, limit: int) -> Sequence[Attempt]:
        """What this process remembers of one subscription, or all; the newest first."""

    def waiting(self, subscription: str | None, event_id: str) -> Sequence[Waiting]:
        """The events of this id that this process holds and has not tried, for one subscription or all."""

    def states(self, entries: Sequence[Entry]) -> list[SubscriptionStatus]:
        """One for each, whether it runs here or not: ``broken`` where it cannot run, ``elsewhere`` where another process runs it."""

    async def declared(self) -> Sequence[Subscription]:
        """Every subscription there is, whether this process runs it or not."""

    async def lag(self) -> Sequence[GroupLag]:
        """Of every subscription's group; empty where a broker cannot be asked now."""


def store_of(running: Running) -> Store:
    """Raises StoreUnavailable where there is none."""
    if running.store is None:
        raise StoreUnavailable("this process has no store")
    return running.store


def now_ms(running: Running) -> int:
    return int(running.clock.now() * 1000)


async def _here(request: Request) -> Running:
    return cast("Running", request.app.state.running)


Here = Annotated[Running, Depends(_here)]
"""The service that an operation is asked of."""
