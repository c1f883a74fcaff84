"""From a configuration to a service: the only place that knows all components."""

from __future__ import annotations

import asyncio
from collections.abc import Collection

from app.api.http.given import Given
from app.config.check.source import Source
from app.config.load.loader import Loaded
from app.config.model.config import Config
from app.features.component import ROLES, Component, Role
from app.features.parts import LoggingComponent, Part
from app.features.storage.component import StorageComponent
from app.features.tracing import end_traces
from app.interfaces import Clock
from app.runtime.reload.reloader import Reloader
from app.runtime.service import Service
from app.sinks.pull_queue import Wakeups
from app.telemetry import Counters


def compose(
    loaded: Loaded, clock: Clock, roles: Collection[Role] = ROLES, source: Source | None = None
) -> Service:
    """Return the service of a configuration, not yet started. ``source``: where the configuration can be read again.
    Raises SetupError for what only shows when the components are made."""
    return _Composition(loaded, clock, roles, source).service()


class _Composition:
    """Each part is made once, when the first that uses it asks for it."""

    def __init__(
        self, loaded: Loaded, clock: Clock, roles: Collection[Role], source: Source | None
    ) -> None:
        self.loaded = loaded
        self.config: Config = loaded.config
        self.clock = clock
        self.roles = [role for role in ROLES if role in roles]
        self.source = source
        self.counters = Counters()
        self.wakeups = Wakeups()
        self.given = Given()
        self.streams_end = asyncio.Event()

    def service(self) -> Service:
        service = Service(self.config, self.roles, self.clock, self.counters)
        for stage in self._stages():
            service.add(*stage)
        service.reloader = Reloader(
            self.source, self.loaded, service.take_up, self.clock, self.counters, self.trail
        )
        self._give(service)
        return service

    def _stages(self) -> list[list[Component[Any] | None]]:
        """In the order in which they start. What stands in one line stops at once."""
        return [
            [Part("traces", stop=end_traces)],
            [LoggingComponent()],
            [StorageComponent(self.store, self.clock)],
            [Part("issuers", stop=self.issuers.stop)],
            [self.catalog],
            [self.brokers],
            [VolumesComponent(self.catalog)],
            [self.operator_events and _told(self.operator_events), self.keeper and _told(self.keeper)],
            [self.routes],
            [self.producers],
            [self.intakes],
            [self.spools],
            [self.admin],
            [StreamsComponent(self.recorder, self.streams_end)],
            [self.watcher and Part("watching", self.watcher.start, self.watcher.stop)],
            [self.subscriptions, self.kafka, self.events],
        ]
