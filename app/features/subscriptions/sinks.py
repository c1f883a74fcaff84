"""Create the sink of a subscription: a webhook, with the publisher of its replies, or a topic."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from app.config.derived.kinds import attested_brokers, manners_of
from app.config.derived.route_resources import load_resources
from app.config.model.config import Config
from app.errors import SetupError
from app.features.subscriptions.webhooks import webhook_for
from app.features.tracing import with_traces
from app.interfaces import Clock, Log, Sink
from app.model.log_name import LogName
from app.model.pull import Pull
from app.model.route import Exchange, Target, log_of, routes_taking
from app.model.subscription import IGNORE, Subscription
from app.routing.plan import Router
from app.routing.publications import DEFAULT_PULSAR_PROFILE, NO_PULSAR_PROFILES, PulsarProfile
from app.sinks.handshake import ConsentCallbacks
from app.sinks.replies import ReplyPublisher
from app.sinks.topic import TopicSink
from app.telemetry import Counters

SinkFor = Callable[[Subscription], Sink]
"""A function that creates the sink of a subscription. It raises SetupError if a setting cannot be used."""


class SinkFactory:
    """A factory of sinks. ``logs`` has all logs through which events are published."""

    def __init__(
        self,
        logs: Mapping[LogName, Log],
        clock: Clock,
        callbacks: ConsentCallbacks | None,
        counters: Counters,
    ) -> None:
        self._logs = logs
        self._clock = clock
        self.callbacks = callbacks
        self._counters = counters

    def of(self, config: Config) -> SinkFor:
        """Return a function that creates sinks by a configuration."""
        manners = manners_of(config)

        def sink_for(subscription: Subscription) -> Sink:
            return open_sink(
                subscription,
                config,
                self._logs,
                self._clock,
                manners,
                self.callbacks,
                self._counters,
            )

        return sink_for


def replies_for(
    subscription: Subscription, config: Config, logs: Mapping[LogName, Log], counters: Counters
) -> ReplyPublisher | None:
    """Return the publisher of a webhook's replies, or None if the subscription ignores them. Raise SetupError
    if its route does not exist."""
    name = subscription.reply
    if name == IGNORE:
        return None
    routes = routes_taking(config.routes, name)
    if not routes:
        raise SetupError(
            f"route {name!r} does not exist",
            setting=f"subscriptions.{subscription.id}.reply",
            cure=f"name one of: {', '.join(route.name for route in config.routes) or 'none is configured'}",
        )
    kinds = {broker: settings.kind for broker, settings in config.brokers.items()}
    spools = [
        each.name for each in routes if log_of(each, each.to[0])._replace(spooled=each.name) in logs
    ]
    unfiltered = [
        route.model_copy(update={"filters": ()}) for route in routes
    ]  # filters do not apply to replies
    router = Router(unfiltered, load_resources(routes), kinds, manners_of(config), spools=spools)
    return ReplyPublisher(subscription.id, name, router, logs, counters, config.limits.max_batch)


def open_sink(
    subscription: Subscription,
    config: Config,
    logs: Mapping[LogName, Log],
    clock: Clock,
    manners: Mapping[str, PulsarProfile] = NO_PULSAR_PROFILES,
    callbacks: ConsentCallbacks | None = None,
    counters: Counters | None = None,
) -> Sink:
    """Create the sink of a subscription. Each sink has its own connections, so that a target that hangs takes
    no connections from other sinks.

    Raises:
        SetupError: The broker or the route does not exist, or the name of the topic or exchange is invalid on
            the broker.
    """
    target = subscription.sink
    if not isinstance(target, Target | Exchange | Pull):
        counters = counters or Counters()
        replies = replies_for(subscription, config, logs, counters)
        webhook = webhook_for(subscription, config, clock, callbacks, replies, counters)
        return with_traces(webhook, subscription, config)
    if isinstance(target, Pull):
        raise TypeError(f"{subscription.id}: the worker creates pull queues")
    log = logs.get(LogName(target.broker))
    if log is None:
        raise SetupError(
            f"broker {target.broker!r} does not exist",
            setting=f"subscriptions.{subscription.id}.sink.broker",
            cure=f"name one of: {', '.join(config.brokers) or 'none is configured'}",
        )
    mirror = TopicSink(
        target,
        subscription,
        log,
        config.brokers[target.broker].kind,
        manner=manners.get(target.broker, DEFAULT_PULSAR_PROFILE),
        within=config.timeouts.publish,
        attested=subscription.source.broker in attested_brokers(config),
    )
    return with_traces(mirror, subscription, config)
