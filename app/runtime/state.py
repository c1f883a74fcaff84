"""What a running service says about itself: it answers most of what the API asks for."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from msgspec.structs import replace

from app.access.caller import Caller, Tally
from app.access.who import Producers
from app.api.asked.brokers import Brokers
from app.api.asked.process import Process
from app.api.asked.readiness import Readiness, RoleReadiness
from app.api.asked.registry import Entry, Registry
from app.api.asked.routes import KnownProducers, Routes
from app.api.asked.subscriptions import Subscriptions
from app.api.http.given import Given
from app.api.http.slices import ROW, Slices
from app.api.status import families
from app.api.status.answers import DiskView, KafkaListenerView, SpoolView
from app.api.status.asked import IntakeTallies, KafkaListeners, Measured, Spools, Volumes
from app.api.status.configured import Configured
from app.api.subscriptions.standings import brokers_of, letters_of, parked_of
from app.brokers.sharing import Shared
from app.config.derived.kinds import attested_brokers, kinds_of, manners_of
from app.config.derived.route_resources import load_resources
from app.config.model.config import Config
from app.errors import SkybridgeError
from app.interfaces import Attempt, Clock, Halt, Log, Notify, Store, Waiting, silence
from app.model.log_name import LogName
from app.model.metadata import GroupLag, Health
from app.model.route import Exchange, Route, Target, log_of
from app.model.spool import group_name
from app.model.subscription import Subscription
from app.model.subscription_status import SubscriptionStatus
from app.routing.places import fixed_place, is_fixed
from app.routing.plan import Resources
from app.routing.publications import Manner
from app.runtime.build import Parts
from app.runtime.certificates import Expiries, certificates_of
from app.runtime.disks import disks, folders_of
from app.runtime.target_checks import Targets
from app.sinks.pull_queue import Wakeups
from app.telemetry import Counters
from app.telemetry.tasks import FAILURES
from app.worker.gate import disabled_words, halt_words
from app.worker.supervisor import BY_CONFIGURATION

if TYPE_CHECKING:
    from app.runtime.kafka_listeners import OpenListener

RECENT = 100  # attempts looked at for the last error
HEALTH_KEPT = 1.0  # seconds between questions to brokers and store: anybody may ask for readiness


class State:
    """``begun`` is set when every part has started, ``draining`` when it is to leave (rule 11)."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self.installation = parts.config.installation
        self.roles: Sequence[str] = parts.roles
        self.logs: Mapping[str, Log] = parts.logs
        self.kinds: Mapping[str, str] = kinds_of(parts.config)
        self.manners: Mapping[str, Manner] = manners_of(parts.config)
        self.store = parts.store
        told = parts.operator_events
        self.notify: Notify = silence if told is None else told.notify
        self.clock = parts.clock
        self._started_at = parts.clock.monotonic()
        self.listeners: dict[str, OpenListener] = {}  # of Kafka's protocol, by the log they serve
        self._expiries = Expiries()
        self.configured: Configured  # filled by the service
        self.begun = False
        self.draining = False
        self.become(parts.config, load_resources(parts.config.routes), parts.producers)
        self._targets = Targets(self._config, parts.logs, parts.clock)
        self._asking = Shared(HEALTH_KEPT, parts.clock.monotonic)

    def become(self, config: Config, resources: Resources, producers: Producers) -> None:
        """Tell of this configuration, whose brokers are the same."""
        self._parts = self._parts._replace(config=config, producers=producers)
        self.routes: Sequence[Route] = config.routes
        self.attested: Collection[str] = attested_brokers(config)
        self.resources = resources
        self.callers: Mapping[str, Caller] = producers.callers

    def given(self) -> Given:
        """Return what this service gives its API, but for ``Configured``."""
        parts, given = self._parts, Given()
        given.add(Brokers, self)
        given.add(Routes, self)
        given.add(KnownProducers, self)
        given.add(Subscriptions, self)
        given.add(Registry, parts.registry)
        given.add(Readiness, self)
        given.add(Spools, _NoSpools() if parts.spools is None else parts.spools)
        given.add(KafkaListeners, self)
        given.add(IntakeTallies, self)
        given.add(Volumes, self)
        given.add(Measured, self)
        given.add(Process, Process(self.installation, self.roles, self._started_at))
        given.add(Store, parts.store)
        given.add(Clock, parts.clock)
        given.add(Counters, parts.counters)
        given.add(Wakeups, parts.wakeups)
        given.add(Notify, self.notify)
        return given

    async def metrics(self) -> Sequence[families.Family]:
        store, clock, spools = self.store, self._parts.clock, self._parts.spools
        return [
            *families.ready_families(await self.readiness()),
            *families.broker_families(await brokers_of(self.logs)),
            *families.subscription_families(await self.statuses(), await self.lag()),
            *families.store_families(await letters_of(store), await parked_of(store, clock)),
            *families.spool_families([] if spools is None else await spools.states()),
            *families.kafka_listener_families(self.views()),
            *families.volume_families(await self.disks()),
            *families.certificate_families(await self._certificates()),
            *families.configuration_families(self.configured),
        ]

    def _config(self) -> Config:
        """As if those that the API made stood in the file."""
        made = {"subscriptions": self._parts.catalog.subscriptions}
        return self._parts.config.model_copy(update=made)

    def groups(self, broker: str, topic: str) -> Mapping[str, str]:
        return {
            group_name(self.installation, each.id): each.id
            for each in self._parts.catalog.subscriptions
            if each.source.broker == broker and topic in each.source.topics
        }

    async def readiness(self) -> Mapping[str, RoleReadiness]:
        healths = await self._asking.ask("logs", self._healths)
        healthy = [name for name in self.logs if healths[LogName(name)].healthy]
        asked = (
            self._targets.faults(name) for name in healthy
        )  # together: a probe does not wait long
        faults = dict(zip(healthy, await asyncio.gather(*asked), strict=True))
        found = {}
        if "gateway" in self.roles:
            ready, causes = routes_fare(self.routes, healths, faults)
            found["gateway"] = self._ready(ready, causes)
        if "worker" in self.roles:
            ready, causes = _subscriptions_fare(await self.statuses())
            mirrored, missing = _sinks_fare(self._parts.catalog.subscriptions, faults)
            causes = causes + self._broken() + missing + await self._store_fares()
            found["worker"] = self._ready(ready and mirrored, causes)
        return found

    async def _healths(self) -> Mapping[LogName, Health]:
        logs = self._parts.all_logs
        told = await asyncio.gather(*(log.health() for log in logs.values()))
        return dict(zip(logs, told, strict=True))

    async def statuses(self) -> Sequence[SubscriptionStatus]:
        return await self._running(None)

    async def _running(self, names: Collection[str] | None) -> Sequence[SubscriptionStatus]:
        """Return the status of these subscriptions, or of all, as far as they run here."""
        supervisor = self._parts.supervisor
        if supervisor is None:
            return ()
        wanted = {each.id for each in self._parts.catalog.subscriptions}
        found = (
            replace(each, last_error=_last_error(supervisor.attempts(each.id, RECENT)))
            for each in supervisor.statuses(names)
            if each.id in wanted  # else it is just leaving
        )
        return await Slices().each(found, ROW)

    async def states(self, entries: Sequence[Entry]) -> list[SubscriptionStatus]:
        here = {each.id: each for each in await self._running({each.id for each in entries})}
        return [here.get(each.id) or self._not_here(each) for each in entries]

    def _not_here(self, entry: Entry) -> SubscriptionStatus:
        state, cause = self._state_elsewhere(entry)
        subscription = entry.subscription
        return SubscriptionStatus(
            id=entry.id,
            sink="" if subscription is None else subscription.sink_text,
            broker="" if subscription is None else subscription.source.broker,
            group=group_name(self.installation, entry.id),
            state=state,
            cause=cause,
        )

    def _state_elsewhere(self, entry: Entry) -> tuple[str, str]:
        halt = self._parts.catalog.halts.get(entry.id)
        if entry.faults or entry.subscription is None:
            return "broken", "; ".join(entry.faults)
        if self._parts.supervisor is not None:
            return "starting", ""
        if halt is not None:
            return halt.kind, halt_words(halt)
        if entry.subscription.paused:
            return "paused", BY_CONFIGURATION
        return "elsewhere", ""

    def attempts(self, subscription: str | None, limit: int) -> Iterable[Attempt]:
        supervisor = self._parts.supervisor
        return () if supervisor is None else supervisor.remembered(subscription, limit)

    def waiting(self, subscription: str | None, event_id: str) -> Sequence[Waiting]:
        supervisor = self._parts.supervisor
        return [] if supervisor is None else supervisor.waiting(subscription, event_id)

    async def declared(self) -> Sequence[Subscription]:
        await self._parts.catalog.refresh()
        return self._parts.catalog.subscriptions

    def halts(self) -> Mapping[str, Halt]:
        return self._parts.catalog.halts

    async def lag(self) -> Sequence[GroupLag]:
        found: list[GroupLag] = []
        for name, log in self.logs.items():
            subscriptions = [
                each for each in self._parts.catalog.subscriptions if each.source.broker == name
            ]
            if not subscriptions or not (await log.health()).healthy:
                continue
            topics = sorted({topic for each in subscriptions for topic in each.source.topics})
            groups = [group_name(self.installation, each.id) for each in subscriptions]
            try:
                found += (await log.metadata(topics, groups)).groups
            except SkybridgeError:  # it went away in between; its health says so
                continue
        return found

    def _broken(self) -> list[str]:
        """Kept by the store and not run: said, and no reason to take this process out of service."""
        return [
            f"subscription {each.id} is broken: {'; '.join(each.faults)}"
            for each in self._parts.catalog.broken()
        ]

    async def _store_fares(self) -> list[str]:
        """A store in trouble holds up dead letters and nothing else: it is named, no more."""
        health = await self._asking.ask("store", self.store.health)
        return [] if health.healthy else [f"store: {health.cause}"]

    def views(self) -> Sequence[KafkaListenerView]:
        return [each.fares(name) for name, each in self.listeners.items()]

    def tallies(self) -> Mapping[str, Tally]:
        events = self._parts.events
        return {} if events is None else events.intakes.tallies()

    async def disks(self) -> Mapping[str, DiskView]:
        return await disks(folders_of(self._parts.config))

    async def _certificates(self) -> Mapping[str, float]:
        return await self._expiries.of(
            certificates_of(self._parts.config, self._parts.catalog.subscriptions)
        )

    def _ready(self, ready: bool, causes: list[str]) -> RoleReadiness:
        if self.draining:
            return RoleReadiness(ready=False, causes=["the service is stopping"])
        if not self.begun:
            return RoleReadiness(ready=False, causes=["the service is starting"])
        return RoleReadiness(ready=ready, causes=[*causes, *FAILURES.causes()])


