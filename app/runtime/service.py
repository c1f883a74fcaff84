"""A service from its start to its end: an ordered list of components. The order is the guarantee.

start   one after the other: each needs those before it
reload  all prepare, which may fail; then all apply at once; what is old ends in its own time
stop    not ready, for as long as a load balancer needs to notice; then in reverse order, a stage at once (rule 11)

A broker that is away is no reason not to start: readiness says so, and it heals by itself.
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
from app.features.component import Change, Component, Role, stopped
from app.features.events.component import EventsComponent
from app.interfaces import Clock
from app.runtime.reload.reloader import Reloader
from app.runtime.reload.watching import hear, watch, watch_files
from app.telemetry import Counters
from app.telemetry.tasks import FAILURES, keep

C = TypeVar("C", bound=Component[Any])
Stage = Sequence[Component[Any]]
"""Components that start one after the other, and stop together."""

_log = logging.getLogger(__name__)


class Service:
    """``start`` returns when it accepts; ``events_url`` and ``admin_url`` then say where."""

    def __init__(
        self, config: Config, roles: Sequence[Role], clock: Clock, counters: Counters
    ) -> None:
        """``config``: as at the start; a reload changes no setting that is read here."""
        self.config = config
        self.roles = roles
        self.clock = clock
        self.hung_up = asyncio.Event()  # a signal asks for a reload
        self.reloader: Reloader
        self.counters = counters
        self._stages: list[Stage] = []
        self._begun = False
        self._draining = False
        self._rereading: list[asyncio.Task[None]] = []

    def add(self, *stage: Component[Any] | None) -> None:
        """Append a stage. Those that are None are left out: their role or their section is not there."""
        if present := [each for each in stage if each is not None]:
            self._stages.append(present)

    def part(self, kind: type[C]) -> C:
        """Return the component of this kind. Raises LookupError where this service has none."""
        found = self.find(kind)
        if found is None:
            raise LookupError(f"this service has no {kind.__name__}")
        return found

    def find(self, kind: type[C]) -> C | None:
        """Return the component of this kind, or None."""
        return next((each for each in self._components() if isinstance(each, kind)), None)

    @property
    def events_url(self) -> str:
        events = self.find(EventsComponent)
        return events.url if events is not None and self._begun else ""

    @property
    def admin_url(self) -> str:
        return self.part(AdminComponent).url

    @property
    def console(self) -> Console:
        return self.part(AdminComponent).console

    async def start(self) -> None:
        """Raises SetupError, with everything that had started stopped again."""
        FAILURES.counters = self.counters
        started: list[Component[Any]] = []
        try:
            for component in self._components():
                await component.start()
                started.append(component)
        except BaseException:
            for component in reversed(started):
                await stopped(component.name, component.stop(0.0), 0.0)
            raise
        self._begun = True
        self.part(AdminComponent).log_missing_console()
        self._rereading = [
            keep("configuration-file", partial(watch, self.reloader, self.clock)),
            keep("named-files", partial(watch_files, self.reloader, self.clock)),
            keep("configuration-signal", partial(hear, self.hung_up, self.reloader)),
        ]

    async def stop(self) -> None:
        """Ends within the bounds of ``timeouts.not_ready`` and ``timeouts.drain``."""
        timeouts = self.config.timeouts
        self._draining = True
        for task in self._rereading:
            task.cancel()
        await asyncio.gather(*self._rereading, return_exceptions=True)
        if timeouts.not_ready:
            _log.info(
                "stopping: not ready, still accepting for %g s; a second signal "
                "ends the process at once",
                timeouts.not_ready,
            )
        await self.clock.sleep(timeouts.not_ready)
        _log.info("draining, for at most %g s", timeouts.drain)
        for stage in reversed(self._stages):
            await asyncio.gather(
                *(stopped(each.name, each.stop(timeouts.drain), timeouts.drain) for each in stage)
            )

    async def take_up(self, change: Change) -> None:
        """Put another configuration in force, or leave everything as it is and raise what a component raised.
        Return when what is old has ended, or goes on ending in its own time."""
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
        """Return by role whether it is ready, and why not. A role that is not run is not listed."""
        return {role: await self._readiness(role) for role in self.roles}

    async def metrics(self) -> Sequence[Family]:
        """Return what all components measure now."""
        found = await asyncio.gather(*(each.metrics() for each in self._components()))
        return [
            *ready_families(await self.readiness()),
            *(family for families in found for family in families),
            *configuration_families(self.reloader),
        ]

    async def _readiness(self, role: Role) -> RoleReadiness:
        """What is made of others comes first: its causes are the nearest to what a person looks at."""
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
