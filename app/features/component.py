"""What every part of a service is: it starts and stops, takes up another configuration, and says how it is.

A reload asks all components to ``prepare`` first. That may fail, and nothing of it is in use yet. Then it calls
``apply`` of all without a pause in between, so nobody ever sees one part under the new configuration and another under
the old one.
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

if TYPE_CHECKING:
    from app.api.status.families import Family

Role = Literal["gateway", "worker"]
ROLES: tuple[Role, ...] = ("gateway", "worker")

RELEASE = 5.0  # seconds beyond the drain bound; a part that takes longer is left behind

P = TypeVar("P")

_log = logging.getLogger(__name__)


class Health(NamedTuple):
    """Whether a component lets a role be ready. ``causes``: what is wrong, also where it does not make the role
    unready."""

    ready: bool = True
    causes: Sequence[str] = ()


WELL = Health()


class Change:
    """A configuration on its way into force: how it differs from the present one, and what was prepared for it."""

    def __init__(self, loaded: Loaded, found: Difference, *, rereads: bool = False) -> None:
        """``rereads``: a file that the configuration names has changed."""
        self.loaded = loaded
        self.found = found
        self.rereads = rereads
        self._prepared: dict[Component[Any], Any] = {}

    @property
    def config(self) -> Config:
        return self.loaded.config

    def concerns(self, section: str) -> bool:
        """Return whether a setting of this section is another one."""
        return any(each.setting.startswith(f"{section}.") for each in self.found.changes)

    def keep(self, component: Component[P], prepared: P) -> None:
        self._prepared[component] = prepared

    def of(self, component: Component[P]) -> P:
        """Return what a component has prepared. Components that come before in the service have."""
        return cast("P", self._prepared[component])


class Component(Generic[P]):
    """One part of a service. ``P`` is what it prepares for another configuration.

    A component holds one immutable policy, which the configuration says, and replaces it in ``apply`` by one
    assignment. What outlives a reload (connections, counters, what is on its way) is the component itself. What a
    component does not need, it leaves as it is here.
    """

    name = ""

    async def start(self) -> None:
        """Begin to work; the components before it have begun. Raises SetupError, and leaves nothing behind then."""

    async def stop(self, drain: float) -> None:
        """Take nothing new, finish what is under way within ``drain`` seconds, and let go of everything."""

    async def prepare(self, change: Change) -> P:  # noqa: ARG002 - for those that take it
        """Make what another configuration says. Nothing is in use yet. Raises SetupError, and BrokerError or
        StoreUnavailable for what may work later."""
        return cast("P", None)

    def discard(self) -> None:
        """Let go of what was prepared: it will not be applied."""

    def apply(self, prepared: P) -> None:
        """Put what was prepared in force. It cannot fail."""

    async def retire(self) -> None:
        """Return when what the last ``apply`` replaced has ended."""

    async def health(self, role: Role) -> Health:  # noqa: ARG002 - for those that take it
        """Return whether ``role`` can be ready as far as this component knows."""
        return WELL

    async def metrics(self) -> Sequence[Family]:
        """Return what is measured at this moment, beside the counters that all components share."""
        return ()


@contextlib.asynccontextmanager
async def undone(component: Component[Any]) -> AsyncIterator[None]:
    """Stop a component again if its start fails halfway."""
    try:
        yield
    except BaseException:
        await component.stop(0.0)
        raise


async def stopped(what: str, stopping: Awaitable[None], seconds: float) -> None:
    """Wait for one part to stop, at most ``seconds`` and ``RELEASE``. A part that fails or hangs is logged: it must not
    keep the others from stopping."""
    try:
        async with asyncio.timeout(seconds + RELEASE):
            await stopping
    except TimeoutError:
        _log.error("%s did not stop within %g s", what, seconds + RELEASE)
    except Exception:  # noqa: BLE001 - logged, and the others go on
        _log.exception("%s did not stop cleanly", what)
