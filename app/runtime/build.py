"""From a configuration to the parts of a service: the composition root. Nothing is started here."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from functools import partial
from typing import TYPE_CHECKING, Literal, NamedTuple

from app.access.who import Producers
from app.brokers.portable import PortableLog
from app.config.derived.kinds import kinds_of, manners_of
from app.config.derived.route_resources import load_resources
from app.config.load.loader import Loaded
from app.config.model.config import Config, ServerTls
from app.filters.cesql.expression import Failed
from app.gateway.allowed_origins import Senders
from app.gateway.door import Door
from app.gateway.issuers import Issuers
from app.gateway.limits import Limits
from app.gateway.publish import Publisher
from app.gateway.resource import CallBack
from app.gateway.server import EventsServer
from app.gateway.tls import Tls
from app.gateway.traced import TracedPublisher
from app.interfaces import Clock, Log, Sink, Store, silence
from app.model.log_name import LogName
from app.model.subscription import Subscription
from app.routing.plan import Router
from app.runtime.descriptors import current_shares
from app.runtime.intakes import open_intakes
from app.runtime.logs import (
    forget_group,
    has_embedded,
    open_logs,
    routes_with_spools,
    with_relaxed_logs,
)
from app.runtime.notifications import open_keeper, open_operator_events
from app.runtime.producers import door_of
from app.runtime.registry import Registry
from app.runtime.sinks import open_sink
from app.runtime.stores import open_store
from app.runtime.subscription_catalog import SubscriptionCatalog
from app.runtime.tracing import system_of
from app.sinks.handshake import Callbacks
from app.sinks.pull_queue import Wakeups
from app.store.encryption import Vault
from app.telemetry import Counters, FilterErrors
from app.telemetry.traces import traces
from app.worker.alerts import Watcher
from app.worker.attempt_writer import AttemptKeeper
from app.worker.budget import Budget
from app.worker.operator_events import OperatorEvents
from app.worker.supervisor import Supervisor

if TYPE_CHECKING:
    from app.runtime.spools import Spools

Role = Literal["gateway", "worker"]
ROLES: tuple[Role, ...] = ("gateway", "worker")


class Parts(NamedTuple):
    """What a service is made of. ``logs``: of brokers, by name. ``all_logs``: these, and those of relaxed routes.
    ``publishing``: all that events are published through, also the spools of routes. ``events`` and ``supervisor`` are None where their role is not run, ``spools``
    where no events are taken, or no log is embedded."""

    config: Config
    roles: tuple[Role, ...]
    clock: Clock
    counters: Counters
    logs: Mapping[str, PortableLog]
    all_logs: Mapping[LogName, PortableLog]
    publishing: Mapping[LogName, Log]
    store: Store
    events: EventsServer | None
    supervisor: Supervisor | None
    catalog: SubscriptionCatalog
    registry: Registry
    wakeups: Wakeups
    keeper: AttemptKeeper | None
    operator_events: OperatorEvents | None
    watcher: Watcher | None
    issuers: Issuers
    producers: Producers
    callbacks: Callbacks | None = None
    spools: Spools | None = None


def build(
    config: Config,
    clock: Clock,
    roles: Collection[Role] = ROLES,
    *,
    loaded: Loaded | None = None,
) -> Parts:
    """Raises SetupError for what only shows when the parts are made. ``loaded``: the same configuration
    with the places where it was written."""
    counters, wakeups = Counters(), Wakeups()
    store = open_store(config, roles, counters.histogram("store_seconds"))
    logs = open_logs(config, store.offsets, counters)
    callbacks = callbacks_of(config, store, clock)
    catalog = SubscriptionCatalog(loaded or Loaded.of(config), store, vault_of(config))
    told = open_operator_events(config, logs, clock, counters, lambda: catalog.subscriptions)
    keeper = open_keeper(config, store.attempts, clock, counters) if "worker" in roles else None
    spools: Spools | None = None
    all_logs = with_relaxed_logs(config, logs, counters)
    publishing: dict[LogName, Log] = {**all_logs}
    if "gateway" in roles and has_embedded(config):
        from app.runtime.spools import Spools  # noqa: PLC0415 - with the log

        notify = silence if told is None else told.notify
        alone = "worker" in roles  # gateways apart may be several, on one store
        spools = Spools(config, logs, publishing, store, clock, counters, notify, alone=alone)
    issuers, producers = Issuers(clock.monotonic), Producers(config.producers)
    supervisor = (
        _supervisor(
            config, logs, publishing, store, clock, counters, callbacks, wakeups, told, keeper
        )
        if keeper is not None
        else None
    )
    return Parts(
        config=config,
        roles=tuple(role for role in ROLES if role in roles),
        clock=clock,
        counters=counters,
        logs=logs,
        all_logs=all_logs,
        publishing=publishing,
        store=store,
        events=open_events(
            config,
            publishing,
            counters,
            callbacks.call if callbacks else None,
            door_of(config, producers, issuers, clock),
            clock,
            routes_with_spools(config),
        )
        if "gateway" in roles
        else None,
        supervisor=supervisor,
        catalog=catalog,
        registry=Registry(
            catalog,
            store,
            clock,
            most=config.limits.subscriptions,
            largest_document=config.limits.subscription_bytes,
            forget=partial(forget_group, config, logs),
        ),
        wakeups=wakeups,
        keeper=keeper,
        operator_events=told,
        watcher=Watcher(supervisor.status, clock, told.notify) if supervisor and told else None,
        issuers=issuers,
        producers=producers,
        callbacks=callbacks,
        spools=spools,
    )


def vault_of(config: Config) -> Vault:
    encryption = config.store.encryption
    if encryption is None:
        return Vault(())
    keys = filter(None, (encryption.key, encryption.previous))
    return Vault([key.get_secret_value() for key in keys])


def callbacks_of(config: Config, store: Store, clock: Clock) -> Callbacks | None:
    """Where a webhook may consent later: a worker asks, any gateway of the store is called."""
    base = config.webhooks.callback
    return Callbacks(base, store.consents, clock.now) if base else None


def open_events(
    config: Config,
    logs: Mapping[LogName, Log],
    counters: Counters,
    call_back: CallBack | None,
    door: Door | None,
    clock: Clock,
    spools: Collection[str],
) -> EventsServer:
    """Not yet started. ``spools``: routes that publish by way of one."""
    limits = limits_of(config)
    events = config.server.events
    router = Router(
        config.routes,
        load_resources(config.routes),
        kinds_of(config),
        manners_of(config),
        failed=partial(_filter_failed, counters),
        invalid=partial(counters.add, "events_invalid"),
        spools=spools,
    )
    making: Callable[..., Publisher] = Publisher
    if (tracing := traces()) is not None:
        systems = {name: system_of(config, name) for name in config.brokers}
        making = partial(TracedPublisher, traces=tracing, systems=systems)
    publisher = making(
        router,
        logs,
        counters,
        limits=limits,
        strict_percent=events.strict_percent,
        forward=events.forward_headers,
        unknown_formats=events.unknown_formats,
        monotonic=clock.monotonic,
    )
    return EventsServer(
        publisher,
        counters,
        host=events.host,
        port=events.port,
        installation=config.installation if events.reuse_port else None,
        limits=limits,
        tls=tls_of(events.tls, asks=events.access == "producers"),
        senders=Senders(origins=events.allowed_origins, rate=events.allowed_rate),
        call_back=call_back,
        intakes=open_intakes(config, clock, counters),
        door=door,
    )


def _filter_failed(counters: Counters, route: str) -> Failed:
    errors = FilterErrors(counters, "route", route)
    return lambda event, expression, failure: errors.note(
        event.attributes, expression, failure.reason
    )


def limits_of(config: Config, *, admin: bool = False) -> Limits:
    """Return the bounds of the events listener, or of the admin listener: the same but for its connections."""
    allowed = current_shares(config)
    return Limits(
        header_bytes=config.limits.header_bytes,
        header_fields=config.limits.header_fields,
        body=config.limits.body,
        receiving=config.limits.receiving,
        connections=allowed.admin if admin else allowed.events,
        batch_events=config.limits.max_batch,
        in_work=config.limits.requests_per_connection,
        in_flight=config.limits.requests_in_flight,
        head_timeout=config.timeouts.request_head,
        body_timeout=config.timeouts.request_body,
        keep_alive=config.timeouts.keep_alive,
    )


def tls_of(tls: ServerTls | None, *, asks: bool = False) -> Tls | None:
    """``asks``: a client certificate is asked for and not demanded."""
    if tls is None:
        return None
    return Tls(certificate=tls.cert, key=tls.key, client_ca=tls.client_ca, demands_client=not asks)


def sinks_of(
    config: Config,
    logs: Mapping[LogName, Log],
    clock: Clock,
    callbacks: Callbacks | None,
    counters: Counters,
) -> Callable[[Subscription], Sink]:
    """What makes the sink of a subscription. It raises SetupError. ``logs``: all that are published to."""
    manners = manners_of(config)

    def sink_for(subscription: Subscription) -> Sink:
        return open_sink(subscription, config, logs, clock, manners, callbacks, counters)

    return sink_for


def budget_of(config: Config) -> tuple[int, int, int]:
    """What ``Budget`` is made of."""
    limits = config.limits
    return limits.deliveries_in_flight, limits.held_bytes, limits.body


def _supervisor(
    config: Config,
    logs: Mapping[str, Log],
    publishing: Mapping[LogName, Log],
    store: Store,
    clock: Clock,
    counters: Counters,
    callbacks: Callbacks | None,
    wakeups: Wakeups,
    told: OperatorEvents | None,
    keeper: AttemptKeeper,
) -> Supervisor:
    return Supervisor(
        config.subscriptions,
        logs,
        store,
        sinks_of(config, publishing, clock, callbacks, counters),
        clock,
        counters,
        installation=config.installation,
        kinds=kinds_of(config),
        wakeups=wakeups,
        notify=silence if told is None else told.notify,
        keep=keeper.note,
        budget=Budget(*budget_of(config)),
    )
