"""The parts of a service that a handler uses, as parameters: each as the caller of the operation reaches it."""

from __future__ import annotations

from typing import Annotated, Any, TypeVar, cast

from fastapi import Depends, Request

from app.api.access.callers import caller_of
from app.api.access.reach import Reached, reached
from app.api.asked.brokers import Brokers
from app.api.asked.registry import Registry
from app.api.asked.routes import Routes
from app.api.asked.subscriptions import Subscriptions
from app.api.http.given import Given
from app.interfaces import Clock, Notify, Store
from app.sinks.pull_queue import Wakeups
from app.telemetry import Counters

T = TypeVar("T")


def given_of(request: Request) -> Given:
    return cast("Given", request.app.state.given)


async def _reached(request: Request) -> Reached:
    return await reached(given_of(request), caller_of(request.scope))


Parts = Annotated[Reached, Depends(_reached)]
"""The parts of the service, as the caller of an operation reaches them."""


def uses(kind: type[T]) -> Any:
    """Return a dependency: the part of this kind, as the caller of an operation reaches it."""

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
"""Parts that several resources use. What one resource alone uses, it names itself."""
