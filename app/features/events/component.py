"""The events listener: its port, and the policy by which it accepts and publishes events."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from app.access.who import ProducerDirectory
from app.config.model.config import Config
from app.features.brokers.component import BrokersComponent
from app.features.brokers.logs import routes_with_spools
from app.features.component import Component, ConfigChange
from app.features.events.intakes import IntakesComponent
from app.features.events.producers import ProducersComponent, authenticator_of
from app.features.events.routes import CurrentRoutes, RoutesComponent
from app.features.listening import limits_of, tls_of
from app.features.tracing import system_of
from app.filters.cesql.expression import Failed
from app.gateway.allowed_origins import AllowedOrigins
from app.gateway.door import AddressQuotas
from app.gateway.intakes import Intakes
from app.gateway.issuers import Issuers
from app.gateway.publish import Publisher, PublishPolicy
from app.gateway.resource import ConsentReceiver, EventsPolicy
from app.gateway.server import EventsServer
from app.gateway.traced import TracedPublisher
from app.interfaces import Clock, Log
from app.model.log_name import LogName
from app.routing.plan import Router
from app.telemetry import Counters, FilterErrors
from app.telemetry.slices import in_thread
from app.telemetry.traces import traces

if TYPE_CHECKING:
    from app.features.spools import SpoolsComponent


class EventsComponentPolicy(NamedTuple):
    """The policy of publishing and the policy of the listener, with the configuration from which they were
    made."""

    config: Config
    publishing: PublishPolicy
    listening: EventsPolicy


class EventsComponent(Component[EventsComponentPolicy]):
    """The events listener, which accepts events over HTTP and publishes them."""

    name = "events"

    def __init__(
        self,
        config: Config,
        clock: Clock,
        counters: Counters,
        brokers: BrokersComponent,
        routes: RoutesComponent,
        producers: ProducersComponent,
        intakes: IntakesComponent,
        issuers: Issuers,
        spools: SpoolsComponent | None = None,
        call_back: ConsentReceiver | None = None,
    ) -> None:
        """Create the listener. ``spools`` is None if no broker of the configuration is an embedded log. Raise
        SetupError if a setting cannot be used."""
        self._clock = clock
        self._counters = counters
        self._brokers = brokers
        self._routes = routes
        self._producers = producers
        self._intakes = intakes
        self._issuers = issuers
        self._spools = spools
        self._addresses: AddressQuotas | None = None
        self._config = config
        policy = self._policy_of(config, routes_with_spools(config))
        logs = brokers.publishing
        self._publisher = _publisher(policy.publishing, logs, counters, clock, config)
        events = config.server.events
        self._server = EventsServer(
            self._publisher,
            counters,
            policy.listening,
            host=events.host,
            port=events.port,
            installation=config.installation if events.reuse_port else None,
            tls=tls_of(events.tls, asks=events.access == "producers"),
            call_back=call_back,
        )

    @property
    def url(self) -> str:
        """Return the URL of the events listener."""
        return self._server.url

    @property
    def port(self) -> int:
        """Return the port of the events listener."""
        return self._server.port

    async def start(self) -> None:
        """Start the listener.

        If the spool of a route was removed from the configuration since the last run, the route still uses
        the spool until it is empty. Whether it is empty is known only after the logs have started.
        """
        config = self._config
        if self._spools is not None and self._spools.routes != routes_with_spools(config):
            making = partial(self._policy_of, config, self._spools.routes)
            self.apply(await in_thread(making))
        await self._server.start()

    def leave(self) -> None:
        self._server.leave()

    async def stop(self, drain: float) -> None:
        await self._server.stop(drain)

    async def prepare(self, change: ConfigChange) -> EventsComponentPolicy:
        spools = () if self._spools is None else self._spools.routes
        config, routes = change.config, change.of(self._routes)
        router = await in_thread(partial(self._router, routes, tuple(spools)))
        return self._policy(config, router, change.of(self._producers), change.of(self._intakes))

    def apply(self, prepared: EventsComponentPolicy) -> None:
        self._config = prepared.config
        self._publisher.policy = prepared.publishing
        self._server.apply(prepared.listening)
        quota = prepared.config.server.events.address_quota
        if self._addresses is not None and quota is not None:
            self._addresses.apply(quota, self._clock.monotonic())

    def _policy_of(self, config: Config, spools: Collection[str]) -> EventsComponentPolicy:
        """Return the policy of a configuration. ``spools`` has the routes that publish through a spool."""
        routes = CurrentRoutes(self._routes.routes, self._routes.resources)
        router = self._router(routes, spools)
        return self._policy(config, router, self._producers.now, self._intakes.now)

    def _router(self, routes: CurrentRoutes, spools: Collection[str]) -> Router:
        """Compile the routes and their filters. ``spools`` has the routes that publish through a spool."""
        return Router(
            *routes,
            self._brokers.kinds,
            self._brokers.manners,
            failed=partial(_filter_failed, self._counters),
            invalid=partial(self._counters.add, "events_invalid"),
            spools=spools,
        )

    def _policy(
        self,
        config: Config,
        router: Router,
        producers: ProducerDirectory,
        intakes: Intakes,
    ) -> EventsComponentPolicy:
        """Return the policy with this router, these producers and these intakes."""
        limits, events = limits_of(config), config.server.events
        publishing = PublishPolicy(
            router=router,
            limits=limits,
            strict_percent=events.strict_percent,
            forward=frozenset(name.encode() for name in events.forward_headers),
            unknown_formats=events.unknown_formats,
        )
        listening = EventsPolicy(
            intakes=intakes,
            limits=limits,
            door=authenticator_of(
                config, producers, self._issuers, self._clock, self._address_quotas(config)
            ),
            senders=AllowedOrigins(origins=events.allowed_origins, rate=events.allowed_rate),
            demands_client=events.access != "producers",
        )
        return EventsComponentPolicy(config, publishing, listening)

    def _address_quotas(self, config: Config) -> AddressQuotas | None:
        """Return the quotas of client addresses, or None if the configuration has none."""
        quota = config.server.events.address_quota
        if quota is None:
            return None
        self._addresses = self._addresses or AddressQuotas(quota)
        return self._addresses


def _publisher(
    policy: PublishPolicy,
    logs: Mapping[LogName, Log],
    counters: Counters,
    clock: Clock,
    config: Config,
) -> Publisher:
    """Return the publisher of events, with traces if they are on."""
    if (tracing := traces()) is None:
        return Publisher(policy, logs, counters, monotonic=clock.monotonic)
    systems = {name: system_of(config, name) for name in config.brokers}
    return TracedPublisher(
        policy, logs, counters, monotonic=clock.monotonic, traces=tracing, systems=systems
    )


def _filter_failed(counters: Counters, route: str) -> Failed:
    """Return a function that counts and logs failed filter expressions of a route."""
    errors = FilterErrors(counters, "route", route)
    return lambda event, expression, failure: errors.note(
        event.attributes, expression, failure.reason
    )
