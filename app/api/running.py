"""What the admin listener asks of a running service: of itself, of the configuration in force, and of the callers that
keeps the subscriptions of the file and those made here. ``runtime`` answers; nothing here acts."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, Literal, Protocol

import msgspec

from app.access.caller import Tally
from app.access.who import Producers
from app.api.answers import (
    Cause,
    DiskView,
    KafkaListenerView,
    Outcome,
    RoleReadiness,
    SpoolView,
)
from app.errors import Fault, StoreUnavailable
from app.interfaces import Attempt, Clock, Halt, Log, Notify, Store, Waiting
from app.model.judgement import Judgement
from app.model.metadata import GroupLag
from app.model.route import Route
from app.model.subscription import Subscription
from app.model.subscription_status import SubscriptionStatus
from app.routing.plan import Resources
from app.routing.publications import Manner
from app.sinks.pull_queue import Wakeups
from app.telemetry import Counters

Refusal = Literal["", "invalid-configuration", "needs-restart", "not-now"]

STATUS_OF_REFUSAL: Mapping[Refusal, int] = {
    "": 200,
    "invalid-configuration": 422,
    "needs-restart": 409,
    "not-now": 503,
}


class Reload(msgspec.Struct, frozen=True, kw_only=True):
    """What became of one reload. ``at``: seconds since the epoch. ``refusal``: its kind; ``not-now`` may pass."""

    at: float
    cause: Cause
    outcome: Outcome
    digest: str
    changes: Sequence[str] = ()
    restarted: Sequence[str] = ()
    faults: Sequence[Fault] = ()
    warnings: Sequence[str] = ()
    refusal: Refusal = ""

    @property
    def status(self) -> int:
        """Of the answer to the caller that asked for it."""
        return STATUS_OF_REFUSAL[self.refusal]

    @property
    def summary(self) -> str:
        """For the audit."""
        return f"{self.outcome}, digest {self.digest}"


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

    async def judge(self, proposed: bytes) -> Judgement:
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


Demand = Callable[[Subscription, Subscription | None], None]
"""Raises Refused for a subscription that the caller may not make in the place of another, or of none."""


def anything(wanted: Subscription, before: Subscription | None) -> None:
    """Refuse nothing."""


class Registry(Protocol):
    """Keeps subscriptions. Whatever it refuses is a SenderError with every fault, or ``problems.Refused``."""

    async def entries(self) -> list[Entry]:
        """Those of the file first, then in the order they were made."""

    async def entry(self, subscription: str) -> Entry | None: ...

    async def make(self, document: Document, demand: Demand = anything) -> Entry:
        """Without an id it gets one."""

    async def change(self, entry: Entry, document: Document, demand: Demand = anything) -> Entry:
        """Raises VersionConflict when ``entry`` is no longer what is kept."""

    async def remove(self, entry: Entry) -> None:
        """Its events are finished (rule 7). VersionConflict likewise."""

    async def nudge(self) -> None:
        """Workers of this process look at once at what the store says now."""


Counts = Mapping[str, Mapping[tuple[str, ...], int]]
"""Counters by name, then by labels."""


class Running(Protocol):
    """A service between its start and its stop."""

    installation: str
    roles: Sequence[str]
    routes: Sequence[Route]
    logs: Mapping[str, Log]
    kinds: Mapping[str, str]  # of the brokers, by name
    attested: Collection[str]  # brokers whose records prove which producer sent them
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

    async def readiness(self) -> Mapping[str, RoleReadiness]:
        """By role. A role that is not run is not listed."""

    def kafka_listeners(self) -> Sequence[KafkaListenerView]:
        """Those that listen; empty in a process that has none."""

    def intakes(self) -> Mapping[str, Tally]:
        """By name, what each has taken and refused; empty in a process that has none."""

    async def disks(self) -> Mapping[str, DiskView]:
        """By folder: what holds the embedded logs and the store."""

    async def spools(self) -> Sequence[SpoolView]:
        """Those of this process."""

    async def certificates(self) -> Mapping[str, float]:
        """When those end that we show, in seconds since the epoch, by the setting that names the file."""

    async def subscriptions(self) -> Sequence[SubscriptionStatus]: ...

    def attempts(self, subscription: str | None, limit: int) -> Iterable[Attempt]:
        """Return what this process remembers of one subscription, or all; the newest first. Each is made when it is
        asked for."""

    def waiting(self, subscription: str | None, event_id: str) -> Sequence[Waiting]:
        """The events of this id that this process holds and has not tried, for one subscription or all."""

    async def states(self, entries: Sequence[Entry]) -> list[SubscriptionStatus]:
        """One for each, whether it runs here or not: ``broken`` where it cannot run, ``elsewhere`` where another process runs it."""

    async def declared(self) -> Sequence[Subscription]:
        """Every subscription there is, whether this process runs it or not."""

    def halts(self) -> Mapping[str, Halt]:
        """Why some of them deliver nothing, as of the last ``declared``."""

    async def lag(self) -> Sequence[GroupLag]:
        """Of every subscription's group; empty where a broker cannot be asked now."""


def store_of(running: Running) -> Store:
    """Raises StoreUnavailable where there is none."""
    if running.store is None:
        raise StoreUnavailable("this process has no store")
    return running.store


def now_ms(running: Running) -> int:
    return int(running.clock.now() * 1000)
