"""One process becomes what another configuration says: everything that can fail first, then the swap.

The swap has no ``await`` in it but the one for the store's subscriptions, which comes first: between two
requests, two deliveries, two looks of anybody, all of it is the old configuration or all of it is the new.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from app.access.rights import Binding
from app.access.who import Producers
from app.api.access.callers import Access, AccessToken
from app.api.access.guard import TokenGuard, demand_token
from app.config.derived.route_resources import load_resources
from app.config.diff.difference import Change, Difference, rebuilds
from app.config.load.loader import Loaded
from app.config.model.config import Config
from app.console.files import Console
from app.gateway.listener import Listener
from app.gateway.server import EventsServer
from app.interfaces import Sink
from app.model.pull import Pull
from app.model.route import taking
from app.model.subscription import IGNORE, Subscription
from app.routing.plan import Resources
from app.runtime.build import Parts, budget_of, limits_of, open_events, sinks_of
from app.runtime.logs import rebound
from app.runtime.producers import door_of
from app.runtime.state import State
from app.runtime.store_watcher import StoreWatcher
from app.telemetry import set_up_logging

if TYPE_CHECKING:
    from app.kafka_listener.sasl import Logins

RETIRED_WITHIN = 15.0  # seconds to wait for what ends; it goes on ending after that

_log = logging.getLogger(__name__)


class Built(NamedTuple):
    """Everything that a configuration is made into, not in use yet. ``rereads``: a file that it names is another
    one now."""

    loaded: Loaded
    changes: Sequence[Change]
    rereads: bool
    events: EventsServer | None
    resources: Resources
    sink_for: Callable[[Subscription], Sink]
    producers: Producers
    logins: Mapping[str, Logins | None]

    @property
    def config(self) -> Config:
        return self.loaded.config


@dataclass(eq=False)
class Renewal:
    """Of a service that runs."""

    parts: Parts
    state: State
    following: StoreWatcher
    guard: TokenGuard
    console: Console
    admin: Listener

    async def build(self, loaded: Loaded, found: Difference) -> Built:
        """Nothing is in use yet. Raises SetupError for what cannot be made, and StoreUnavailable: then the spools
        that it has opened are let go again."""
        try:
            return await self._build(loaded, found)
        except BaseException:
            if self.parts.spools is not None:
                self.parts.spools.become(self.parts.config)
            raise

    async def _build(self, loaded: Loaded, found: Difference) -> Built:
        parts, config = self.parts, loaded.config
        producers = Producers(config.producers)
        demand_token(config.server.admin.host, access_of(config))
        await parts.catalog.consider(loaded)
        if parts.spools is not None:
            await parts.spools.prepare(config)
        sink_for = sinks_of(config, parts.publishing, parts.clock, parts.callbacks, parts.counters)
        if parts.supervisor is not None:
            await _try_sinks(sink_for, config, found)
        return Built(
            loaded=loaded,
            changes=found.changes,
            rereads=loaded.files != parts.catalog.loaded.files,
            events=self.events(config, producers),
            producers=producers,
            logins={
                name: await each.logins_of(config, producers)
                for name, each in self.state.listeners.items()
            },
            resources=load_resources(config.routes),
            sink_for=sink_for,
        )

    def events(self, config: Config, producers: Producers) -> EventsServer | None:
        parts = self.parts
        if parts.events is None:
            return None
        door = door_of(config, producers, parts.issuers, parts.clock)
        spools = parts.spools.routes if parts.spools is not None else ()
        return open_events(
            config, parts.publishing, parts.counters, None, door, parts.clock, spools
        )

    async def swap(self, built: Built) -> None:
        """Returns when what is old has ended, or goes on ending in its own time."""
        parts, config = self.parts, built.config
        await parts.catalog.become(built.loaded)
        built.producers.follow(parts.producers, parts.clock.monotonic())
        self.parts = parts._replace(config=config, producers=built.producers)
        if parts.spools is not None:
            parts.spools.become(config)
        for name, logins in built.logins.items():
            self.state.listeners[name].expect(logins)
        if parts.events is not None and built.events is not None:
            parts.events.become(built.events)
        rebound(config, parts.all_logs)
        parts.registry.rebound(config.limits.subscriptions, config.limits.subscription_bytes)
        self.state.become(config, built.resources, built.producers)
        self.guard.expect(access_of(config))
        self.console.shown = config.server.admin.console
        self.admin.rebound(limits_of(config, admin=True))
        if any(each.setting.startswith("log.") for each in built.changes):
            set_up_logging(config.log.level, as_json=config.log.format == "json")
        if parts.supervisor is not None:
            parts.supervisor.renew(built.sink_for, self._touched(built), budget_of(config))
        await self._retire()

    def _touched(self, built: Built) -> list[str]:
        """Subscriptions of file and API whose own settings are the same."""
        return [each.id for each in self.parts.catalog.subscriptions if _rebuilds(built, each)]

    async def _retire(self) -> None:
        ending = self.following.renew()
        _, left = await asyncio.wait((ending,), timeout=RETIRED_WITHIN)
        if left:
            _log.warning("changed subscriptions are still ending and will restart")


def _rebuilds(built: Built, subscription: Subscription) -> bool:
    """Also where a schema is another one now, whose file the route of its replies only names."""
    routes = () if subscription.reply == IGNORE else taking(built.config.routes, subscription.reply)
    posts = isinstance(subscription.sink, str)
    checked = built.rereads and any(route.data_schema for route in routes)
    replies = {route.name for route in routes}
    return posts and (checked or rebuilds(built.changes, posts=posts, replies=replies))


async def _try_sinks(
    sink_for: Callable[[Subscription], Sink], config: Config, found: Difference
) -> None:
    """A file that cannot be read or a key that is none is told now, not by a subscription that is broken."""
    named = {each.name for each in found.changes if each.setting.startswith("subscriptions.")}
    for each in config.subscriptions:
        is_pulled = isinstance(each.sink, Pull)  # its queue needs nothing that could be wrong
        if not is_pulled and (each.id in named or each.id in found.restarted):
            await sink_for(each).stop()


def access_of(config: Config) -> Access:
    """``server.admin.token`` has every scope, those of ``tokens`` have their own."""
    admin = config.server.admin
    named = [
        AccessToken(
            each.name,
            [text.get_secret_value() for text in (each.token, each.previous_token) if text],
            frozenset(each.scopes),
            Binding(each.subscriptions, each.topics, each.event_sources),
        )
        for each in admin.tokens
    ]
    every = Access.by(admin.token.get_secret_value() if admin.token else None)
    return Access([*every.tokens, *named], admin.mask, config.webhooks.configurable_targets)
