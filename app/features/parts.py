"""Small components. Some only start and stop, and others only apply another configuration."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence

from app.access.caller import EventMeter
from app.api.status.answers import DiskView, SpoolView
from app.api.status.families import Family, certificate_families, volume_families
from app.config.model.config import Config
from app.features.certificates import Expiries, certificates_of
from app.features.component import Component, ConfigChange
from app.features.disks import disks, folders_of
from app.features.subscriptions.catalog import SubscriptionCatalog
from app.telemetry import set_up_logging

LAST_WORDS = 5.0  # seconds to send waiting operator events and attempts at the end


class SimpleComponent(Component[None]):
    """A component that only starts and stops, by functions that it is given."""

    def __init__(
        self,
        name: str,
        start: Callable[[], Awaitable[None]] | None = None,
        stop: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        self.name = name
        self._start = start
        self._stop = stop

    async def start(self) -> None:
        if self._start is not None:
            await self._start()

    async def stop(self, drain: float) -> None:  # noqa: ARG002 - the function has its own time
        if self._stop is not None:
            await self._stop()


class AbsentFeature:
    """A substitute for the features that this process does not run. All its lists are empty."""

    async def states(self) -> Sequence[SpoolView]:
        """Return no spools, because this process has none."""
        return ()

    def tallies(self) -> Mapping[str, EventMeter]:
        """Return no counts, because this process has no intakes."""
        return {}


class LoggingComponent(Component["Config | None"]):
    """The component for the log of the process, which is set up before the service is created. It applies
    changes of the section ``log``."""

    name = "log"

    async def prepare(self, change: ConfigChange) -> Config | None:
        return change.config if change.concerns("log") else None

    def apply(self, prepared: Config | None) -> None:
        if prepared is not None:
            set_up_logging(prepared.log.level, as_json=prepared.log.format == "json")


class VolumesComponent(Component[None]):
    """The component that observes resources which run out or expire: the volumes of the logs and the store,
    and certificates."""

    name = "volumes"

    def __init__(self, catalog: SubscriptionCatalog) -> None:
        self._catalog = catalog
        self._expiries = Expiries()

    async def disks(self) -> Mapping[str, DiskView]:
        """Return size and free space of the volumes, by folder of a log or the store."""
        return await disks(folders_of(self._catalog.loaded.config))

    async def metrics(self) -> Sequence[Family]:
        certificates = await self._certificates()
        return [*volume_families(await self.disks()), *certificate_families(certificates)]

    async def _certificates(self) -> Mapping[str, float]:
        """Return when certificates expire, in seconds since the epoch, by the setting that names the file."""
        config = self._catalog.loaded.config
        return await self._expiries.of(certificates_of(config, self._catalog.subscriptions))
