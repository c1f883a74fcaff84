"""The routes in force, and whether events can be published by them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from app.config.derived.route_resources import load_resources
from app.config.model.config import Config
from app.features.brokers.component import BrokersComponent
from app.features.brokers.targets import Faults
from app.features.component import WELL, Change, Component, Health, Role
from app.model.log_name import LogName
from app.model.metadata import Health as BrokerHealth
from app.model.route import Route, log_of
from app.routing.places import fixed_place, is_fixed
from app.routing.plan import Resources


class RoutesInForce(NamedTuple):
    """``resources``: what the routes name: schemas, key mappers."""

    routes: Sequence[Route]
    resources: Resources


def routes_of(config: Config) -> RoutesInForce:
    """Raises SetupError for a file or a key mapper that cannot be loaded."""
    return RoutesInForce(config.routes, load_resources(config.routes))


class RoutesComponent(Component[RoutesInForce]):
    name = "routes"

    def __init__(self, config: Config, brokers: BrokersComponent) -> None:
        self._now = routes_of(config)
        self._brokers = brokers

    @property
    def routes(self) -> Sequence[Route]:
        return self._now.routes

    @property
    def resources(self) -> Resources:
        return self._now.resources

    async def prepare(self, change: Change) -> RoutesInForce:
        return routes_of(change.config)

    def apply(self, prepared: RoutesInForce) -> None:
        self._now = prepared

    async def health(self, role: Role) -> Health:
        """A gateway is ready when at least one route can accept events; each that cannot says why."""
        if role != "gateway":
            return WELL
        return routes_fare(self.routes, await self._brokers.healths(), await self._brokers.faults())


def routes_fare(
    routes: Sequence[Route], healths: Mapping[LogName, BrokerHealth], faults: Faults
) -> Health:
    if not routes:
        return Health(False, ["no route is configured: add one under routes"])
    hindered = {route.name: list(_hindrances(route, healths, faults)) for route in routes}
    causes = [f"route {name}: {cause}" for name, each in hindered.items() for cause in each]
    return Health(not all(hindered.values()), causes)


def _hindrances(
    route: Route, healths: Mapping[LogName, BrokerHealth], faults: Faults
) -> Iterator[str]:
    for target in route.to:
        health, spool = healths[log_of(route, target)], route.spool
        if not health.healthy and spool is not None and healths[LogName(spool.broker)].healthy:
            continue  # its events wait in the spool, and are accepted
        if not health.healthy:
            yield f"broker {target.broker}: {health.cause}"
        elif is_fixed(target) and (fault := faults.get(target.broker, {}).get(fixed_place(target))):
            yield f"{target.broker}/{target.place}: {fault}"
