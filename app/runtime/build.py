"""From a configuration to the parts of a service: the composition root. Nothing is started here."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Literal, NamedTuple

from app.brokers.portable import PortableLog
from app.config.key_mappers import load_key_mappers
from app.config.model import Config, ServerTls
from app.gateway.limits import Limits
from app.gateway.publish import Publisher
from app.gateway.server import EventsServer
from app.gateway.tls import Tls
from app.interfaces import Clock, Log, Sink, Store
from app.model.subscription import Subscription
from app.routing.plan import Router
from app.runtime.logs import open_logs
from app.sinks.webhook import WebhookSink
from app.store import open_store
from app.telemetry import Counters
from app.worker.supervisor import Supervisor

Role = Literal["gateway", "worker"]
ROLES: tuple[Role, ...] = ("gateway", "worker")


class Parts(NamedTuple):
    """What a service is made of. ``events`` and ``supervisor`` are None where their role is not run."""

    config: Config
    roles: tuple[Role, ...]
    clock: Clock
    counters: Counters
    logs: Mapping[str, PortableLog]
    store: Store
    events: EventsServer | None
    supervisor: Supervisor | None


def build(config: Config, clock: Clock, roles: Collection[Role] = ROLES) -> Parts:
    """Raises SetupError for what only shows when the parts are made."""
    counters = Counters()
    logs = open_logs(config)
    store = open_store(config.store.path, timeout=config.timeouts.store)
    return Parts(
        config=config,
        roles=tuple(role for role in ROLES if role in roles),
        clock=clock,
        counters=counters,
        logs=logs,
        store=store,
        events=_events(config, logs, counters) if "gateway" in roles else None,
        supervisor=_supervisor(config, logs, store, clock, counters) if "worker" in roles else None,
    )


def _events(config: Config, logs: Mapping[str, Log], counters: Counters) -> EventsServer:
    limits = limits_of(config)
    events = config.server.events
    router = Router(config.routes, load_key_mappers(config.routes))
    return EventsServer(
        Publisher(router, logs, counters, limits=limits),
        counters,
        host=events.host,
        port=events.port,
        limits=limits,
        tls=tls_of(events.tls),
    )


def limits_of(config: Config) -> Limits:
    """The bounds of the events listener."""
    return Limits(
        header_bytes=config.limits.header_bytes,
        header_fields=config.limits.header_fields,
        body=config.limits.body,
        receiving=config.limits.receiving,
        connections=config.limits.connections,
        batch_events=config.limits.max_batch,
        in_work=config.limits.requests_per_connection,
        in_flight=config.limits.requests_in_flight,
        head_timeout=config.timeouts.request_head,
        body_timeout=config.timeouts.request_body,
        keep_alive=config.timeouts.keep_alive,
    )


def tls_of(tls: ServerTls | None) -> Tls | None:
    return None if tls is None else Tls(certificate=tls.cert, key=tls.key)


def _supervisor(
    config: Config, logs: Mapping[str, Log], store: Store, clock: Clock, counters: Counters
) -> Supervisor:
    def sink_for(subscription: Subscription) -> Sink:
        return WebhookSink(
            allow_private=config.webhooks.allow_private,
            connections=subscription.concurrency,
            response_limit=subscription.response_limit,
            dns_timeout=config.timeouts.webhook_dns,
            connect_timeout=config.timeouts.webhook_connect,
        )

    return Supervisor(
        config.subscriptions,
        logs,
        store,
        sink_for,
        clock,
        counters,
        installation=config.installation,
    )
