"""The parts of a service as parameters of handlers. Each part shows only what the caller may access."""

from __future__ import annotations

from typing import Annotated, Any, TypeVar, cast

from fastapi import Depends, Request

from app.api.access.callers import caller_of
from app.api.access.limited_parts import ReachableParts, reachable_parts
from app.api.asked.brokers import Brokers
from app.api.asked.registry import Registry
from app.api.asked.routes import Routes
from app.api.asked.subscriptions import Subscriptions
from app.api.http.given import ServiceParts
from app.interfaces import Clock, Notify, Store
from app.sinks.pull_queue import Wakeups
from app.telemetry import Counters

T = TypeVar("T")


def given_of(request: Request) -> ServiceParts:
    """Return the parts of the service that answers this request."""
    return cast("ServiceParts", request.app.state.given)


async def _reached(request: Request) -> ReachableParts:
    return await reachable_parts(given_of(request), caller_of(request.scope))


Parts = Annotated[ReachableParts, Depends(_reached)]
"""A handler parameter: the parts of the service. They show only what the caller may access."""


def uses(kind: type[T]) -> Any:
    """Return a FastAPI dependency that provides the part of this kind. The part shows only what the caller
    may access."""

    async def part(parts: Parts) -> T:
        return parts.of(kind)

    return Depends(part)


BrokersDep = Annotated[Brokers, uses(Brokers)]
ClockDep = Annotated[Clock, uses(Clock)]
CountersDep = Annotated[Counters, uses(Counters)]
NotifyDep = Annotated[Notify, uses(Notify)]
RegistryDep = Annotated[Registry, uses(Registry)]
RoutesDep = Annotated[Routes, uses(Routes)]
StoreDep = Annotated[Store, uses(Store)]
SubscriptionsDep = Annotated[Subscriptions, uses(Subscriptions)]
WakeupsDep = Annotated[Wakeups, uses(Wakeups)]
"""A handler parameter: the wake-ups of pull queues."""
