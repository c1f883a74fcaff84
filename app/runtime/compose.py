"""Create a service from a configuration. This is the only module that knows all components."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

from app.api.access.audit_trail import AuditRecorder
from app.api.asked.alerts import Alerting
from app.api.asked.brokers import Brokers
from app.api.asked.process import Process
from app.api.asked.readiness import ReadinessSource
from app.api.asked.registry import Registry
from app.api.asked.routes import KnownProducers, Routes
from app.api.asked.subscriptions import Subscriptions
from app.api.front import create_app
from app.api.http.given import ServiceParts
from app.api.status.asked import (
    AttentionSource,
    IntakeTallies,
    KafkaListeners,
    Measured,
    Spools,
    Volumes,
)
from app.api.status.configured import CurrentConfiguration
from app.api.status.recorder import Recorder
from app.config.check.source import ConfigSource
from app.config.load.loader import Loaded
from app.features.admin import AdminComponent, StreamsComponent, access_of
from app.features.alerts.component import AlertsComponent
from app.features.attention import AttentionReader
from app.features.brokers.component import BrokersComponent
from app.features.brokers.logs import has_embedded
from app.features.component import ROLES, Component, Role
from app.features.events.component import EventsComponent
from app.features.events.intakes import IntakesComponent
from app.features.events.producers import ProducersComponent
from app.features.events.routes import RoutesComponent
from app.features.kafka import KafkaComponent
from app.features.notifications import open_keeper, open_operator_events
from app.features.parts import (
    LAST_WORDS,
    AbsentFeature,
    LoggingComponent,
    SimpleComponent,
    VolumesComponent,
)
from app.features.storage.component import StorageComponent
from app.features.storage.stores import open_store, vault_of
from app.features.subscriptions.catalog import SubscriptionCatalog
from app.features.subscriptions.component import SubscriptionsComponent, budget_of
from app.features.subscriptions.registry import ApiSubscriptionRegistry
from app.features.subscriptions.sinks import SinkFactory
from app.features.subscriptions.store_watcher import StoreWatcher
from app.features.tracing import end_traces
from app.gateway.issuers import Issuers
from app.interfaces import Clock, Notify, Store, notify_nothing
from app.runtime.reload.reloader import Reloader
from app.runtime.service import Service
from app.sinks.handshake import ConsentCallbacks
from app.sinks.pull_queue import Wakeups
from app.telemetry import Counters
from app.worker.attempt_writer import AttemptWriter
from app.worker.budget import Budget
from app.worker.operator_events import OperatorEvents
from app.worker.subscription_events import SubscriptionEvents
from app.worker.supervisor import Supervisor

if TYPE_CHECKING:
    from app.features.spools import SpoolsComponent


def compose(
    loaded: Loaded,
    clock: Clock,
    roles: Collection[Role] = ROLES,
    source: ConfigSource | None = None,
    warnings: Sequence[str] = (),
    free_admin: Callable[[], Awaitable[None]] | None = None,
) -> Service:
    """Return the service of a configuration, not started yet. Raise SetupError for faults that only show when
    the components are created.

    ``source`` is where the configuration can be read again, or None without a file. ``warnings`` are those of
    the configuration, for ``/v1/config``. ``free_admin`` closes a listener that has answered the probes so
    far, just before the admin listener starts.
    """
    return _Composition(loaded, clock, roles, source, warnings, free_admin).service()


class _Composition:
    """The components of a service. Each component is created once, when another component first uses it. A
    component whose role or section is absent is None."""

    def __init__(
        self,
        loaded: Loaded,
        clock: Clock,
        roles: Collection[Role],
        source: ConfigSource | None,
        warnings: Sequence[str],
        free_admin: Callable[[], Awaitable[None]] | None,
    ) -> None:
        self.loaded = loaded
        self.free_admin = free_admin
        self.warnings = warnings
        self.config = loaded.config
        self.clock = clock
        self.roles = [role for role in ROLES if role in roles]
        self.source = source
        self.counters = Counters()
        self.wakeups = Wakeups()
        self.streams_end = asyncio.Event()
        self.issuers = Issuers(clock.monotonic)
        self.given = ServiceParts()
        self.attention = AttentionReader(self.given)

    def service(self) -> Service:
        """Return the service with all its components."""
        service = Service(self.config, self.roles, self.clock, self.counters)
        self._add_values(self.given)
        for stage in self._stages(self.given):
            service.add(*stage)
        trail = AuditRecorder(self.store, self.clock, self.notify)
        service.reloader = Reloader(
            self.source,
            self.loaded,
            service.apply_change,
            self.clock,
            self.counters,
            trail,
            self.warnings,
        )
        self._add_components(self.given, service)
        return service

    def _stages(self, given: ServiceParts) -> Sequence[Sequence[Component[Any] | None]]:
        """Return the components in the order in which they start. The components of one stage stop together."""
        return (
            (SimpleComponent("traces", stop=end_traces),),
            (LoggingComponent(),),
            (StorageComponent(self.store, self.clock),),
            (SimpleComponent("issuers", stop=self.issuers.stop),),
            (self.catalog,),
            (self.brokers,),
            (VolumesComponent(self.catalog),),
            (
                _last_to_stop("operator events", self.operator_events),
                _last_to_stop("attempts", self.keeper),
            ),
            (self.routes,),
            (self.producers,),
            (self.intakes,),
            (self.spools,),
            (SimpleComponent("standby", start=self.free_admin),),
            (self._admin(given),),
            (StreamsComponent(self.recorder, self.streams_end),),
            (_watcher_component(self.watcher),),
            (self.subscriptions, self.kafka, self.events),
            (self.alerts,),
        )

    def _add_values(self, given: ServiceParts) -> None:
        """Add to the API's parts the values that are not components."""
        given.add(Process, Process(self.config.installation, self.roles, self.clock.monotonic()))
        given.add(Store, self.store)
        given.add(Clock, self.clock)
        given.add(Counters, self.counters)
        given.add(Wakeups, self.wakeups)
        given.add(Notify, self.notify)
        given.add(Brokers, self.brokers)

    def _add_components(self, given: ServiceParts, service: Service) -> None:
        """Add to the API's parts the components, each by the protocol that it implements."""
        given.add(Routes, self.routes)
        given.add(KnownProducers, self.producers)
        given.add(Subscriptions, self.subscriptions)
        given.add(Registry, self.registry)
        given.add(IntakeTallies, self.intakes or AbsentFeature())
        given.add(Spools, self.spools or AbsentFeature())
        given.add(KafkaListeners, self.kafka)
        given.add(Volumes, service.part(VolumesComponent))
        given.add(ReadinessSource, service)
        given.add(Measured, service)
        given.add(AttentionSource, self.attention)
        given.add(Alerting, self.alerts)
        given.add(CurrentConfiguration, service.reloader)

    @cached_property
    def store(self) -> Store:
        """Return the store."""
        took = self.counters.histogram("store_seconds")
        return open_store(self.config, self.roles, took, self.clock)

    @cached_property
    def catalog(self) -> SubscriptionCatalog:
        """Return the catalogue of all subscriptions."""
        return SubscriptionCatalog(self.loaded, self.store, vault_of(self.config))

    @cached_property
    def brokers(self) -> BrokersComponent:
        """Return the component of the brokers."""
        return BrokersComponent(
            self.config,
            lambda: self.catalog.subscriptions,
            self.clock,
            self.counters,
            self.store,
        )

    @cached_property
    def operator_events(self) -> OperatorEvents | None:
        """Return the publisher of operator events, or None if they are not configured."""
        return open_operator_events(
            self.config,
            self.brokers.logs,
            self.clock,
            self.counters,
            lambda: self.catalog.subscriptions,
        )

    @cached_property
    def notify(self) -> Notify:
        """Return the function that reports operator events."""
        return notify_nothing if self.operator_events is None else self.operator_events.notify

    @cached_property
    def keeper(self) -> AttemptWriter | None:
        """Return the writer of attempts, or None in a process without workers."""
        if "worker" not in self.roles:
            return None
        return open_keeper(self.config, self.store, self.counters)

    @cached_property
    def routes(self) -> RoutesComponent:
        return RoutesComponent(self.config, self.brokers)

    @cached_property
    def producers(self) -> ProducersComponent:
        return ProducersComponent(self.config, self.clock)

    @cached_property
    def intakes(self) -> IntakesComponent | None:
        if "gateway" not in self.roles:
            return None
        return IntakesComponent(self.config, self.clock, self.counters)

    @cached_property
    def spools(self) -> SpoolsComponent | None:
        """Return the component of the spools, or None without a gateway or an embedded log."""
        if "gateway" not in self.roles or not has_embedded(self.config):
            return None
        from app.features.spools import SpoolsComponent  # noqa: PLC0415 - with the embedded log

        return SpoolsComponent(
            self.config,
            self.brokers.logs,
            self.brokers.publishing,
            self.store,
            self.clock,
            self.counters,
            self.notify,
            alone="worker" in self.roles,  # several gateways without workers may share a store
        )

    @cached_property
    def callbacks(self) -> ConsentCallbacks | None:
        """Return the pending consents of webhooks, or None without a callback URL. A worker asks for consent,
        and any gateway that shares the store receives the answer."""
        base = self.config.webhooks.callback
        return ConsentCallbacks(base, self.store.consents, self.store.clock.now) if base else None

    @cached_property
    def sinks(self) -> SinkFactory:
        return SinkFactory(self.brokers.publishing, self.clock, self.callbacks, self.counters)

    @cached_property
    def supervisor(self) -> Supervisor | None:
        """Return the supervisor of deliveries, or None in a process without workers."""
        if self.keeper is None:
            return None
        return Supervisor(
            self.config.subscriptions,
            self.brokers.logs,
            self.store,
            self.sinks.of(self.config),
            self.clock,
            self.counters,
            installation=self.config.installation,
            kinds=self.brokers.kinds,
            wakeups=self.wakeups,
            notify=self.notify,
            keep=self.keeper.note,
            budget=Budget(*budget_of(self.config)),
        )

    @cached_property
    def alerts(self) -> AlertsComponent:
        return AlertsComponent(self.config, self.clock, self.store, self.attention.findings)

    @cached_property
    def watcher(self) -> SubscriptionEvents | None:
        """Return the watcher that turns states of subscriptions into operator events, or None."""
        if self.supervisor is None or self.operator_events is None:
            return None
        return SubscriptionEvents(self.supervisor.status, self.clock, self.notify)

    @cached_property
    def subscriptions(self) -> SubscriptionsComponent:
        """Return the component of the subscriptions."""
        store_watcher = StoreWatcher(
            self.catalog, self.supervisor, self.brokers, self.clock, self.callbacks
        )
        return SubscriptionsComponent(
            self.catalog, self.brokers, self.supervisor, self.sinks, store_watcher, self.clock
        )

    @cached_property
    def registry(self) -> ApiSubscriptionRegistry:
        """Return the registry of subscriptions for the API."""
        return ApiSubscriptionRegistry(
            self.catalog, forget=self.brokers.forget, look=self.subscriptions.look
        )

    @cached_property
    def kafka(self) -> KafkaComponent:
        return KafkaComponent(
            self.config,
            self.clock,
            self.counters,
            self.brokers.logs,
            self.producers,
            self.subscriptions,
        )

    @cached_property
    def events(self) -> EventsComponent | None:
        """Return the events listener, or None in a process without a gateway."""
        if self.intakes is None:
            return None
        return EventsComponent(
            self.config,
            self.clock,
            self.counters,
            self.brokers,
            self.routes,
            self.producers,
            self.intakes,
            self.issuers,
            self.spools,
            None if self.callbacks is None else self.callbacks.call,
        )

    @cached_property
    def recorder(self) -> Recorder:
        """Return the recorder of the history."""
        return Recorder(self.subscriptions, self.store, self.counters, self.clock, self.streams_end)

    def _admin(self, given: ServiceParts) -> AdminComponent:
        """Return the admin listener."""
        guard = create_app(
            given,
            allowed=access_of(self.config),
            stopped=self.streams_end,
            recorder=self.recorder,
        )
        return AdminComponent(self.config, guard)


def _watcher_component(watcher: SubscriptionEvents | None) -> SimpleComponent | None:
    """Return the component of the watcher, or None without one."""
    return None if watcher is None else SimpleComponent("watching", watcher.start, watcher.stop)


def _last_to_stop(name: str, part: OperatorEvents | AttemptWriter | None) -> SimpleComponent | None:
    """Return a component that stops after all others and has LAST_WORDS seconds for that. Return None without a
    part."""
    if part is None:
        return None
    return SimpleComponent(name, part.start, lambda: part.stop(LAST_WORDS))
