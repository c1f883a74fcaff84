"""From a subscription to its sink: what it posts to, or what it publishes to."""

from __future__ import annotations

from collections.abc import Mapping

from app.config.model import Config
from app.errors import SetupError
from app.interfaces import Clock, Log, Sink
from app.model.pull import Pull
from app.model.subscription import Subscription
from app.routing.plan import NO_MANNERS, Manner
from app.runtime.replies import replies_for
from app.runtime.tracing import traced
from app.runtime.webhooks import webhook_for
from app.sinks.callbacks import Callbacks
from app.sinks.null_sink import NullSink
from app.sinks.topic import open_topic
from app.sinks.writing import USUAL
from app.telemetry import Counters


def open_sink(
    subscription: Subscription,
    config: Config,
    logs: Mapping[str, Log],
    clock: Clock,
    manners: Mapping[str, Manner] = NO_MANNERS,
    callbacks: Callbacks | None = None,
    counters: Counters | None = None,
) -> Sink:
    """A pool of connections each, so that one target that hangs takes none from the others. Raises
    SetupError for a broker or route that nobody configured, and for a place that can be none on it."""
    target = subscription.sink
    if isinstance(target, str):
        counters = counters or Counters()
        replies = replies_for(subscription, config, logs, counters)
        webhook = webhook_for(subscription, config, clock, callbacks, replies, counters)
        return traced(webhook, subscription, config)
    if isinstance(target, Pull):
        return NullSink()
    if target.broker not in logs:
        raise SetupError(
            f"there is no broker {target.broker!r}",
            setting=f"subscriptions.{subscription.id}.sink.broker",
            cure=f"name one of: {', '.join(config.brokers) or 'none is configured'}",
        )
    publishing = open_topic(
        target,
        subscription,
        logs[target.broker],
        config.brokers[target.broker].kind,
        manner=manners.get(target.broker, USUAL),
        within=config.timeouts.publish,
    )
    return traced(publishing, subscription, config)