class _NoSpools:
    async def states(self) -> Sequence[SpoolView]:
        return ()


Faults = Mapping[str, Mapping[str, str]]
"""By broker and place: why nothing can be published there."""


def routes_fare(
    routes: Sequence[Route], healths: Mapping[LogName, Health], faults: Faults
) -> tuple[bool, list[str]]:
    """Ready when at least one route can accept; each that cannot says why."""
    if not routes:
        return False, ["no route is configured: add one under routes"]
    hindered = {route.name: list(_hindrances(route, healths, faults)) for route in routes}
    causes = [f"route {name}: {cause}" for name, each in hindered.items() for cause in each]
    return not all(hindered.values()), causes


def _hindrances(route: Route, healths: Mapping[LogName, Health], faults: Faults) -> Iterator[str]:
    for target in route.to:
        health = healths[log_of(route, target)]
        spool = route.spool
        if not health.healthy and spool is not None and healths[LogName(spool.broker)].healthy:
            continue  # its events wait in the spool, and are accepted
        if not health.healthy:
            yield f"broker {target.broker}: {health.cause}"
        elif fault := _fault(target, faults):
            yield f"{target.broker}/{target.place}: {fault}"


def _sinks_fare(subscriptions: Sequence[Subscription], faults: Faults) -> tuple[bool, list[str]]:
    """A mirror whose topic is missing delivers nothing; a dead-letter topic that is missing holds up
    dead letters alone, and is named, no more."""
    mirrors, letters = [], []
    for each in subscriptions:
        if isinstance(each.sink, Target | Exchange) and (fault := _fault(each.sink, faults)):
            mirrors.append(f"subscription {each.id}: {each.sink_text}: {fault}")
        if each.dead_letter is not None and (fault := _fault(each.dead_letter, faults)):
            letters.append(f"subscription {each.id}: dead letters: {fault}")
    return not mirrors, mirrors + letters


def _fault(target: Target | Exchange, faults: Faults) -> str:
    if not is_fixed(target):
        return ""
    return faults.get(target.broker, {}).get(fixed_place(target), "")


def _subscriptions_fare(subscriptions: Sequence[SubscriptionStatus]) -> tuple[bool, list[str]]:
    """Ready when each has begun and none has given up; what hinders one is named all the same."""
    causes = [_hindered(each) for each in subscriptions if not each.ready or each.cause]
    return all(each.ready or each.state == "broken" for each in subscriptions), causes


def _hindered(each: SubscriptionStatus) -> str:
    if each.state == "disabled":
        return disabled_words(each.id, each.cause)
    return f"subscription {each.id} is {each.state}" + (f": {each.cause}" if each.cause else "")


def _last_error(attempts: Sequence[Attempt]) -> str:
    """Of the newest attempt that came to nothing: what the target said."""
    failed = next((each for each in attempts if each.outcome != "delivered"), None)
    if failed is None:
        return ""
    return " ".join(
        text for text in (failed.outcome, str(failed.status or ""), failed.detail) if text
    )
