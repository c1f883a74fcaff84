"""From a subscription to what takes events out of its webhook's answers."""

from __future__ import annotations

from collections.abc import Mapping

from app.config.key_mappers import load_key_mappers
from app.config.kinds import manners_of
from app.config.model import Config
from app.errors import SetupError
from app.interfaces import Log
from app.model.subscription import IGNORE, Subscription
from app.routing.plan import Router
from app.sinks.replies import Replies
from app.telemetry import Counters


def replies_for(
    subscription: Subscription, config: Config, logs: Mapping[str, Log], counters: Counters
) -> Replies | None:
    """Raises SetupError for a route that nobody configured."""
    name = subscription.reply
    if name == IGNORE:
        return None
    routes = [route for route in config.routes if route.name == name]
    if not routes:
        raise SetupError(
            f"there is no route {name!r}",
            setting=f"subscriptions.{subscription.id}.reply",
            cure=f"name one of: {', '.join(route.name for route in config.routes) or 'none is configured'}",
        )
    kinds = {broker: settings.kind for broker, settings in config.brokers.items()}
    router = Router(routes, load_key_mappers(routes), kinds, manners_of(config))
    return Replies(subscription.id, name, router, logs, counters, most=config.limits.max_batch)
