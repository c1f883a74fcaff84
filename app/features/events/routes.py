"""The routes of the current configuration, and their health."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from app.config.derived.route_resources import load_resources
from app.config.model.config import Config
from app.features.brokers.component import BrokersComponent
from app.features.brokers.targets import Faults
from app.features.component import WELL, Component, ComponentHealth, ConfigChange, Role
from app.model.cause import Cause, broker_subject
from app.model.log_name import LogName
from app.model.metadata import LogHealth as BrokerHealth
from app.model.route import Route, log_of
from app.routing.places import fixed_place, is_fixed
from app.routing.plan import Resources


class CurrentRoutes(NamedTuple):
    """The routes of a configuration. ``resources`` has the schemas and key mappers that the routes name."""

    routes: Sequence[Route]
    resources: Resources


def routes_of(config: Config) -> CurrentRoutes:
    """Return the routes of a configuration. Raise SetupError if a file or a key mapper cannot be loaded."""
    return CurrentRoutes(config.routes, load_resources(config.routes))


class RoutesComponent(Component[CurrentRoutes]):
    """The routes of the current configuration."""

    name = "routes"

    def __init__(self, config: Config, brokers: BrokersComponent) -> None:
        self._now = routes_of(config)
        self._brokers = brokers

    @property
    def routes(self) -> Sequence[Route]:
        """Return the routes."""
        return self._now.routes

    @property
    def resources(self) -> Resources:
        """Return the schemas and key mappers of the routes."""
        return self._now.resources

    async def prepare(self, change: ConfigChange) -> CurrentRoutes:
        return routes_of(change.config)

    def apply(self, prepared: CurrentRoutes) -> None:
        self._now = prepared

    async def health(self, role: Role) -> ComponentHealth:
        """Return the health for the gateway, which is ready if at least one route can accept events. The
        causes name each route that cannot accept events."""
        if role != "gateway":
            return WELL
        return health_of_routes(
            self.routes, await self._brokers.healths(), await self._brokers.faults()
        )


def health_of_routes(
    routes: Sequence[Route], healths: Mapping[LogName, BrokerHealth], faults: Faults
) -> ComponentHealth:
    """Return the health of the routes, from the health of the brokers and the faults of their topics and
    exchanges."""
    if not routes:
        return ComponentHealth(False, [Cause("no route is configured. Cure: add one under routes")])
    hindered = {route.name: list(_route_problems(route, healths, faults)) for route in routes}
    causes = [
        Cause(f"route {name}: {cause}", cause.subject)
        for name, each in hindered.items()
        for cause in each
    ]
    return ComponentHealth(not all(hindered.values()), causes)


def _route_problems(
    route: Route, healths: Mapping[LogName, BrokerHealth], faults: Faults
) -> Iterator[Cause]:
    """Yield the reasons why a route cannot accept events."""
    for target in route.to:
        health, spool = healths[log_of(route, target)], route.spool
        if not health.healthy and spool is not None and healths[LogName(spool.broker)].healthy:
            continue  # the spool accepts its events
        if not health.healthy:
            subject = broker_subject(target.broker)
            yield Cause(f"{subject}: {health.cause}", subject)
        elif is_fixed(target) and (fault := faults.get(target.broker, {}).get(fixed_place(target))):
            yield Cause(f"{target.broker}/{target.place}: {fault}")
