"""A service from its start to its end: an ordered list of components. The order is part of the guarantees.

- start: one component after the other, because each needs earlier ones.
- reload: all components prepare, which may fail. Then all apply at once. Replaced parts end in their own time.
- stop: the service is not ready until a load balancer has noticed. Then the stages stop in reverse order.

A broker that is unavailable does not prevent the start. Readiness reports it, and its log reconnects by itself.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any, TypeVar

from app.api.asked.readiness import RoleReadiness
from app.api.status.families import Family, configuration_families, ready_families
from app.config.model.config import Config
from app.console.files import Console
from app.features.admin import AdminComponent
from app.features.component import Component, ConfigChange, Role, stop_part
from app.features.events.component import EventsComponent
from app.interfaces import Clock
from app.runtime.reload.reloader import Reloader
from app.runtime.reload.watching import reload_on_signal, watch, watch_files
from app.telemetry import Counters
from app.telemetry.tasks import FAILURES, keep

C = TypeVar("C", bound=Component[Any])
Stage = Sequence[Component[Any]]
"""Components that start one after the other, and stop together."""

_log = logging.getLogger(__name__)


class Service:
    """A service of one process. ``start`` returns when it accepts requests; ``events_url`` and ``admin_url``
    are set from then on."""

    def __init__(
        self, config: Config, roles: Sequence[Role], clock: Clock, counters: Counters
    ) -> None:
        """Create a service that has no components yet. ``config`` is the configuration at the start. A reload
        cannot change the settings that are read here."""
        self.config = config
        self.roles = roles
        self.clock = clock
        self.hung_up = asyncio.Event()  # set by SIGHUP to request a reload
        self.reloader: Reloader
        self.counters = counters
        self._stages: list[Stage] = []
        self._begun = False
        self._draining = False
        self._rereading: list[asyncio.Task[None]] = []

    def add(self, *stage: Component[Any] | None) -> None:
        """Append a stage. A component that is None is left out, because its role or section is absent."""
        if present := [each for each in stage if each is not None]:
            self._stages.append(present)

    def part(self, kind: type[C]) -> C:
        """Return the component of this kind. Raise LookupError if this service has none."""
        found = self.find(kind)
        if found is None:
            raise LookupError(f"this service has no {kind.__name__}")
        return found

    def find(self, kind: type[C]) -> C | None:
        """Return the component of this kind, or None."""
        return next((each for each in self._components() if isinstance(each, kind)), None)

    @property
    def events_url(self) -> str:
        """Return the URL of the events listener, or "" before it accepts requests and without a gateway."""
        events = self.find(EventsComponent)
        return events.url if events is not None and self._begun else ""

    @property
    def admin_url(self) -> str:
        """Return the URL of the admin listener."""
        return self.part(AdminComponent).url

    @property
    def console(self) -> Console:
        """Return the console."""
        return self.part(AdminComponent).console

    async def start(self) -> None:
        """Start all components in order. If one raises SetupError, stop those that have started."""
        FAILURES.counters = self.counters
        started: list[Component[Any]] = []
        try:
            for component in self._components():
                await component.start()
                started.append(component)
        except BaseException:
            for component in reversed(started):
                await stop_part(component.name, component.stop(0.0), 0.0)
            raise
        self._begun = True
        self.part(AdminComponent).log_missing_console()
        self._rereading = [
            keep("configuration-file", partial(watch, self.reloader, self.clock)),
            keep("named-files", partial(watch_files, self.reloader, self.clock)),
            keep("configuration-signal", partial(reload_on_signal, self.hung_up, self.reloader)),
        ]

    async def stop(self) -> None:
        """Stop all components in reverse order, within ``timeouts.not_ready`` and ``timeouts.drain``."""
        timeouts = self.config.timeouts
        self._draining = True
        for task in self._rereading:
            task.cancel()
        await asyncio.gather(*self._rereading, return_exceptions=True)
        if timeouts.not_ready:
            _log.info(
                "stopping: not ready, but accepting requests for %g s. A second signal "
                "ends the process at once",
                timeouts.not_ready,
            )
        for component in self._components():
            component.leave()
        await self.clock.sleep(timeouts.not_ready)
        _log.info("draining for at most %g s", timeouts.drain)
        for stage in reversed(self._stages):
            await asyncio.gather(
                *(stop_part(each.name, each.stop(timeouts.drain), timeouts.drain) for each in stage)
            )

    async def apply_change(self, change: ConfigChange) -> None:
        """Apply another configuration to all components, or change nothing and raise what a component raised.
        Return when the replaced parts have ended, or are left to end in their own time."""
        components = list(self._components())
        asked: list[Component[Any]] = []
        try:
            for component in components:
                asked.append(component)
                change.keep(component, await component.prepare(change))
        except BaseException:
            for component in reversed(asked):
                component.discard()
            raise
        for component in components:
            component.apply(change.of(component))
        for component in components:
            await component.retire()

    async def readiness(self) -> Mapping[str, RoleReadiness]:
        """Return the readiness of each role of this process, with the causes."""
        return {role: await self._readiness(role) for role in self.roles}

    async def metrics(self) -> Sequence[Family]:
        """Return the metrics that all components measure now."""
        readiness, found = await asyncio.gather(
            self.readiness(), asyncio.gather(*(each.metrics() for each in self._components()))
        )
        return [
            *ready_families(readiness),
            *(family for families in found for family in families),
            *configuration_families(self.reloader),
        ]

    async def _readiness(self, role: Role) -> RoleReadiness:
        """Return the readiness of one role. Causes of later components come first, because an operator sees
        their effects first."""
        components = reversed(list(self._components()))
        found = await asyncio.gather(*(each.health(role) for each in components))
        if self._draining:
            return RoleReadiness(ready=False, causes=["the service is stopping"])
        if not self._begun:
            return RoleReadiness(ready=False, causes=["the service is starting"])
        causes = [cause for each in found for cause in each.causes]
        ready = all(each.ready for each in found)
        return RoleReadiness(ready=ready, causes=[*causes, *FAILURES.causes()])

    def _components(self) -> Iterator[Component[Any]]:
        return (component for stage in self._stages for component in stage)
