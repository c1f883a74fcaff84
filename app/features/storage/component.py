"""The store as a component."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from app.api.status.families import Family, store_families
from app.api.subscriptions.standings import letters_of, parked_of
from app.brokers.sharing import SingleFlight
from app.features.component import WELL, Component, ComponentHealth, Role
from app.interfaces import Clock, Store
from app.model.cause import STORE, Cause

HEALTH_KEPT = 1.0  # seconds that the health of the store is cached


class StorageComponent(Component[None]):
    """The store of this process."""

    name = "store"

    def __init__(self, store: Store, clock: Clock) -> None:
        self.store = store
        self._asking = SingleFlight(HEALTH_KEPT, clock.monotonic)

    async def start(self) -> None:
        await self.store.start()

    async def stop(self, drain: float) -> None:  # noqa: ARG002 - the store has nothing to drain
        await self.store.stop()

    async def metrics(self) -> Sequence[Family]:
        letters, parked = await asyncio.gather(letters_of(self.store), parked_of(self.store))
        return list(store_families(letters, parked))

    async def health(self, role: Role) -> ComponentHealth:
        """Return the health for the worker. A failing store is a cause but does not prevent readiness,
        because it delays dead letters only."""
        if role != "worker":
            return WELL
        found = await self._asking.ask("store", self.store.health)
        return (
            WELL
            if found.healthy
            else ComponentHealth(causes=[Cause(f"store: {found.cause}", STORE)])
        )
