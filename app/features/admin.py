"""The admin listener, as a component: the API and the console, for those who have a token."""

from __future__ import annotations

import asyncio
import logging

from app.access.rights import TokenRestriction
from app.api.access.callers import Access, AccessToken
from app.api.access.guard import TokenGuard, demand_token
from app.api.status.recorder import Recorder
from app.config.model.config import Config
from app.console.files import Console
from app.features.component import Change, Component
from app.features.listening import limits_of, tls_of
from app.gateway.listener import Listener
from app.gateway.server import HttpServer
from app.telemetry.tasks import keep

LAST_ANSWERS = 1.0  # seconds for what is due, behind everything else

_log = logging.getLogger(__name__)


class AdminComponent(Component[Config]):
    """The port, and who may come. ``console``: the page, in front of the API."""

    name = "admin"

    def __init__(self, config: Config, guard: TokenGuard) -> None:
        """Raises SetupError for a listener that everybody could reach without a token."""
        admin = config.server.admin
        demand_token(admin.host, access_of(config))
        self._guard = guard
        self.console = Console(guard, shown=admin.console)
        self._listener = Listener(limits_of(config, admin=True))
        self._server = HttpServer(
            self.console,
            host=admin.host,
            port=admin.port,
            listener=self._listener,
            tls=tls_of(admin.tls),
            settings="server.admin.{}",
        )

    @property
    def url(self) -> str:
        return self._server.url

    async def start(self) -> None:
        await self._server.start()

    async def stop(self, drain: float) -> None:  # noqa: ARG002 - the last to answer
        await self._server.stop(LAST_ANSWERS)

    async def prepare(self, change: Change) -> Config:
        demand_token(change.config.server.admin.host, access_of(change.config))
        return change.config

    def apply(self, prepared: Config) -> None:
        self._guard.admit(access_of(prepared))
        self.console.shown = prepared.server.admin.console
        self._listener.bound(limits_of(prepared, admin=True))

    def log_missing_console(self) -> None:
        """Log why there is no page, where one is wanted."""
        if self.console.shown and (missing := self.console.missing):
            _log.info("no page at /console/: %s", missing)


class StreamsComponent(Component[None]):
    """The history of this process, and the streams of the API, which would go on for ever."""

    name = "streams"

    def __init__(self, recorder: Recorder, stopped: asyncio.Event) -> None:
        """``stopped`` ends the streams."""
        self._recorder = recorder
        self._stopped = stopped
        self._recording: asyncio.Task[None] | None = None

    async def start(self) -> None:
        self._recording = keep("history", self._recorder.run)

    async def stop(self, drain: float) -> None:  # noqa: ARG002 - it ends within a second
        self._stopped.set()
        if self._recording is not None:
            await self._recording


def access_of(config: Config) -> Access:
    """Return who may come. ``server.admin.token`` has every scope, those of ``tokens`` have their own."""
    admin = config.server.admin
    named = [
        AccessToken(
            each.name,
            [text.get_secret_value() for text in (each.token, each.previous_token) if text],
            frozenset(each.scopes),
            TokenRestriction(each.subscriptions, each.topics, each.event_sources),
        )
        for each in admin.tokens
    ]
    every = Access.by(admin.token.get_secret_value() if admin.token else None)
    return Access([*every.tokens, *named], admin.mask, config.webhooks.configurable_targets)
