"""The admin listener as a component: the API and the console, for callers with a token."""

from __future__ import annotations

import asyncio
import logging

from app.access.rights import TokenRestriction
from app.api.access.callers import AccessToken, AdminAccess
from app.api.access.guard import TokenGuard, demand_token
from app.api.status.recorder import Recorder
from app.config.model.config import Config
from app.console.files import Console
from app.features.component import Component, ConfigChange
from app.features.listening import admin_server, limits_of
from app.gateway.listener import Listener
from app.telemetry.tasks import keep

LAST_ANSWERS = 1.0  # seconds to send due answers, after all other components have stopped

_log = logging.getLogger(__name__)


class AdminComponent(Component[Config]):
    """The port of the admin listener and its accepted tokens. ``console`` is the ASGI layer in front of the
    API."""

    name = "admin"

    def __init__(self, config: Config, guard: TokenGuard) -> None:
        """Create the listener. Raise SetupError if other machines could use it without a token."""
        admin = config.server.admin
        demand_token(admin.host, access_of(config))
        self._guard = guard
        self.console = Console(guard, shown=admin.console)
        self._listener = Listener(limits_of(config, admin=True))
        self._server = admin_server(config, self.console, self._listener)

    @property
    def url(self) -> str:
        """Return the URL of the admin listener."""
        return self._server.url

    async def start(self) -> None:
        await self._server.start()

    async def stop(self, drain: float) -> None:  # noqa: ARG002 - it answers until the end
        await self._server.stop(LAST_ANSWERS)

    async def prepare(self, change: ConfigChange) -> Config:
        demand_token(change.config.server.admin.host, access_of(change.config))
        return change.config

    def apply(self, prepared: Config) -> None:
        self._guard.apply(access_of(prepared))
        self.console.shown = prepared.server.admin.console
        self._listener.bound(limits_of(prepared, admin=True))

    def log_missing_console(self) -> None:
        """Log why the console cannot be shown. Do so only if the console is enabled but was not built."""
        if self.console.shown and (missing := self.console.missing):
            _log.info("the console at /console/ is not available: %s", missing)


class StreamsComponent(Component[None]):
    """The component that records the history of this process, and ends the streams of the API at the stop."""

    name = "streams"

    def __init__(self, recorder: Recorder, stopped: asyncio.Event) -> None:
        """Take the recorder to run, and the event that ends all streams."""
        self._recorder = recorder
        self._stopped = stopped
        self._recording: asyncio.Task[None] | None = None

    async def start(self) -> None:
        self._recording = keep("history", self._recorder.run)

    async def stop(self, drain: float) -> None:  # noqa: ARG002 - the recorder ends within a second
        self._stopped.set()
        if self._recording is not None:
            await self._recording


def access_of(config: Config) -> AdminAccess:
    """Return the tokens of the admin listener. The token ``server.admin.token`` has every scope, and each
    token in ``tokens`` has its own scopes."""
    admin = config.server.admin
    named = [
        AccessToken(
            each.name,
            [text.get_secret_value() for text in (each.token, each.previous_token) if text],
            frozenset(each.scopes),
            TokenRestriction(each.subscriptions, each.topics, each.event_sources),
            each.owner or "",
        )
        for each in admin.tokens
    ]
    single = AdminAccess.by(admin.token.get_secret_value() if admin.token else None)
    return AdminAccess([*single.tokens, *named], admin.mask, config.webhooks.configurable_targets)
