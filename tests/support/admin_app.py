"""Build the admin API over a fake service. No other module of the tests knows how the API is made."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

import httpx

from app.api.access.callers import AdminAccess
from app.api.asked.alerts import Alerting, AlertView
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
from app.interfaces import Clock, Notify, Store
from app.model.operator_verdict import OperatorVerdict
from app.sinks.pull_queue import Wakeups
from app.telemetry import Counters

_ITSELF = (
    *(Brokers, IntakeTallies, KafkaListeners, Measured, Process, ReadinessSource, Routes),
    *(Subscriptions, Volumes),
)
_NAMED: Mapping[type[Any], str] = {
    Clock: "clock",
    CurrentConfiguration: "configured",
    Counters: "counters",
    KnownProducers: "producers",
    Notify: "notify",
    Registry: "registry",
    Spools: "spools",
    Store: "store",
    Wakeups: "wakeups",
}


class _Named:
    """A proxy of one attribute of the service. It looks the attribute up at each use, so a test may replace the
    attribute later."""

    def __init__(self, service: Any, name: str) -> None:
        self._service = service
        self._name = name

    def __getattr__(self, name: str) -> Any:
        return getattr(getattr(self._service, self._name), name)

    def __call__(self, *arguments: Any) -> Any:
        return getattr(self._service, self._name)(*arguments)


class _NoAlerts:
    """A fake service has no alerts."""

    def views(self) -> Sequence[AlertView]:
        return ()

    async def test(self, _name: str) -> None:
        return None


class _NoNeeds:
    """A fake service needs nobody."""

    async def attention(self) -> Sequence[OperatorVerdict]:
        return ()


def given_by(service: Any) -> ServiceParts:
    """Return the components that the API needs, taken from a fake service or from its attributes."""
    given = ServiceParts()
    parts: Sequence[tuple[type[Any], Any]] = (
        *((kind, service) for kind in _ITSELF),
        *((kind, _Named(service, name)) for kind, name in _NAMED.items()),
    )
    for kind, part in parts:
        given.add(kind, part)
    given.add(AttentionSource, _NoNeeds())
    given.add(Alerting, _NoAlerts())
    return given


def admin_app(
    service: Any, allowed: AdminAccess | None = None, stopped: asyncio.Event | None = None
) -> Any:
    """Return the ASGI application of the admin API over a fake service.

    Args:
        service: The object from which the API gets all that it needs.
        allowed: The access rights of callers. By default every caller on loopback may do
            everything.
        stopped: The event that ends open streams. By default a new event that is never set.
    """
    given, stopped = given_by(service), stopped or asyncio.Event()
    parts = (given.of(Subscriptions), given.of(Store), given.of(Counters), given.of(Clock))
    recorder = Recorder(*parts, stopped)
    return create_app(given, allowed=allowed or AdminAccess(), stopped=stopped, recorder=recorder)


def client_of(
    app: Any, base: str = "http://127.0.0.1", headers: dict[str, str] | None = None
) -> httpx.AsyncClient:
    """Return an HTTP client that calls the ASGI application without a socket."""
    transport = httpx.ASGITransport(app=app)
    return httpx.AsyncClient(transport=transport, base_url=base, headers=headers)
