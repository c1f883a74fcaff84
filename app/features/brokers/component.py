"""The logs of all brokers of a configuration, as one component."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence

from app.api.status.families import Family, broker_families
from app.brokers.portable import PortableLog
from app.brokers.sharing import Shared
from app.config.derived.kinds import attested_brokers, kinds_of, manners_of
from app.config.model.config import Config
from app.errors import SkybridgeError
from app.features.brokers.logs import (
    bound_logs,
    declare_subscriptions,
    forget_group,
    open_logs,
    with_relaxed_logs,
)
from app.features.brokers.targets import Faults, Targets
from app.features.component import Change, Component, stopped, undone
from app.interfaces import Clock, Log, OffsetStore
from app.model.log_name import LogName
from app.model.metadata import GroupLag
from app.model.metadata import Health as BrokerHealth
from app.model.subscription import Subscription
from app.telemetry import Counters

HEALTH_KEPT = 1.0  # seconds between questions to the brokers: anybody may ask for readiness


class BrokersComponent(Component[Config]):
    """Opens a log for each broker, and one more for each kind of acknowledgement that relaxed routes ask for.

    ``logs``   those of the brokers, by name; ``every``: these, and those of relaxed routes.
    ``publishing``  what routes publish through: ``every``, and the spools, which add themselves.
    ``kinds``, ``manners``  kind of each broker, and how events are written to some of them.
    ``attested``  brokers whose records prove which producer sent them.
    """

    name = "brokers"

    def __init__(
        self,
        config: Config,
        subscriptions: Callable[[], Sequence[Subscription]],
        clock: Clock,
        counters: Counters,
        offsets: OffsetStore | None = None,
        *,
        logs: Mapping[str, PortableLog] | None = None,
    ) -> None:
        """``subscriptions``: all there are now. ``logs``: in place of those that the configuration has."""
        self._config = config
        self._subscriptions = subscriptions
        self.logs = open_logs(config, offsets, counters) if logs is None else logs
        self.every = with_relaxed_logs(config, self.logs, counters)
        self.publishing: dict[LogName, Log] = {**self.every}
        self.kinds = kinds_of(config)
        self.manners = manners_of(config)
        self.attested = attested_brokers(config)
        self._opened: list[tuple[LogName, PortableLog]] = []
        self._targets = Targets(self._as_if_in_the_file, self.logs, clock)
        self._asking = Shared(HEALTH_KEPT, clock.monotonic)

    async def start(self) -> None:
        """A broker that is away is no reason not to start: its health says so, and it heals by itself."""
        async with undone(self):
            for name, log in self.every.items():
                await log.start()
                self._opened.append((name, log))
                await self._declare(name.broker, self._subscriptions())

    async def stop(self, drain: float) -> None:
        """All at once: however many brokers are away, they take the time of one."""
        steps = (stopped(f"broker {name.broker}", log.stop(), drain) for name, log in self._opened)
        await asyncio.gather(*steps)

    async def prepare(self, change: Change) -> Config:
        return change.config

    def apply(self, prepared: Config) -> None:
        self._config = prepared
        self.attested = attested_brokers(prepared)
        bound_logs(prepared, self.every)

    async def declare(self, subscriptions: Sequence[Subscription]) -> None:
        """Retention of the embedded logs keeps what these have not read (rule 10)."""
        for name in self.logs:
            await self._declare(name, subscriptions)

    async def forget(self, subscription: Subscription) -> None:
        """Forget the position of a deleted subscription, so that a later one of its id begins without one."""
        await forget_group(self._config, self.logs, subscription)

    async def healths(self) -> Mapping[LogName, BrokerHealth]:
        """Return the health of every log."""
        return await self._asking.ask("logs", self._ask)

    async def faults(self) -> Faults:
        """Return why nothing can be published to a place, by broker that answers and by place."""
        healths = await self.healths()
        names = [name for name in self.logs if healths[LogName(name)].healthy]
        found = await asyncio.gather(
            *map(self._targets.faults, names)
        )  # a probe does not wait long
        return dict(zip(names, found, strict=True))

    async def lag(
        self, topics: Mapping[str, Sequence[str]], groups: Mapping[str, Sequence[str]]
    ) -> list[GroupLag]:
        """Return the lag of groups. ``topics``, ``groups``: by broker. A broker that cannot be asked now is left
        out."""
        found: list[GroupLag] = []
        for name, log in self.logs.items():
            if name not in topics or not (await log.health()).healthy:
                continue
            try:
                found += (await log.metadata(sorted(set(topics[name])), groups[name])).groups
            except SkybridgeError:  # it went away in between; its health says so
                continue
        return found

    async def metrics(self) -> Sequence[Family]:
        healths = await self.healths()
        own = {name: healths[LogName(name)] for name in self.logs}
        return list(broker_families(own))

    async def _ask(self) -> Mapping[LogName, BrokerHealth]:
        told = await asyncio.gather(*(log.health() for log in self.every.values()))
        return dict(zip(self.every, told, strict=True))

    async def _declare(self, name: str, subscriptions: Sequence[Subscription]) -> None:
        await declare_subscriptions(self._config, name, self.logs[name], subscriptions)

    def _as_if_in_the_file(self) -> Config:
        return self._config.model_copy(update={"subscriptions": self._subscriptions()})
