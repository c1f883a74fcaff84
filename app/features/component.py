"""The interface of each part of a service: it starts and stops, applies another configuration, and reports
its health.

A reload first calls ``prepare`` of all components. This step may fail, but nothing that was prepared is in
use yet. Then the reload calls ``apply`` of all components without a pause in between. So no request is
handled by a mixture of two configurations.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Awaitable, Sequence
from typing import TYPE_CHECKING, Any, Generic, Literal, NamedTuple, TypeVar, cast

from app.config.diff.difference import Difference
from app.config.load.loader import Loaded
from app.config.model.config import Config
from app.model.cause import Cause

if TYPE_CHECKING:
    from app.api.status.families import Family

Role = Literal["gateway", "worker"]
"""A role of a process."""
ROLES: tuple[Role, ...] = ("gateway", "worker")

RELEASE = 5.0  # seconds beyond the drain timeout, after which the stop no longer waits for a part

P = TypeVar("P")
"""The type of the object that a component prepares for another configuration."""

_log = logging.getLogger(__name__)


class ComponentHealth(NamedTuple):
    """The health of a component for one role. ``ready`` is False if the component prevents readiness.
    ``causes`` has all its problems, including those that do not prevent readiness."""

    ready: bool = True
    causes: Sequence[Cause] = ()


WELL = ComponentHealth()
"""The health of a component without problems."""


class ConfigChange:
    """A configuration that is about to be applied. It has the differences to the current configuration, and
    the objects that components prepared."""

    def __init__(self, loaded: Loaded, found: Difference, *, rereads: bool = False) -> None:
        """Store the loaded configuration and its difference. ``rereads`` is True if the content of a file has
        changed that the configuration names."""
        self.loaded = loaded
        self.found = found
        self.rereads = rereads
        self._prepared: dict[Component[Any], Any] = {}

    @property
    def config(self) -> Config:
        """Return the new configuration."""
        return self.loaded.config

    def concerns(self, section: str) -> bool:
        """Return True if a setting of this section has changed."""
        return any(each.setting.startswith(f"{section}.") for each in self.found.changes)

    def keep(self, component: Component[P], prepared: P) -> None:
        """Store the object that a component has prepared."""
        self._prepared[component] = prepared

    def of(self, component: Component[P]) -> P:
        """Return the object that a component has prepared. The component must start earlier than the caller,
        otherwise it has prepared nothing yet."""
        return cast("P", self._prepared[component])


class Component(Generic[P]):
    """A part of a service. ``P`` is the type of the object that it prepares for another configuration.

    A component has one immutable policy, made from the configuration. ``apply`` replaces it by one
    assignment. State that survives a reload (connections, counters, deliveries in flight) belongs to the
    component. A subclass overrides only the methods that it needs.
    """

    name = ""

    async def start(self) -> None:
        """Start to work. Components that come earlier in the list have started already. If the start fails,
        raise SetupError and leave nothing running."""

    def leave(self) -> None:
        """Note that the service will stop after ``timeouts.not_ready``, and still do all work."""

    async def stop(self, drain: float) -> None:
        """Accept no new work, finish the current work within ``drain`` seconds, and release all resources."""

    async def prepare(self, change: ConfigChange) -> P:  # noqa: ARG002 - subclasses use it
        """Create the objects that another configuration needs. They are not used yet.

        Raises:
            SetupError: The configuration cannot be applied.
            BrokerError: A broker does not respond; a later reload may succeed.
            StoreUnavailable: The store does not respond; a later reload may succeed.
        """
        return cast("P", None)

    def discard(self) -> None:
        """Release the objects that were prepared, because they will not be applied."""

    def apply(self, prepared: P) -> None:
        """Use the prepared objects from now on. This method cannot fail."""

    async def retire(self) -> None:
        """Wait until everything that the last ``apply`` replaced has ended."""

    async def health(self, role: Role) -> ComponentHealth:  # noqa: ARG002 - subclasses use it
        """Return the health of this component for a role."""
        return WELL

    async def metrics(self) -> Sequence[Family]:
        """Return the metrics that are measured now, in addition to the counters that all components share."""
        return ()


@contextlib.asynccontextmanager
async def stop_if_start_fails(component: Component[Any]) -> AsyncIterator[None]:
    """Stop a component if its start fails, because parts of it may already run."""
    try:
        yield
    except BaseException:
        await component.stop(0.0)
        raise


async def stop_part(what: str, stopping: Awaitable[None], seconds: float) -> None:
    """Wait until one part has stopped, at most ``seconds`` plus ``RELEASE``. If the part fails or hangs, log
    that, so that the other parts can stop."""
    try:
        async with asyncio.timeout(seconds + RELEASE):
            await stopping
    except TimeoutError:
        _log.error("%s did not stop within %g s", what, seconds + RELEASE)
    except Exception:  # noqa: BLE001 - logged, so that the other parts stop
        _log.exception("%s did not stop cleanly", what)
